//! Whether an action that ended well has changed anything: a policy or another tool may undo it at once, and an action that is decided
//! again and again would never end.

use super::{Action, Failure, Plan, Wait};
use crate::api::RELEASE_NAMESPACE;
use crate::facts::first_few;

/// Reason of a failure to change anything for good.
const NO_EFFECT: &str = "NoEffect";

/// What to do about it.
const UNDONE: &str = "a policy or another tool undoes it, find out which and stop it";

/// The failure that it is to decide `next` in a pass that has already `done` that, and it ended well.
pub fn in_vain(done: &[Action], next: &Plan) -> Option<Failure> {
    let Plan::Act(action) = next else {
        return None;
    };
    let what = whole(action).filter(|_| done.iter().any(|done| is_again(done, action)))?;
    Some(Failure {
        reason: NO_EFFECT,
        message: format!("{what} ended without an error and would have to be done again: {UNDONE}"),
    })
}

/// Notes that an action ended well.
pub fn note(done: &mut Vec<Action>, action: &Action) {
    // Helm uninstalls what it can decode, and then what lay below what it could not: there are only so many revisions.
    if matches!(action, Action::Discard { .. }) {
        done.retain(|before| !matches!(before, Action::Uninstall { .. }));
    }
    done.push(action.clone());
}

/// True where an upgrade, the last that was done, has brought the release on its way: the failures before it are past.
pub fn went_on(done: &[Action], next: &Plan) -> bool {
    let goes_on = match next {
        Plan::Keep | Plan::Hold(_) | Plan::AwaitRemoval { .. } | Plan::Act(Action::Upgrade { .. }) => true,
        Plan::Wait { why, .. } => *why != Wait::Backoff,
        _ => false,
    };
    goes_on && matches!(done.last(), Some(Action::Upgrade { .. }))
}

/// The failure of a pass that comes to no end.
pub fn endless(steps: u32) -> Failure {
    Failure {
        reason: NO_EFFECT,
        message: format!("{steps} steps one after the other came to no end: {UNDONE}"),
    }
}

/// Why a release is upgraded may be another thing the second time.
fn is_again(done: &Action, next: &Action) -> bool {
    match (done, next) {
        (Action::Upgrade { to: done, .. }, Action::Upgrade { to, .. }) => done == to,
        _ => done == next,
    }
}

/// An action that ends in one way, in words; `None` for those about objects that each have a result and a pause of their own.
fn whole(action: &Action) -> Option<String> {
    Some(match action {
        Action::Clear { .. } | Action::LabelNodes { .. } | Action::Prune { .. } | Action::Reapply { .. } => {
            return None;
        }
        Action::AddFinalizer => "adding the module's finalizer to the GpuModule".to_owned(),
        Action::RemoveFinalizer => "taking the module's finalizer off the GpuModule".to_owned(),
        Action::BeginRemoval { .. } => "noting the removal on the GpuModule".to_owned(),
        Action::OpenNamespace => format!("preparing namespace {RELEASE_NAMESPACE}"),
        Action::Upgrade { to, .. } => format!("helm upgrade to chart {}", to.chart),
        Action::Rollback { to, .. } => format!("helm rollback to revision {to}"),
        Action::Discard { revision, .. } => format!("deleting the Secret of revision {revision}"),
        Action::RestoreCrds { crds } => format!("applying {}", first_few(crds.iter())),
        Action::Uninstall { .. } => "helm uninstall".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::DriverLayout;
    use crate::desired::{DriverUpgrades, Step};
    use crate::plan::Cause;

    fn upgrade(cause: Cause, drivers: DriverUpgrades) -> Action {
        let (chart, layout) = (semver::Version::new(26, 7, 0), DriverLayout::NvidiaDriver);
        Action::Upgrade {
            to: Step {
                chart,
                layout,
                drivers,
            },
            cause,
        }
    }

    #[test]
    fn an_action_that_is_decided_again_was_in_vain() {
        use DriverUpgrades::{AsConfigured, Held};
        let mut done = vec![upgrade(Cause::Install, Held)];
        let act = |action: &Action| Plan::Act(action.clone());
        let again = upgrade(Cause::RecordLost, Held);
        assert!(in_vain(&done, &act(&again)).is_some(), "whatever the reason is");
        assert!(in_vain(&[], &act(&again)).is_none());
        let further = upgrade(Cause::Install, AsConfigured);
        for plan in [act(&further), Plan::Keep, Plan::Compare] {
            assert_eq!(in_vain(&done, &plan), None, "{plan:?}");
        }
        // What is done with objects has pauses of its own.
        let labels = Action::LabelNodes { labels: Vec::new() };
        assert_eq!(in_vain(std::slice::from_ref(&labels), &act(&labels)), None);
        let uninstall = Action::Uninstall { hooks: true };
        note(&mut done, &uninstall);
        assert!(
            in_vain(&done, &act(&again)).is_some(),
            "also where one undoes the other"
        );
        let failure = in_vain(&done, &act(&uninstall)).unwrap();
        assert_eq!(failure.reason, "NoEffect");
        assert_eq!(
            failure.message,
            "helm uninstall ended without an error and would have to be done again: a policy or another tool undoes it, find out which and stop it"
        );
        let why = crate::plan::Obstacle::Undecodable;
        note(&mut done, &Action::Discard { revision: 2, why });
        assert_eq!(in_vain(&done, &act(&uninstall)), None, "of what lay below it");
    }

    #[test]
    fn failures_are_past_once_an_upgrade_has_led_somewhere() {
        let done = [upgrade(Cause::Install, DriverUpgrades::Held)];
        assert!(went_on(&done, &Plan::Keep) && !went_on(&[], &Plan::Keep));
        assert!(!went_on(&done, &Plan::Compare), "nobody knows yet");
        let until = jiff::Timestamp::UNIX_EPOCH;
        let wait = |why| Plan::Wait { until, why };
        assert!(went_on(&done, &wait(Wait::Drivers)) && !went_on(&done, &wait(Wait::Backoff)));
    }
}
