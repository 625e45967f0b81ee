//! Objects that were left behind beside the release are deleted, each with a pause of its own: one that cannot be deleted keeps neither
//! the others nor anything else back.

use super::pauses::Pauses;
use super::{Action, LeftBy, Plan, Situation, left_drivers, orphans};
use crate::drift::ObjectRef;
use crate::facts::Orphan;

/// So many tries are nobody's business: what keeps an object from going may well be over in a moment.
const UNREMARKABLE: u32 = 2;

/// Objects that were deleted lately, each with why the last try failed, if it did.
pub type Pruned = Pauses<ObjectRef, Option<String>>;

/// Deletes those of the objects whose pause is over.
pub fn step(s: &Situation<'_>, objects: impl Iterator<Item = Orphan>, left_by: LeftBy) -> Option<Plan> {
    let due = objects.filter(|orphan| s.pruned.are_over(&orphan.object, s.now));
    let objects: Vec<_> = due.collect();
    (!objects.is_empty()).then_some(Plan::Act(Action::Prune { objects, left_by }))
}

/// What is still left behind after several tries, each object with the reason.
pub fn undeleted(s: &Situation<'_>) -> Vec<(ObjectRef, String)> {
    let Some(latest) = s.observed.release.latest() else {
        return Vec::new();
    };
    let drivers = s
        .desired
        .into_iter()
        .flat_map(|desired| left_drivers::left(s, desired));
    let left = orphans::left(s, latest)
        .into_iter()
        .flatten()
        .cloned()
        .chain(drivers);
    let told = left.filter(|orphan| s.pruned.tries(&orphan.object).0 > UNREMARKABLE);
    told.map(|orphan| {
        let why = s.pruned.last(&orphan.object).cloned().flatten();
        let why = why.unwrap_or_else(|| "it is made anew each time".to_owned());
        (orphan.object, why)
    })
    .collect()
}
