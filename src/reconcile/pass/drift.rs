//! The steps of a pass that are about objects of the release: read the manifest, compare, put right, delete what was left behind.

use std::collections::BTreeSet;

use super::steps::api_failure;
use super::{Acted, Pass};
use crate::act::{Reapplied, release};
use crate::api::DriftMode;
use crate::drift::{Manifest, ObjectRef};
use crate::facts::{CrdFacts, Orphan, Seen, SurroundingNamespace};
use crate::helm::HelmError;
use crate::kube_api::ApiError;
use crate::observe;
use crate::plan::{Action, Failure, LeftBy};

impl Pass<'_> {
    /// Reads what objects a revision consists of.
    pub(super) async fn read_manifest(&mut self, revision: u32, uid: &str) -> Acted {
        let failed = |reason: String| Failure {
            reason: "ManifestUnreadable",
            message: format!("the objects of revision {revision} cannot be read: {reason}"),
        };
        let read = self.context.actor.helm.get_manifest(&release(), revision).await;
        let failure = match read {
            Ok(Some(documents)) => match Manifest::parse(revision, uid, &documents) {
                Ok(manifest) => {
                    self.memory.drift.begin(manifest);
                    self.follow();
                    return Acted::Done;
                }
                Err(reason) => failed(reason),
            },
            Ok(None) => failed("Helm does not know it any more".to_owned()),
            Err(HelmError::Interrupted { .. }) => return Acted::Interrupted,
            Err(error) => failed(error.to_string()),
        };
        self.fail(failure);
        Acted::Failed
    }

    /// Watches what the manifest holds, or nothing where nobody wants to know.
    pub(super) fn follow(&self) {
        let places = match self.memory.drift.manifest() {
            Some(manifest)
                if self.removal.is_none() && self.module.spec.drift_mode() != DriftMode::Ignore =>
            {
                manifest.kinds()
            }
            _ => BTreeSet::new(),
        };
        self.context.views.follow(&places);
    }

    /// Compares objects with the manifest. One that cannot be compared keeps no other one back.
    pub(super) async fn inspect(&mut self, objects: &[ObjectRef]) -> Acted {
        let Some(manifest) = self.memory.drift.manifest().cloned() else {
            return Acted::Done;
        };
        let actor = &self.context.actor;
        let manager = actor.helm.field_manager();
        let results = observe::inspect(&actor.kinds, &manager, &manifest, objects).await;
        // The rights in a namespace go with it, of whose deletion no watch tells.
        let refused =
            |(_, result): &(_, Result<_, ApiError>)| result.as_ref().is_err_and(ApiError::is_forbidden);
        if results.iter().any(refused) {
            self.look().await;
            if self.namespace_goes() {
                return Acted::Done;
            }
        }
        let mut failure = None;
        for (object, result) in results {
            let observe::Inspection { mark, finding } = match result {
                Ok(inspection) => inspection,
                Err(error) if error.is_unreachable() => {
                    failure = Some(api_failure(&error));
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%object, %error, "cannot be compared");
                    let seen = match self.observed.objects.get(&object) {
                        Some(Seen::Marked(mark)) => Some(mark.clone()),
                        Some(Seen::Absent) | None => None,
                    };
                    let (why, now) = (error.to_string(), self.now());
                    self.memory
                        .drift
                        .unread(&object, seen, &why, now, fastrand::f64());
                    continue;
                }
            };
            let fields = finding.as_ref().map(|finding| finding.fields.join(", "));
            tracing::debug!(%object, ?fields, "compared");
            // The watch may not have told of this version yet.
            let seen = mark.clone().map_or(Seen::Absent, Seen::Marked);
            self.seen.insert(object.clone(), seen);
            self.memory
                .drift
                .note(object, mark, finding, self.now(), fastrand::f64());
        }
        self.overlay();
        self.failed_by(failure)
    }

    fn namespace_goes(&self) -> bool {
        let around = self.observed.surroundings.as_ref();
        around.is_some_and(|around| around.namespace == SurroundingNamespace::Terminating)
    }

    /// What was read of objects in this pass is newer than what the watches have told.
    pub(super) fn overlay(&mut self) {
        let seen = self
            .seen
            .iter()
            .map(|(object, seen)| (object.clone(), seen.clone()));
        self.observed.objects.extend(seen);
        for crd in &self.restored {
            let known = self.observed.crds.entry(crd.name.clone());
            let known = known.or_insert_with(CrdFacts::applied);
            known.as_applied = true;
            known.spec_digest.get_or_insert_default();
        }
    }

    /// Notes that CRDs of the chart are back: objects of their kinds can be, too.
    pub(super) fn restored(&mut self, crds: &[ObjectRef]) {
        let now = self.now();
        for crd in crds {
            self.context.actor.metrics.record_correction(&crd.kind.kind);
            self.memory.drift.corrected(crd, now, fastrand::f64());
        }
        self.memory.drift.inspect_again();
        self.restored.extend_from_slice(crds);
    }

    /// Puts objects right.
    pub(super) async fn reapply(&mut self, objects: &[ObjectRef], why: &str) -> Acted {
        let Some(mandate) = (self.context.mandates)() else {
            return Acted::Interrupted;
        };
        let results = self
            .context
            .actor
            .reapply(mandate, objects, &self.memory.drift)
            .await;
        self.context.views.retry_now();
        let now = self.now();
        let (mut failure, mut done) = (None, false);
        for (object, result) in results {
            match result {
                Ok(Reapplied::Done) => {
                    self.context.actor.metrics.record_correction(&object.kind.kind);
                    self.memory.drift.corrected(&object, now, fastrand::f64());
                    done = true;
                }
                Ok(Reapplied::Overtaken) => self.memory.drift.doubt(&object),
                Ok(Reapplied::Refused(finding)) => {
                    tracing::warn!(%object, repair = ?finding.repair, "cannot be put right");
                    self.memory.drift.refused(&object, finding, now, fastrand::f64());
                }
                Err(error) => failure = Some(api_failure(&error)),
            }
        }
        // Where something greater was done before it, the history tells of that.
        if done && self.memory.ended.is_empty() {
            let (objects, why) = (objects.to_vec(), why.to_owned());
            self.ended(&Action::Reapply { objects, why }, None);
        }
        self.failed_by(failure)
    }

    /// Deletes what was left behind beside the release.
    pub(super) async fn prune(&mut self, objects: &[Orphan], left_by: LeftBy) -> Acted {
        let Some(mandate) = (self.context.mandates)() else {
            return Acted::Interrupted;
        };
        let results = self.context.actor.prune(mandate, objects).await;
        let now = self.now();
        let (mut failure, mut done) = (None, Vec::new());
        for (orphan, result) in objects.iter().zip(results) {
            let object = &orphan.object;
            let refused = match result {
                Ok(()) => {
                    done.push(orphan.clone());
                    None
                }
                Err(error) if error.is_unreachable() => {
                    failure = Some(api_failure(&error));
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%object, %error, "what was left behind cannot be deleted");
                    Some(error.to_string())
                }
            };
            self.memory
                .pruned
                .tried(object.clone(), refused, now, fastrand::f64());
        }
        if let (LeftBy::FailedUpgrade, Some(orphans)) = (left_by, &mut self.memory.orphans) {
            orphans.objects.retain(|orphan| !done.contains(orphan));
        }
        if !done.is_empty() {
            let objects = done;
            self.ended(&Action::Prune { objects, left_by }, None);
        }
        self.failed_by(failure)
    }

    fn failed_by(&mut self, failure: Option<Failure>) -> Acted {
        let Some(failure) = failure else {
            return Acted::Done;
        };
        self.fail(failure);
        Acted::Failed
    }
}
