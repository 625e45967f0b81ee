//! What the operator knows of the release's objects between passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::drift::{Finding, Manifest, Mark, ObjectRef, Repair};
use crate::facts::Revision;
use crate::plan::pauses::Pauses;

/// So often an object is put right without a word of it coming back: a person may well do two things to it.
const UNREMARKABLE: u32 = 2;

/// The objects of the newest revision, and what became of them.
#[derive(Clone, Debug, Default)]
pub struct DriftState {
    generation: i64,
    manifest: Option<Arc<Manifest>>,
    /// As each object was when it was last compared; `None`: missing.
    inspected: BTreeMap<ObjectRef, Option<Mark>>,
    findings: BTreeMap<ObjectRef, Finding>,
    /// Each with what was put right last.
    corrections: Pauses<ObjectRef, Finding>,
}

impl DriftState {
    /// The manifest, whatever revision it is of.
    pub fn manifest(&self) -> Option<&Arc<Manifest>> {
        self.manifest.as_ref()
    }

    /// The manifest, if it is of that revision.
    pub fn manifest_of(&self, revision: &Revision) -> Option<&Manifest> {
        self.manifest
            .as_deref()
            .filter(|manifest| manifest.revision == revision.number && manifest.uid == revision.uid)
    }

    /// Begins with the objects of another revision.
    pub fn begin(&mut self, manifest: Manifest) {
        self.manifest = Some(Arc::new(manifest));
        self.inspected.clear();
        self.findings.clear();
    }

    /// How the object was when it was last compared.
    pub fn inspected(&self, object: &ObjectRef) -> Option<&Option<Mark>> {
        self.inspected.get(object)
    }

    /// Notes a comparison. `jitter` is a number from 0 to 1.
    pub fn note(
        &mut self,
        object: ObjectRef,
        mark: Option<Mark>,
        finding: Option<Finding>,
        now: Timestamp,
        jitter: f64,
    ) {
        match finding {
            Some(finding) if finding.is_impossible() => self.refused(&object, finding, now, jitter),
            Some(finding) => drop(self.findings.insert(object.clone(), finding)),
            None => {
                self.findings.remove(&object);
                self.forget_refusals(&object);
            }
        }
        self.inspected.insert(object, mark);
    }

    /// What is wrong with an object.
    pub fn finding(&self, object: &ObjectRef) -> Option<&Finding> {
        self.findings.get(object)
    }

    /// Objects that are other than they should be.
    pub fn findings(&self) -> impl Iterator<Item = (&ObjectRef, &Finding)> {
        self.findings.iter()
    }

    /// Objects that were changed again and again or cannot be put right, each with what is or was wrong.
    pub fn returning(&self) -> impl Iterator<Item = (&ObjectRef, &Finding)> {
        let returning = self.corrections.more_than(UNREMARKABLE);
        returning.map(|(object, last)| (object, self.findings.get(object).unwrap_or(last)))
    }

    /// Whether an object may be put right now.
    pub fn may_correct(&self, object: &ObjectRef, now: Timestamp) -> bool {
        self.corrections.are_over(object, now)
    }

    /// Notes that an object was put right, and has it compared again. `jitter` is a number from 0 to 1.
    pub fn corrected(&mut self, object: &ObjectRef, now: Timestamp, jitter: f64) {
        let finding = self.findings.remove(object).unwrap_or(Finding {
            fields: Vec::new(),
            managers: Vec::new(),
            repair: Repair::Create,
        });
        self.inspected.remove(object);
        self.forget_refusals(object);
        self.corrections.tried(object.clone(), finding, now, jitter);
    }

    /// What could not be put right is no fight with another writer: once it is right, that is past.
    fn forget_refusals(&mut self, object: &ObjectRef) {
        if self.corrections.last(object).is_some_and(Finding::is_impossible) {
            self.corrections.forget(object);
        }
    }

    /// Notes that the API server did not let an object be put right.
    pub fn refused(&mut self, object: &ObjectRef, finding: Finding, now: Timestamp, jitter: f64) {
        self.findings.insert(object.clone(), finding.clone());
        self.corrections.tried(object.clone(), finding, now, jitter);
    }

    /// Notes that an object could not be compared: it is again after a pause of its own, or when a watch sees something else of it than
    /// `seen`. `jitter` is a number from 0 to 1.
    pub fn unread(&mut self, object: &ObjectRef, seen: Option<Mark>, why: &str, now: Timestamp, jitter: f64) {
        self.refused(object, Finding::unread(why), now, jitter);
        self.inspected.insert(object.clone(), seen);
    }

    /// Has every object compared again.
    pub fn inspect_again(&mut self) {
        self.inspected.clear();
    }

    /// Has an object compared again.
    pub fn doubt(&mut self, object: &ObjectRef) {
        self.inspected.remove(object);
    }

    /// Begins anew because a user asks for it: no pauses, and everything is compared.
    pub fn force(&mut self) {
        self.corrections.clear();
        self.inspected.clear();
    }

    /// Forgets corrections of an older generation of the spec.
    pub fn observe_generation(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.corrections.clear();
        }
    }

    /// Forgets corrections of objects that have stayed good since.
    pub fn fade(&mut self, now: Timestamp) {
        self.corrections
            .fade(now, |object| self.findings.contains_key(object));
    }

    /// When something is due without any event: a correction that was put off, or one to be forgotten.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        self.corrections.due(now)
    }
}
