//! How long to wait for an event until looking again without one.

use std::time::Duration;

use jiff::Timestamp;

use super::{Hold, Plan, Wait};

/// How soon to look again where no watch tells of the change.
pub const SOON: Duration = Duration::from_secs(5);

/// How soon to look whether Kubernetes has removed something; people wait for it.
const REMOVAL: Duration = Duration::from_secs(1);

/// How soon to look whether somebody else's stack is gone: its ClusterRole is not watched.
const FOREIGN: Duration = Duration::from_mins(1);

/// Shortest pause, against a loop over a time that has just come.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pause after a pass that ended with `plan`. `recheck` is when the status changes by itself, `compare_at` when the next
/// comparison with the release is due.
pub fn pause(plan: &Plan, now: Timestamp, recheck: Option<Timestamp>, compare_at: Timestamp) -> Duration {
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).ok();
    let by_plan = match plan {
        Plan::Wait {
            until: at,
            why:
                Wait::Backoff
                | Wait::ForeignOperation(_)
                | Wait::Drivers
                | Wait::Work
                | Wait::NodeLabels(_)
                | Wait::Refused { .. },
        } => until(*at),
        Plan::AwaitRemoval { .. }
        | Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        } => Some(REMOVAL),
        Plan::Wait { .. } => Some(SOON),
        Plan::Hold(Hold::Foreign(_) | Hold::UnsupportedKubernetes { .. } | Hold::Unread(_)) => Some(FOREIGN),
        _ => None,
    };
    // A comparison that is due already could not be made in this pass. It waits for the event that allows it.
    let comparison = until(compare_at).filter(|pause| !pause.is_zero());
    let pauses = [by_plan, recheck.and_then(until), comparison];
    pauses
        .into_iter()
        .flatten()
        .min()
        .map_or(FOREIGN, |pause| pause.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::facts::Leavings;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn after(secs: i64) -> Timestamp {
        NOW + SignedDuration::from_secs(secs)
    }

    #[test]
    fn the_earliest_of_all_counts() {
        let wait = |secs| Plan::Wait {
            until: after(secs),
            why: Wait::Backoff,
        };
        let pause = |plan: &Plan, recheck, compare| pause(plan, NOW, recheck, after(compare)).as_secs();
        assert_eq!(pause(&Plan::Keep, None, 3000), 3000);
        assert_eq!(pause(&Plan::Keep, Some(after(600)), 3000), 600);
        assert_eq!(pause(&wait(40), Some(after(600)), 3000), 40);
        assert_eq!(pause(&wait(400), None, 300), 300);
        let removal = Plan::AwaitRemoval {
            what: Leavings::Pods,
            names: vec![],
        };
        assert_eq!(pause(&removal, None, 3000), REMOVAL.as_secs());
        let foreign = Plan::Hold(Hold::Foreign(super::super::Foreign::OtherModule));
        assert_eq!(pause(&foreign, None, 3000), FOREIGN.as_secs());
    }

    #[test]
    fn a_comparison_that_cannot_be_made_is_no_reason_to_hurry() {
        for compare_at in [NOW, after(-3600)] {
            for plan in [Plan::Hold(Hold::Suspended), Plan::Keep] {
                assert_eq!(pause(&plan, NOW, None, compare_at), FOREIGN, "{plan:?}");
            }
            let backoff = Plan::Wait {
                until: after(300),
                why: Wait::Backoff,
            };
            assert_eq!(pause(&backoff, NOW, None, compare_at).as_secs(), 300);
        }
    }
}
