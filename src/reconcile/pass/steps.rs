//! The steps of a pass that touch the world: look, compare, act.

use super::{Acted, Pass, observe_views, wanted};
use crate::act::{ActError, Subject};
use crate::api::NodeFeatureDiscovery;
use crate::desired::{self, Desired, Refusal};
use crate::facts::{History, Observed, ReleaseFacts, Revision, SurroundingNamespace};
use crate::helm::RELEASE_FLAGS;
use crate::kube_api::ApiError;
use crate::observe;
use crate::plan::{self, Action, Failure, LeftBy, NfdCrds};
use crate::reconcile::{Error, lock};
use crate::status::Ended;

pub(super) fn api_failure(error: &ApiError) -> Failure {
    Failure {
        reason: "ApiCallFailed",
        message: error.to_string(),
    }
}

impl Pass<'_> {
    /// Observes anew: from the watches, and from the API server what decides about acting.
    pub(super) async fn look(&mut self) {
        // Before the module made it, there was no namespace to hold a revision.
        let was_absent = matches!(self.observed.release, ReleaseFacts::Unreadable)
            && self
                .observed
                .surroundings
                .as_ref()
                .is_some_and(|around| around.namespace == SurroundingNamespace::Absent);
        self.observed = Observed {
            comparison: self.observed.comparison.take(),
            gpu_work: self.observed.gpu_work.take(),
            maintenance: self.observed.maintenance.take(),
            existing: self.observed.existing.take(),
            gpu_clusters: self.observed.gpu_clusters.take(),
            left: self.observed.take_cleared(),
            ..observe_views(self.module, self.context, &self.memory)
        };
        self.overlay();
        if was_absent && self.observed.release == ReleaseFacts::Unreadable {
            self.observed.release = ReleaseFacts::Read(History::default());
        }
        match observe::look(&self.context.actor.client, &self.observed.release).await {
            Ok(look) => look.put_into(&mut self.observed),
            Err(error) => self.fail(api_failure(&error)),
        }
        let nfd = self.memory.nfd.settle(&self.observed, self.now());
        if self
            .desired
            .as_ref()
            .is_ok_and(|desired| desired.node_feature_discovery != nfd)
        {
            self.desired = wanted(self.module, &self.context.catalogue, nfd);
        }
    }

    /// Reads the version of the API server; true where that was possible.
    pub(super) async fn read_version(&mut self) -> bool {
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

    /// The newest revision.
    pub(super) fn newest(&self) -> Option<&Revision> {
        self.observed.release.latest()
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        tracing::warn!(reason = failure.reason, "{}", failure.message);
        let now = self.now();
        // What fails after a failure, for example the look at what it has led to, is no further try.
        if !std::mem::replace(&mut self.failed, true) {
            self.memory.attempts.failed(failure, now, fastrand::f64());
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
        let nfd = desired.node_feature_discovery;
        let catalogue = &self.context.catalogue;
        desired::resolve_step(&self.module.spec, catalogue, nfd, to, RELEASE_FLAGS).map(Some)
    }

    /// Executes an action.
    pub(super) async fn act(&mut self, action: &Action) -> Result<Acted, Error> {
        if let Action::Reapply { objects, why } = action {
            return Ok(self.reapply(objects, why).await);
        }
        if let Action::Clear { what, objects } = action {
            return Ok(self.clear(*what, objects).await);
        }
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
        let running_driver = plan::running_driver(&self.situation(self.now()));
        let around = self.observed.surroundings.as_ref();
        let subject = Subject {
            module: self.module,
            desired: step.as_ref().or_else(|| self.desired.as_ref().ok()),
            release: &self.observed.release,
            crds: &self.observed.crds,
            running_driver: running_driver.as_ref(),
            nfd_crds: NfdCrds::of(
                self.desired.as_ref().map_or_else(
                    |_| NodeFeatureDiscovery::default(),
                    |desired| desired.node_feature_discovery,
                ),
                &self.observed,
            ),
            namespace_is_ours: around.is_none_or(|around| around.namespace != SurroundingNamespace::Foreign),
        };
        let Some(mandate) = (self.context.mandates)() else {
            return Ok(Acted::Interrupted);
        };
        tracing::info!(?action, "acting");
        let newest = self.newest().map(|newest| newest.uid.clone());
        let result = self.context.actor.act(mandate, action, &subject).await;
        self.context.views.retry_now();
        self.memory.unmoved = newest.filter(|_| action.changes_release());
        match result {
            Ok(()) => {
                if matches!(action, Action::Upgrade { .. }) {
                    self.memory.attempts.succeeded();
                }
                if matches!(
                    action,
                    Action::Prune {
                        left_by: LeftBy::FailedUpgrade,
                        ..
                    }
                ) && let Some(orphans) = &mut self.memory.orphans
                {
                    orphans.objects.clear();
                }
                if let Action::RestoreCrds { crds } = action {
                    self.restored(crds);
                }
                self.memory.ended.push(Ended {
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
                self.memory.ended.push(Ended {
                    action: action.clone(),
                    failure: Some(error.to_string()),
                });
                self.fail(error.failure(action));
                Ok(Acted::Failed)
            }
        }
    }
}
