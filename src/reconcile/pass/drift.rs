//! The steps of a pass that are about objects of the release: read the manifest, compare, put right.

use std::collections::BTreeSet;

use super::steps::api_failure;
use super::{Acted, Pass};
use crate::act::{Reapplied, release};
use crate::api::DriftMode;
use crate::drift::{Manifest, ObjectRef};
use crate::facts::Seen;
use crate::helm::HelmError;
use crate::observe;
use crate::plan::{Action, Failure};
use crate::status::Ended;

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

    /// Compares objects with the manifest.
    pub(super) async fn inspect(&mut self, objects: &[ObjectRef]) {
        let Some(manifest) = self.memory.drift.manifest().cloned() else {
            return;
        };
        let actor = &self.context.actor;
        let manager = actor.helm.field_manager();
        let results = observe::inspect(&actor.kinds, &manager, &manifest, objects).await;
        let mut failure = None;
        for result in results {
            let inspection = match result {
                Ok(inspection) => inspection,
                Err(error) => {
                    failure = Some(api_failure(&error));
                    continue;
                }
            };
            let observe::Inspection {
                object,
                mark,
                finding,
            } = inspection;
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
        if let Some(failure) = failure {
            self.fail(failure);
        }
    }

    /// What was read of objects in this pass is newer than what the watches have told.
    pub(super) fn overlay(&mut self) {
        let seen = self
            .seen
            .iter()
            .map(|(object, seen)| (object.clone(), seen.clone()));
        self.observed.objects.extend(seen);
        for crd in &self.restored {
            if let Some(known) = self.observed.crds.get_mut(&crd.name) {
                known.as_applied = true;
            }
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
            self.memory.ended.push(Ended {
                action: Action::Reapply {
                    objects: objects.to_vec(),
                    why: why.to_owned(),
                },
                failure: None,
            });
        }
        match failure {
            Some(failure) => {
                self.fail(failure);
                Acted::Failed
            }
            None => Acted::Done,
        }
    }
}
