//! What waits after a failure, and for how long.

use super::*;

#[test]
fn failures_pause_changes() {
    let mut case = Case::ours(&[RevisionStatus::Deployed, RevisionStatus::Failed]);
    case.attempts.failed(failure(), NOW, 1.0);
    let until = case.attempts.blocked_until(NOW).unwrap();
    assert_eq!(
        case.plan(),
        Plan::Wait {
            until,
            why: Wait::Backoff
        }
    );
    assert_eq!(case.plan_at(until), upgrade(Cause::Retry));

    case.observed.release = ReleaseFacts::Read(History::default());
    case.deleting = true;
    assert_eq!(case.plan_at(until), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn nothing_is_tried_after_a_failure_in_the_same_pass_however_long_the_pass_takes() {
    let hours_later = NOW + SignedDuration::from_hours(2);
    let mut upgrade = Case::ours(&[RevisionStatus::Deployed, RevisionStatus::Failed]);
    let mut last = Case::new();
    (last.deleting, last.recorded) = (true, Some(recorded(1)));
    let mut look = Case::new();
    look.observed.surroundings = None;
    for case in [&mut upgrade, &mut last, &mut look] {
        assert!(matches!(case.plan(), Plan::Act(_) | Plan::Look));
        case.attempts.failed(failure(), NOW, 1.0);
        case.failed = true;
        for now in [NOW, hours_later] {
            let waits = matches!(
                case.plan_at(now),
                Plan::Wait {
                    why: Wait::Backoff,
                    ..
                }
            );
            assert!(waits, "{:?}", case.plan_at(now));
        }
        case.failed = false;
        assert!(matches!(case.plan_at(hours_later), Plan::Act(_) | Plan::Look));
    }
}

#[test]
fn backoff_grows_to_ten_minutes_and_a_new_generation_begins_anew() {
    let mut attempts = Attempts::default();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        attempts.failed(failure(), NOW, 1.0);
        pauses.push(attempts.blocked_until(NOW).unwrap().as_second());
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
    assert_eq!(attempts.last(), Some(&failure()));
    attempts.observe_generation(7);
    assert_eq!((attempts.blocked_until(NOW), attempts.last()), (None, None));
    attempts.failed(failure(), NOW, 0.0);
    assert_eq!(attempts.blocked_until(NOW).unwrap().as_second(), 4);
    attempts.observe_generation(7);
    assert_eq!(attempts.failures(), 1);
}
