//! One pass: plan, act, look again, until nothing is left to do now.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::controller::Action as Requeue;

use super::{Context, Error, lock};
use crate::act::{ActError, Subject, release};
use crate::api::{ANNOTATION_RECONCILE_AT, FINALIZER, GpuModule, GpuModuleStatus};
use crate::desired::{self, Desired, Refusal};
use crate::facts::{Observed, SurroundingNamespace};
use crate::helm::{HelmError, RELEASE_FLAGS};
use crate::kube_api::ApiError;
use crate::memory::Memory;
use crate::observe;
use crate::plan::{self, Action, Failure, Hold, Plan, Situation, Wait};
use crate::status::{self, Computed, Ended, Report};

/// Most steps of one pass; the longest known way (finalizer, namespace, recovery, upgrade, comparison) has six.
const MAX_STEPS: u32 = 12;

/// How an action ended.
enum Acted {
    Done,
    Failed,
    /// The operator itself ended it.
    Interrupted,
}

fn api_failure(error: &ApiError) -> Failure {
    Failure {
        reason: "ApiCallFailed",
        message: error.to_string(),
    }
}

fn observe_views(context: &Context) -> Observed {
    context.views.observe(*lock(&context.kubernetes))
}

/// One pass over a GpuModule that can be read.
pub struct Pass<'a> {
    module: &'a GpuModule,
    context: &'a Context,
    generation: i64,
    desired: Result<Desired, Refusal>,
    observed: Observed,
    memory: Memory,
    comparison_due: bool,
    forced_by: Option<String>,
    /// What has been done to the release and is not in the status yet.
    ended: Option<Ended>,
    /// The version of the API server was read in this pass.
    version_read: bool,
}

impl<'a> Pass<'a> {
    /// Gathers what is known.
    pub fn begin(module: &'a GpuModule, context: &'a Context) -> Self {
        let now = (context.clock)();
        let uid = module.uid().unwrap_or_default();
        let mut memory = context.recall(uid);
        let generation = module.metadata.generation.unwrap_or_default();
        let handled = memory.written.as_ref().or(module.status.as_ref());
        let handled = handled.and_then(|status| status.last_handled_reconcile_at.as_ref());
        let forced_by: Option<String> = module
            .annotations()
            .get(ANNOTATION_RECONCILE_AT)
            .map(|value| value.chars().take(status::MAX_ANNOTATION).collect());
        let forced = forced_by.is_some() && forced_by.as_ref() != handled;
        memory.attempts.observe_generation(generation);
        if forced {
            memory.force(now);
        }
        let mut observed = observe_views(context);
        observed.comparison.clone_from(&memory.comparison);
        Self {
            module,
            context,
            generation,
            desired: desired::resolve(&module.spec, &context.catalogue, RELEASE_FLAGS),
            observed,
            comparison_due: now >= memory.compare_at,
            forced_by,
            ended: None,
            version_read: false,
            memory,
        }
    }

    /// Takes steps until nothing is left to do now.
    pub async fn run(mut self) -> Result<Requeue, Error> {
        let result = self.steps().await;
        // Also after an error: what was counted and written stays true.
        *lock(&self.context.memory) = Some(self.memory);
        result
    }

    async fn steps(&mut self) -> Result<Requeue, Error> {
        for _ in 0..MAX_STEPS {
            let plan = plan::decide(&self.situation(self.now()));
            tracing::debug!(?plan, "decided");
            match &plan {
                Plan::Look => self.look().await,
                Plan::Compare => match self.compare().await {
                    Acted::Done | Acted::Failed => self.look().await,
                    Acted::Interrupted => return Ok(Requeue::await_change()),
                },
                // A cluster is upgraded without any event that a watch would see.
                Plan::Hold(Hold::UnsupportedKubernetes { .. }) if !self.version_read => {
                    self.read_version().await;
                }
                Plan::Act(action) => {
                    // A finalizer is set in a moment, and on the very object that the pass began with.
                    if !matches!(action, Action::AddFinalizer | Action::RemoveFinalizer)
                        && let Err(error) = self.publish(&plan).await
                    {
                        // What has to be done does not depend on what can be said.
                        tracing::warn!(%error, "going on without the status");
                    }
                    match (self.act(action).await?, action) {
                        // The GpuModule is another one now, and its change begins the next pass; or the operator is
                        // ending, and its successor goes on from what is there.
                        (Acted::Done, Action::AddFinalizer) | (Acted::Interrupted, _) => {
                            return Ok(Requeue::await_change());
                        }
                        (Acted::Done, Action::RemoveFinalizer) => {
                            self.context.metrics.show(None);
                            return Ok(Requeue::await_change());
                        }
                        (Acted::Done | Acted::Failed, _) => self.look().await,
                    }
                }
                Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval(_) => {
                    return self.end(&plan).await;
                }
            }
        }
        tracing::warn!("the pass took too many steps and is continued later");
        Ok(Requeue::requeue(plan::SOON))
    }

