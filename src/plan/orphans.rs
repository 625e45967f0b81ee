//! Objects that an upgrade which failed had made, and that what runs now does not have. Helm compares its target with the last
//! revision that worked, so it never removes them, not even with an uninstall.

use super::{LeftBy, Plan, Situation, prune};
use crate::facts::{Orphan, ReleaseFacts, Revision};
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
    match left(s, latest) {
        None => Some(Plan::FindOrphans(revisions)),
        Some(left) => prune::step(s, left.iter().cloned(), LeftBy::FailedUpgrade),
    }
}

/// What is still there of them; `None` where nobody has looked beside that revision.
pub fn left<'a>(s: &Situation<'a>, latest: &Revision) -> Option<&'a [Orphan]> {
    let found = s.orphans.filter(|orphans| orphans.of == latest.uid)?;
    Some(&found.objects)
}
