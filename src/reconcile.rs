//! The pipeline: resource -> desired -> observed -> plan -> act -> status, for one pass.
//!
//! Drives the steps and holds no rules. The only file that asks for the time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action as Requeue;
use semver::Version;
use serde_json::json;

use crate::act::{ActError, Actor, Subject, release};
use crate::api::{ANNOTATION_RECONCILE_AT, FINALIZER, GpuModule, GpuModuleStatus};
use crate::catalogue::{Catalogue, MinorVersion};
use crate::desired::{self, Desired, Refusal, digest};
use crate::facts::{Comparison, Observed, SurroundingNamespace};
use crate::helm::{HelmError, RELEASE_FLAGS};
use crate::kube_api::ApiError;
use crate::memory::Memory;
use crate::metrics::{Metrics, ReleaseLabels};
use crate::observe::{self, Views};
use crate::plan::{self, Action, Plan, Situation, Wait};
use crate::publish::Publisher;
use crate::status::{self, Computed, Failure, Report};

/// Most steps of one pass; the longest known way (finalizer, namespace, recovery, upgrade, comparison) has six.
const MAX_STEPS: u32 = 12;

/// How soon to look again where no watch tells of the change.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN_SOON: Duration = Duration::from_secs(5);

/// Least time between two passes without an event.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Everything that a pass takes.
pub struct Context {
    /// The chart catalogue.
    pub catalogue: Catalogue,
    /// The watches.
    pub views: Views,
    /// The one who acts.
    pub actor: Actor,
    /// The one who writes the status.
    pub publisher: Publisher,
    /// Metrics.
    pub metrics: Metrics,
    /// Version of the API server, as last read.
    pub kubernetes: Mutex<MinorVersion>,
    /// Memory of the one GpuModule.
    pub memory: Mutex<Option<Memory>>,
}

/// Why a pass could not even say what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// One pass over the GpuModule.
pub async fn reconcile(
    module: Arc<DeserializeGuard<GpuModule>>,
    context: Arc<Context>,
) -> Result<Requeue, Error> {
    let name = module.name_any();
    match &module.0 {
        Ok(module) => Pass::begin(module, &context).run().await,
        Err(invalid) => {
            tracing::warn!(
                module = name,
                error = invalid.error,
                "the GpuModule cannot be read"
            );
            context
                .publisher
                .write_raw(&name, &unreadable(&invalid.error))
                .await?;
            Ok(Requeue::await_change())
        }
    }
}

/// The status of an object that is no valid GpuModule, for example after a downgrade of the module.
fn unreadable(error: &str) -> serde_json::Value {
    let error: String = error.chars().take(256).collect();
    json!({
        "state": "Warning",
        "description": format!("this version of the module cannot read the spec, correct it: {error}"),
        "observedGeneration": 0,
        "conditions": [],
        "gpuNodes": { "total": 0, "usable": 0, "summary": "0/0" },
    })
}

/// When to try again after an [`Error`]; failures of actions have their own, growing pause.
pub fn error_policy(_: Arc<DeserializeGuard<GpuModule>>, error: &Error, _: Arc<Context>) -> Requeue {
    let Error::Api(cause) = error;
    if cause.is_conflict() {
        // Normal: the pass began with an object older than the status just written, and its change begins the next one.
        tracing::debug!(%error, "the pass is repeated");
    } else {
        tracing::warn!(%error, "the pass failed and is tried again");
    }
    Requeue::requeue(LOOK_AGAIN_SOON)
}

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

struct Pass<'a> {
    module: &'a GpuModule,
    context: &'a Context,
    generation: i64,
    desired: Result<Desired, Refusal>,
    observed: Observed,
    memory: Memory,
    comparison_due: bool,
    forced_by: Option<String>,
}

impl<'a> Pass<'a> {
    fn begin(module: &'a GpuModule, context: &'a Context) -> Self {
        let now = now();
        let uid = module.uid().unwrap_or_default();
        let known = lock(&context.memory).take().filter(|memory| memory.uid == uid);
        let mut memory = known.unwrap_or_else(|| Memory::new(uid, now, fastrand::f64()));
        let generation = module.metadata.generation.unwrap_or_default();
        let handled = memory.written.as_ref().or(module.status.as_ref());
        let handled = handled.and_then(|status| status.last_handled_reconcile_at.as_ref());
        let forced_by = module.annotations().get(ANNOTATION_RECONCILE_AT);
        let forced = forced_by.is_some() && forced_by != handled;
        memory.begin_anew(generation, forced);
        if forced {
            memory.compare_at = now;
        }
        let mut observed = context.views.observe(*lock(&context.kubernetes));
        observed.comparison.clone_from(&memory.comparison);
        Self {
            module,
            context,
            generation,
            desired: desired::resolve(&module.spec, &context.catalogue, RELEASE_FLAGS),
            observed,
            comparison_due: now >= memory.compare_at,
            forced_by: forced_by.cloned(),
            memory,
        }
    }

