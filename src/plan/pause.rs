//! How long to wait for an event until looking again without one.

use std::time::Duration;

use jiff::Timestamp;

use super::{Hold, Plan, Wait};

/// How soon to look again where no watch tells of the change.
pub const SOON: Duration = Duration::from_secs(5);

/// How soon to look whether Kubernetes has removed something; people wait for it.
const REMOVAL: Duration = Duration::from_secs(1);

/// The longest pause between two such looks, each of which takes dozens of requests.
const LONGEST_REMOVAL: Duration = Duration::from_secs(30);

/// The part of the time waited that passes until the next look, so that it tells at most that much later.
const REMOVAL_PART: u32 = 20;

/// How soon to look whether somebody else's stack is gone: its ClusterRole is not watched.
const FOREIGN: Duration = Duration::from_mins(1);

/// Shortest pause, against a loop over a time that has just come.
const SHORTEST: Duration = Duration::from_millis(100);

/// The pause after a pass that ended with `plan`. `waits_since` is when what it waits for began, `recheck` when the status changes by
/// itself, `compare_at` when the next comparison with the release is due.
pub fn pause(
    plan: &Plan,
    now: Timestamp,
    waits_since: Option<Timestamp>,
    recheck: Option<Timestamp>,
    compare_at: Timestamp,
) -> Duration {
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).ok();
    let by_plan = match plan {
        Plan::Wait {
            until: at,
            why: Wait::Backoff | Wait::ForeignOperation(_) | Wait::Drivers | Wait::Work | Wait::Refused { .. },
        } => until(*at),
        Plan::AwaitRemoval { .. }
        | Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        } => Some(while_kubernetes_removes(now, waits_since)),
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

fn while_kubernetes_removes(now: Timestamp, since: Option<Timestamp>) -> Duration {
    let waited = since.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    let part = waited.unwrap_or_default() / REMOVAL_PART;
    part.clamp(REMOVAL, LONGEST_REMOVAL)
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
        let pause = |plan: &Plan, recheck, compare| pause(plan, NOW, None, recheck, after(compare)).as_secs();
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
    fn what_kubernetes_is_long_in_removing_is_looked_at_less_and_less() {
        let removal = Plan::AwaitRemoval {
            what: Leavings::Pods,
            names: vec![],
        };
        let terminating = Plan::Wait {
            until: NOW,
            why: Wait::NamespaceTerminating,
        };
        for plan in [removal, terminating] {
            for (waited, expected) in [(-5, 1), (0, 1), (20, 1), (100, 5), (600, 30), (86_400, 30)] {
                let pause = pause(&plan, after(waited), Some(NOW), None, after(100_000));
                assert_eq!(pause.as_secs(), expected, "{waited} s of {plan:?}");
            }
        }
    }

    #[test]
    fn a_comparison_that_cannot_be_made_is_no_reason_to_hurry() {
        for compare_at in [NOW, after(-3600)] {
            for plan in [Plan::Hold(Hold::Suspended), Plan::Keep] {
                assert_eq!(pause(&plan, NOW, None, None, compare_at), FOREIGN, "{plan:?}");
            }
            let backoff = Plan::Wait {
                until: after(300),
                why: Wait::Backoff,
            };
            assert_eq!(pause(&backoff, NOW, None, None, compare_at).as_secs(), 300);
        }
    }
}