    fn situation(&self, now: Timestamp) -> Situation<'_> {
        Situation {
            now,
            deleting: self.module.metadata.deletion_timestamp.is_some(),
            finalizer: self.module.finalizers().iter().any(|name| name == FINALIZER),
            suspended: self.module.spec.suspend == Some(true),
            desired: self.desired.as_ref(),
            recorded: self.previous().and_then(|status| status.release.as_ref()),
            observed: &self.observed,
            catalogue: &self.context.catalogue,
            attempts: &self.memory.attempts,
            comparison_due: self.comparison_due,
        }
    }

    fn now(&self) -> Timestamp {
        (self.context.clock)()
    }

    /// The status before; what this process wrote may be newer than what the watch has brought.
    fn previous(&self) -> Option<&GpuModuleStatus> {
        self.memory.written.as_ref().or(self.module.status.as_ref())
    }

    /// Observes anew: from the watches, and from the API server what decides about acting.
    async fn look(&mut self) {
        self.observed = Observed {
            comparison: self.observed.comparison.take(),
            ..observe_views(self.context)
        };
        match observe::look(&self.context.actor.client).await {
            Ok(look) => look.put_into(&mut self.observed),
            Err(error) => self.fail(api_failure(&error)),
        }
    }

    /// Reads the version of the API server; true where that was possible.
    async fn read_version(&mut self) -> bool {
        self.version_read = true;
        match observe::kubernetes_version(&self.context.actor.client).await {
            Ok(version) => {
                self.observed.kubernetes = version;
                *lock(&self.context.kubernetes) = version;
                true
            }
            Err(error) => {
                self.fail(api_failure(&error));
                false
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        tracing::warn!(reason = failure.reason, "{}", failure.message);
        let now = self.now();
        self.memory.attempts.failed(failure, now, fastrand::f64());
    }

    /// Reads the newest revision through Helm.
    async fn compare(&mut self) -> Acted {
        self.comparison_due = false;
        if !self.read_version().await {
            return Acted::Failed;
        }
        match observe::read_through_helm(&self.context.actor.helm, &release()).await {
            Ok(comparison) => {
                self.observed.comparison.clone_from(&comparison);
                let now = self.now();
                self.memory.compared(comparison, now, fastrand::f64());
                Acted::Done
            }
            Err(HelmError::Interrupted { .. }) => Acted::Interrupted,
            Err(error) => {
                self.fail(Failure {
                    reason: "ComparisonFailed",
                    message: error.to_string(),
                });
                Acted::Failed
            }
        }
    }

    /// The release of a chart that is only on the way to the wanted one.
    fn step(&self, action: &Action) -> Result<Option<Desired>, Refusal> {
        let (Action::Upgrade { to, .. }, Ok(desired)) = (action, &self.desired) else {
            return Ok(None);
        };
        if *to == desired.step {
            return Ok(None);
        }
        desired::resolve_step(&self.module.spec, &self.context.catalogue, to, RELEASE_FLAGS).map(Some)
    }

    /// Executes an action.
    async fn act(&mut self, action: &Action) -> Result<Acted, Error> {
        let step = match self.step(action) {
            Ok(step) => step,
            Err(refusal) => {
                self.fail(Failure {
                    reason: refusal.reason(),
                    message: refusal.to_string(),
                });
                return Ok(Acted::Failed);
            }
        };
        let around = self.observed.surroundings.as_ref();
        let subject = Subject {
            module: self.module,
            desired: step.as_ref().or_else(|| self.desired.as_ref().ok()),
            release: &self.observed.release,
            crds: &self.observed.crds,
            namespace_is_ours: around.is_none_or(|around| around.namespace != SurroundingNamespace::Foreign),
        };
        tracing::info!(?action, "acting");
        let result = self.context.actor.act(action, &subject).await;
        self.context.views.retry_now();
        match result {
            Ok(()) => {
                if matches!(action, Action::Upgrade { .. }) {
                    self.memory.attempts.succeeded();
                }
                self.ended = Some(Ended {
                    action: action.clone(),
                    failure: None,
                });
                Ok(Acted::Done)
            }
            Err(error) if error.is_interruption() => Ok(Acted::Interrupted),
            // Somebody else changed the object meanwhile: the next pass sees how.
            Err(ActError::Api(error)) if error.is_conflict() => Err(error.into()),
            Err(ActError::Api(error)) if *action == Action::RemoveFinalizer => Err(error.into()),
            Err(error) => {
                self.ended = Some(Ended {
                    action: action.clone(),
                    failure: Some(error.to_string()),
                });
                self.fail(error.failure(action));
                Ok(Acted::Failed)
            }
        }
    }

    async fn end(&mut self, plan: &Plan) -> Result<Requeue, Error> {
        if matches!(plan, Plan::Keep | Plan::Hold(_) | Plan::AwaitRemoval(_)) {
            self.memory.attempts.succeeded();
        }
        let recheck = self.publish(plan).await?;
        if *plan == Plan::Keep {
            self.context.metrics.set_last_success(self.now());
        }
        let pause = plan::pause(plan, self.now(), recheck, self.memory.compare_at);
        Ok(Requeue::requeue(pause))
    }

    /// The failure that is still in the way. What waits for somebody else is past it.
    fn failure(&self, plan: &Plan) -> Option<&Failure> {
        match plan {
            Plan::Wait {
                why: Wait::ForeignOperation(_) | Wait::NamespaceTerminating | Wait::Step { .. },
                ..
            } => None,
            _ => self.memory.attempts.last(),
        }
    }

    /// Computes the status and writes it where it is another than before. Returns when it may change by itself.
    async fn publish(&mut self, plan: &Plan) -> Result<Option<Timestamp>, ApiError> {
        let Computed { status, recheck } = status::compute(&Report {
            now: self.now(),
            generation: self.generation,
            deleting: self.module.metadata.deletion_timestamp.as_ref().map(|at| at.0),
            previous: self.previous(),
            desired: self.desired.as_ref(),
            observed: &self.observed,
            plan,
            failure: self.failure(plan),
            ended: self.ended.as_ref(),
            next_attempt: self.memory.attempts.blocked_until(self.now()),
            handled_reconcile_at: self.forced_by.as_deref(),
        });
        self.context.metrics.show(Some(&status));
        if self.module.status.as_ref() != Some(&status) || self.previous() != Some(&status) {
            self.context
                .publisher
                .write(self.module, self.previous(), &status)
                .await?;
        }
        self.memory.written = Some(status);
        self.ended = None;
        Ok(recheck)
    }
}