    async fn run(mut self) -> Result<Requeue, Error> {
        let result = self.steps().await;
        // Also after an error: what was counted and written stays true.
        *lock(&self.context.memory) = Some(self.memory);
        result
    }

    async fn steps(&mut self) -> Result<Requeue, Error> {
        for _ in 0..MAX_STEPS {
            let plan = plan::decide(&self.situation(now()));
            tracing::debug!(?plan, "decided");
            match &plan {
                Plan::Look => self.look().await,
                Plan::Compare => {
                    self.compare().await;
                    self.look().await;
                }
                Plan::Act(action) => {
                    // A finalizer is set in a moment, and on the very object that the pass began with.
                    if !matches!(action, Action::AddFinalizer | Action::RemoveFinalizer) {
                        self.publish(&plan).await?;
                    }
                    match (self.act(action).await?, action) {
                        (Acted::Done, Action::AddFinalizer | Action::RemoveFinalizer) => {
                            // The GpuModule is another one now; its change begins the next pass.
                            return Ok(Requeue::await_change());
                        }
                        // The operator is ending; its successor goes on from what is there.
                        (Acted::Interrupted, _) => return Ok(Requeue::await_change()),
                        (Acted::Done | Acted::Failed, _) => self.look().await,
                    }
                }
                Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval(_) => {
                    return self.end(&plan).await;
                }
            }
        }
        tracing::warn!("the pass took too many steps and is continued later");
        Ok(Requeue::requeue(LOOK_AGAIN_SOON))
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
            attempts: &self.memory.attempts,
            comparison_due: self.comparison_due,
        }
    }

    /// The status before; what this process wrote may be newer than what the watch has brought.
    fn previous(&self) -> Option<&GpuModuleStatus> {
        self.memory.written.as_ref().or(self.module.status.as_ref())
    }

    /// Reads from the API server what decides about acting.
    async fn look(&mut self) {
        let client = &self.context.actor.client;
        let read = async {
            Ok((
                observe::read_release(client).await?,
                observe::read_surroundings(client, now()).await?,
            ))
        };
        match read.await {
            Ok((release, surroundings)) => {
                self.observed.release = release;
                self.observed.surroundings = Some(surroundings);
            }
            Err(error) => {
                self.observed.surroundings = None;
                self.fail(api_failure(&error));
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        tracing::warn!(reason = failure.reason, "{}", failure.message);
        self.memory.failed(failure, now(), fastrand::f64());
    }

    /// Reads the newest revision through Helm.
    async fn compare(&mut self) {
        self.comparison_due = false;
        match observe::kubernetes_version(&self.context.actor.client).await {
            Ok(version) => {
                self.observed.kubernetes = version;
                *lock(&self.context.kubernetes) = version;
            }
            Err(error) => return self.fail(api_failure(&error)),
        }
        match self.read_through_helm().await {
            Ok(comparison) => {
                self.observed.comparison.clone_from(&comparison);
                self.memory.compared(comparison, now(), fastrand::f64());
            }
            Err(HelmError::Interrupted { .. }) => {}
            Err(error) => {
                self.fail(Failure {
                    reason: "ComparisonFailed",
                    message: error.to_string(),
                });
            }
        }
    }

    async fn read_through_helm(&self) -> Result<Option<Comparison>, HelmError> {
        let helm = &self.context.actor.helm;
        let release = release();
        let Some(found) = helm.get_metadata(&release).await? else {
            return Ok(None);
        };
        let Some(values) = helm.get_values(&release, Some(found.revision)).await? else {
            return Ok(None);
        };
        let version = found.version.trim_start_matches('v');
        let chart_version = Version::parse(version).map_err(|error| HelmError::Output {
            verb: "get metadata",
            reason: format!("chart version {version} cannot be read: {error}"),
        })?;
        Ok(Some(Comparison {
            revision: found.revision,
            chart_version,
            app_version: found.app_version,
            values_digest: digest([values.to_string().as_bytes()]),
        }))
    }

    /// Executes an action.
    async fn act(&mut self, action: &Action) -> Result<Acted, Error> {
        let around = self.observed.surroundings.as_ref();
        let subject = Subject {
            module: self.module,
            desired: self.desired.as_ref().ok(),
            release: &self.observed.release,
            crds: &self.observed.crds,
            namespace_is_ours: around.is_none_or(|around| around.namespace != SurroundingNamespace::Foreign),
        };
        tracing::info!(?action, "acting");
        let result = self.context.actor.act(action, &subject).await;
        self.context.views.retry_now();
        match result {
            Ok(()) => Ok(Acted::Done),
            Err(error) if error.is_interruption() => Ok(Acted::Interrupted),
            // Somebody else changed the object meanwhile: the next pass sees how.
            Err(ActError::Api(error)) if error.is_conflict() => Err(error.into()),
            Err(ActError::Api(error)) if *action == Action::RemoveFinalizer => Err(error.into()),
            Err(error) => {
                self.fail(error.failure(action));
                Ok(Acted::Failed)
            }
        }
    }

    async fn end(&mut self, plan: &Plan) -> Result<Requeue, Error> {
        if matches!(plan, Plan::Keep | Plan::Hold(_) | Plan::AwaitRemoval(_)) {
            self.memory.succeeded();
        }
        let recheck = self.publish(plan).await?;
        if *plan == Plan::Keep {
            self.context.metrics.set_last_success(now());
        }
        let now = now();
        let by_plan = match plan {
            Plan::Wait {
                until,
                why: Wait::Backoff | Wait::ForeignOperation(_),
            } => Some(*until),
            Plan::AwaitRemoval(_) | Plan::Wait { .. } => Some(now + LOOK_AGAIN_SOON),
            Plan::Hold(_) => Some(now + LOOK_AGAIN),
            _ => None,
        };
        let times = [by_plan, recheck, Some(self.memory.compare_at)];
        Ok(Requeue::requeue(pause(now, times)))
    }

    /// Computes the status and writes it where it is another than before. Returns when it may change by itself.
    async fn publish(&mut self, plan: &Plan) -> Result<Option<Timestamp>, ApiError> {
        let Computed { status, recheck } = status::compute(&Report {
            now: now(),
            generation: self.generation,
            deleting: self.module.metadata.deletion_timestamp.as_ref().map(|at| at.0),
            previous: self.previous(),
            desired: self.desired.as_ref(),
            observed: &self.observed,
            plan,
            failure: self.memory.failure.as_ref(),
            handled_reconcile_at: self.forced_by.as_deref(),
        });
        self.measure(&status);
        if self.module.status.as_ref() != Some(&status) || self.previous() != Some(&status) {
            self.context
                .publisher
                .write(self.module, self.previous(), &status)
                .await?;
        }
        self.memory.written = Some(status);
        Ok(recheck)
    }

    fn measure(&self, status: &GpuModuleStatus) {
        let metrics = &self.context.metrics;
        metrics.set_module(Some(status.state));
        metrics.set_gpu_nodes(status.gpu_nodes.total, status.gpu_nodes.usable);
        let branch = status.driver.as_ref().and_then(|driver| driver.branch);
        let labels = status.release.as_ref().map(|release| ReleaseLabels {
            chart_version: release.chart_version.clone(),
            app_version: release.app_version.clone(),
            driver_branch: branch.map(|branch| branch.to_string()).unwrap_or_default(),
        });
        metrics.set_release(labels.as_ref());
    }
}

/// How long until the first of the times. One that has passed was for this pass; a comparison that was due and that the plan
/// had no use for, as with `spec.suspend`, must not make passes follow each other without a pause.
fn pause(now: Timestamp, times: [Option<Timestamp>; 3]) -> Duration {
    let next = times.into_iter().flatten().filter(|time| *time > now).min();
    let pause = next.map_or(LOOK_AGAIN, |next| {
        Duration::try_from(next.duration_since(now)).unwrap_or(LOOK_AGAIN)
    });
    pause.max(SHORTEST_PAUSE)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "the one place that asks for the time")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn the_next_pass_is_at_the_first_time_to_come() {
        let now = Timestamp::UNIX_EPOCH;
        let (past, soon) = (
            now - SignedDuration::from_hours(1),
            now + SignedDuration::from_secs(7),
        );
        let later = now + SignedDuration::from_hours(1);
        assert_eq!(
            pause(now, [Some(later), Some(soon), None]),
            Duration::from_secs(7)
        );
        assert_eq!(pause(now, [None, Some(soon), Some(past)]), Duration::from_secs(7));
        assert_eq!(pause(now, [None, None, Some(past)]), LOOK_AGAIN);
        assert_eq!(
            pause(now, [Some(now + SignedDuration::from_nanos(1)), None, None]),
            SHORTEST_PAUSE
        );
    }
}
