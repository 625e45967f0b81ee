//! Objects that an upgrade which failed had made, and that what runs now does not have. Helm compares its target with the last
//! revision that worked, so it never removes them, not even with an uninstall.

use super::{Action, LeftBy, Plan, Situation};
use crate::facts::{ReleaseFacts, Revision};
use crate::helm::RevisionStatus;

/// The next step about them once the newest revision is deployed. They are looked for once per revision and process, and only where a
/// revision before it came to nothing.
pub fn step(s: &Situation<'_>, latest: &Revision) -> Option<Plan> {
    let ReleaseFacts::Read(history) = &s.observed.release else {
        return None;
    };
    let came_to_nothing = |revision: &&Revision| {
        revision.number < latest.number
            && (revision.status == RevisionStatus::Failed || revision.status.is_pending())
    };
    let revisions: Vec<_> = history
        .all()
        .iter()
        .filter(came_to_nothing)
        .map(|revision| revision.number)
        .collect();
    if revisions.is_empty() {
        return None;
    }
    match s.orphans.filter(|orphans| orphans.of == latest.uid) {
        None => Some(Plan::FindOrphans(revisions)),
        Some(orphans) if orphans.objects.is_empty() => None,
        Some(orphans) => Some(Plan::Act(Action::Prune {
            objects: orphans.objects.clone(),
            left_by: LeftBy::FailedUpgrade,
        })),
    }
}
