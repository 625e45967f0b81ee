//! The steps of a pass that look at the world, and what fails on the way.

use super::wish::Wish;
use super::{Pass, observe_views};
use crate::facts::{History, Observed, ReleaseFacts, Revision, SurroundingNamespace, WorkFacts};
use crate::kube_api::ApiError;
use crate::observe;
use crate::plan::Failure;
use crate::reconcile::lock;

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
            // What was idle then may be in use by now, and is read again.
            gpu_work: self.observed.gpu_work.as_ref().and_then(WorkFacts::remembered),
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
            .desired()
            .is_ok_and(|desired| desired.node_feature_discovery != nfd)
        {
            (self.wanted, self.stand_in) = Wish::of(self.module, &self.context.catalogue, nfd);
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
}
