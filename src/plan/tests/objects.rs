//! The objects of the release in the world of runs: one of them, and the CRDs.

use super::world::{Strike, World};
use super::*;
use crate::drift::{Finding, Kind, Manifest, ObjectRef, Repair};
use crate::facts::Seen;

/// The one object of every revision.
fn object() -> ObjectRef {
    ObjectRef {
        kind: Kind::new("v1", "ConfigMap"),
        namespace: None,
        name: "config".to_owned(),
    }
}

impl World<'_> {
    /// Somebody has deleted the object, and one CRD besides; the module does about it what `mode` says.
    pub fn lose_objects(&mut self, mode: DriftMode) {
        self.case.drift_mode = mode;
        self.is_object_lost = true;
        self.case.observed.crds.clear();
    }

    /// True where a CRD of the wanted chart is still lost.
    pub fn has_lost_crds(&self) -> bool {
        let wanted = &self.case.desired.as_ref().unwrap().chart.crds;
        wanted
            .iter()
            .any(|crd| !self.case.observed.crds.contains_key(crd))
    }

    /// Lets time pass until a correction that was put off is due; false where none is.
    pub fn await_correction(&mut self) -> bool {
        let due = self.case.drift.due(self.now);
        self.now = due.unwrap_or(self.now);
        due.is_some()
    }

    /// What `helm get manifest` says of every revision.
    pub fn read_manifest(&mut self, revision: u32, uid: &str) {
        let documents = "{apiVersion: v1, kind: ConfigMap, metadata: {name: config}}";
        let manifest = Manifest::parse(revision, uid, documents).unwrap();
        self.case.drift.begin(manifest);
        self.see();
    }

    /// Compares objects; they are there as wanted, or missing.
    pub fn inspect_objects(&mut self, objects: &[ObjectRef]) {
        for object in objects {
            let finding = self.is_object_lost.then(Finding::missing);
            let (now, drift) = (self.now, &mut self.case.drift);
            drift.note(object.clone(), None, finding, now, 0.0);
        }
    }

    /// Puts objects right, unless something strikes.
    pub fn reapply(&mut self, objects: &[ObjectRef]) {
        let now = self.now;
        if self.strikes.pop().is_some_and(|strike| strike != Strike::None) {
            for object in objects {
                let refused = Finding {
                    repair: Repair::Impossible("the API server refuses it".to_owned()),
                    ..Finding::missing()
                };
                self.case.drift.refused(object, refused, now, 0.0);
            }
            return;
        }
        self.is_object_lost = false;
        for object in objects {
            self.case.drift.corrected(object, now, 0.0);
        }
        self.see();
    }

    /// Applies CRDs.
    pub fn restore_crds(&mut self, crds: &[ObjectRef]) {
        for crd in crds {
            let facts = fixtures::crd(Some("d"));
            self.case.observed.crds.insert(crd.name.clone(), facts);
        }
    }

    fn see(&mut self) {
        // Without a mark: what counts here is whether it is there.
        self.case.observed.objects.insert(object(), Seen::Absent);
    }
}
