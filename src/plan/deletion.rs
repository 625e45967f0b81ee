//! What to do once the GpuModule is being deleted. Deletion goes before `spec.suspend`: it must always end.

use super::{
    Action, Plan, Reading, Situation, UNINSTALL_FAILED, UNINSTALL_TRIES_WITH_HOOKS, Wait, foreign,
    protection, recovery, unread, unrecorded,
};
use crate::facts::{History, ReleaseFacts, Removal, SurroundingNamespace};

/// The next step towards nothing.
pub fn step(s: &Situation<'_>) -> Plan {
    if !s.finalizer {
        return Plan::Keep;
    }
    let Some(surroundings) = &s.observed.surroundings else {
        return Plan::Look;
    };
    if let Some(plan) = protection::step(s) {
        return plan;
    }
    match (&s.observed.release, surroundings.namespace) {
        // A release cannot be anywhere but in its namespace.
        (_, SurroundingNamespace::Absent) => gone(s),
        (ReleaseFacts::Unreadable, SurroundingNamespace::Terminating) => Plan::Wait {
            until: s.now + jiff::SignedDuration::from_secs(5),
            why: Wait::NamespaceTerminating,
        },
        (ReleaseFacts::Unreadable, SurroundingNamespace::Foreign) if s.recorded.is_none() => {
            Plan::Act(Action::RemoveFinalizer)
        }
        (ReleaseFacts::Unreadable, _) => Plan::Act(Action::OpenNamespace),
        (ReleaseFacts::Read(history), _) if history.is_empty() => gone(s),
        (ReleaseFacts::Read(history), _) if foreign::is_ours(s) => uninstall(s, history),
        (ReleaseFacts::Read(_), _) => Plan::Act(Action::RemoveFinalizer),
    }
}

/// Notes first what nobody knows any more once something is taken away.
fn begin(s: &Situation<'_>) -> Option<Plan> {
    if s.removal.is_some() {
        return None;
    }
    let Some(nodes) = &s.observed.driver_upgrades else {
        return Some(Plan::Read(Reading::DriverUpgrades));
    };
    let removal = Removal {
        in_driver_upgrade: nodes.clone(),
    };
    Some(Plan::Act(Action::BeginRemoval { removal }))
}

fn uninstall(s: &Situation<'_>, history: &History) -> Plan {
    // Helm passes over what it cannot decode, and says that there is nothing to uninstall.
    if let Some(latest) = history.latest()
        && let Some(plan) = recovery::undecodable(s, latest)
    {
        return plan;
    }
    if let Some(latest) = history.latest()
        && latest.status.is_pending()
        && let Some(plan) = recovery::left_alone(s, latest)
    {
        return plan;
    }
    if let Some(plan) = begin(s).or_else(|| recovery::restore_first(s)) {
        return plan;
    }
    Plan::Act(Action::Uninstall {
        hooks: s.attempts.failures_of(UNINSTALL_FAILED) < UNINSTALL_TRIES_WITH_HOOKS,
    })
}

fn gone(s: &Situation<'_>) -> Plan {
    if !foreign::is_ours(s) {
        return Plan::Act(Action::RemoveFinalizer);
    }
    // What cannot be read may still be there.
    if let Some(hold) = unread(s) {
        return Plan::Hold(hold);
    }
    // Helm has to know again what it is to remove.
    if let (true, Ok(desired)) = (unrecorded::stands(s), s.desired) {
        return begin(s).unwrap_or_else(|| unrecorded::record_anew(s, desired));
    }
    let left = foreign::left_behind(s);
    if left.is_empty() {
        Plan::Act(Action::RemoveFinalizer)
    } else {
        Plan::AwaitRemoval(left)
    }
}
