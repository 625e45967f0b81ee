//! What to do once the GpuModule is being deleted. Deletion goes before `spec.suspend`: it must always end.
//!
//! What is left is read from the cluster before each step and after it, so that a process which begins anew goes on where the one before
//! was. Only what nobody can read later is noted first.

mod refused;

use super::{
    Action, Plan, RECORDING_FAILED, Reading, Situation, UNINSTALL_FAILED, UNINSTALL_TRIES_WITH_HOOKS, Wait,
    foreign, protection, recovery, unread, unrecorded,
};
use crate::api::DeletionCrds;
use crate::facts::{
    History, Leavings, Leftover, PolicyFacts, ReleaseFacts, Remedy, Removal, SurroundingNamespace,
    Surroundings,
};
use crate::helm::RevisionStatus;

#[cfg(test)]
pub(super) use refused::LAST_TRIES;
pub use refused::{Refusable, Refused};

/// What is taken away before the release.
const BEFORE: [Leavings; 2] = [Leavings::DriverUpgrades, Leavings::Cordons];

/// What is taken away after it. Of the cordons NVIDIA's operator may have made one more before it ended.
const AFTER: [Leavings; 8] = [
    Leavings::Cordons,
    Leavings::Release,
    Leavings::Stack,
    Leavings::Pods,
    Leavings::Hooks,
    Leavings::Nodes,
    Leavings::Namespace,
    Leavings::Crds,
];

/// The next step towards nothing.
pub fn step(s: &Situation<'_>) -> Plan {
    if !s.finalizer {
        return Plan::Keep;
    }
    let Some(surroundings) = &s.observed.surroundings else {
        return Plan::Look;
    };
    // Whatever else can be read, the operator may have given back the rights that it would need.
    if s.removal.is_some_and(|removal| removal.stays.is_some()) {
        return depart(s);
    }
    if let Some(plan) = protection::step(s) {
        return plan;
    }
    match (&s.observed.release, surroundings.namespace) {
        // A release cannot be anywhere but in its namespace.
        (_, SurroundingNamespace::Absent) => gone(s, surroundings),
        (ReleaseFacts::Unreadable, SurroundingNamespace::Terminating) => namespace_goes(s),
        (ReleaseFacts::Unreadable, SurroundingNamespace::Foreign) if s.recorded.is_none() => depart(s),
        (ReleaseFacts::Unreadable, _) => Plan::Act(Action::OpenNamespace),
        (ReleaseFacts::Read(history), _) if history.is_empty() => gone(s, surroundings),
        (ReleaseFacts::Read(history), _) if foreign::is_ours(s) => uninstall(s, history),
        (ReleaseFacts::Read(_), _) => depart(s),
    }
}

fn namespace_goes(s: &Situation<'_>) -> Plan {
    Plan::Wait {
        until: s.now + jiff::SignedDuration::from_secs(5),
        why: Wait::NamespaceTerminating,
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
        began: Some(s.now),
        of: s.uid.to_owned(),
        stays: None,
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
    let first = begin(s).or_else(|| clear(s, &BEFORE));
    if let Some(plan) = first.or_else(|| recovery::restore_first(s)) {
        return plan;
    }
    // Of an install that never ended, what the Pods of hooks need may not be there.
    let is_whole = history
        .latest()
        .is_none_or(|latest| latest.status != RevisionStatus::PendingInstall);
    if is_whole && s.attempts.failures_of(UNINSTALL_FAILED) < UNINSTALL_TRIES_WITH_HOOKS {
        return Plan::Act(Action::Uninstall { hooks: true });
    }
    match s.observed.gpu_clusters {
        None => Plan::Read(Reading::GpuClusters),
        // NVIDIA advises to leave hooks out that hang, but not where one of them has a GPUCluster to clean up.
        Some(hooks) => Plan::Act(Action::Uninstall { hooks }),
    }
}

/// The release is gone, and what it has left goes.
fn gone(s: &Situation<'_>, around: &Surroundings) -> Plan {
    let ours = foreign::is_ours(s) || s.removal.is_some() || around.namespace == SurroundingNamespace::Ours;
    if !ours {
        // The operator's rights in a namespace that is not its own are its last mark there.
        return match s.observed.left.get(&Leavings::Rights) {
            // What stands there under the release's name was never the module's.
            Some(rights) if !rights.objects.is_empty() && !unrecorded::stands(s) => take_away(s, around),
            _ => depart(s),
        };
    }
    take_away(s, around)
}

fn take_away(s: &Situation<'_>, around: &Surroundings) -> Plan {
    // What cannot be read may still be there.
    if let Some(hold) = unread(s) {
        return Plan::Hold(hold);
    }
    if let Some(plan) = begin(s) {
        return plan;
    }
    if stands_as_ours(s) {
        // Nothing can be put into a namespace that goes.
        if around.namespace == SurroundingNamespace::Terminating {
            return namespace_goes(s);
        }
        // Helm has to know again what it is to remove.
        if let Some(plan) = record_anew(s).or_else(|| clear(s, &BEFORE)) {
            return plan;
        }
    }
    clear(s, &AFTER).unwrap_or_else(|| depart(s))
}

/// Objects of the module's release stand without any revision.
fn stands_as_ours(s: &Situation<'_>) -> bool {
    let around = s.observed.surroundings.as_ref();
    let in_ours = around.is_some_and(|around| around.namespace == SurroundingNamespace::Ours);
    unrecorded::stands(s) && (foreign::is_ours(s) || in_ours)
}

/// Installs the release over its objects. Where that fails again and again they are deleted without Helm, unless a hook of the chart has a
/// GPUCluster to clean up.
fn record_anew(s: &Situation<'_>) -> Option<Plan> {
    let again = s
        .recordable()
        .map(|desired| unrecorded::record_anew(s, desired))?;
    if s.attempts.failures_of(RECORDING_FAILED) < unrecorded::RECORDING_TRIES {
        return Some(again);
    }
    match s.observed.gpu_clusters {
        None => Some(Plan::Read(Reading::GpuClusters)),
        Some(true) => Some(again),
        Some(false) => None,
    }
}

/// Nothing is left but the module's labels on nodes, the operator's rights in a namespace that stays, and the finalizer. The note goes before
/// the rights: without them nobody could read once more that nothing is left.
fn depart(s: &Situation<'_>) -> Plan {
    let is_noted = s.removal.is_some_and(|removal| removal.stays.is_some());
    if !is_noted && let Some(plan) = clear(s, &[Leavings::OwnLabels]) {
        return plan;
    }
    let Some(rights) = s.observed.left.get(&Leavings::Rights) else {
        return Plan::Read(Reading::Left(Leavings::Rights));
    };
    let open = rights
        .objects
        .iter()
        .any(|rights| !refused::is_given_up(s, Leavings::Rights, rights));
    if open && !is_noted {
        let removal = Removal {
            of: s.uid.to_owned(),
            stays: Some(stays(s)),
            ..s.removal.cloned().unwrap_or_default()
        };
        return Plan::Act(Action::BeginRemoval { removal });
    }
    clear(s, &[Leavings::Rights]).unwrap_or(Plan::Act(Action::RemoveFinalizer))
}

/// Takes away what is left of these, one after the other; `None` where nothing is.
fn clear(s: &Situation<'_>, all: &[Leavings]) -> Option<Plan> {
    for what in all.iter().copied().filter(|what| goes(s, *what)) {
        let Some(left) = s.observed.left.get(&what) else {
            return Some(Plan::Read(Reading::Left(what)));
        };
        let left = left.objects.iter();
        let open: Vec<_> = left
            .filter(|leftover| !refused::is_given_up(s, what, leftover))
            .collect();
        let is_due = |leftover: &&&Leftover| {
            leftover.remedy != Remedy::Wait && s.refused.are_over(&Refusable::of(what, leftover), s.now)
        };
        let objects: Vec<_> = open.iter().filter(is_due).map(|due| (*due).clone()).collect();
        if !objects.is_empty() {
            return Some(Plan::Act(Action::Clear { what, objects }));
        }
        if let Some(wait) = refused::wait(s, what, &open) {
            return Some(wait);
        }
        if !open.is_empty() {
            let names = open.iter().map(|leftover| leftover.object.to_string()).collect();
            return Some(Plan::AwaitRemoval { what, names });
        }
    }
    None
}

fn goes(s: &Situation<'_>, what: Leavings) -> bool {
    match what {
        Leavings::Release => stands_as_ours(s),
        Leavings::Nodes => !is_others_stack(s),
        Leavings::Crds => s.deletion_crds == DeletionCrds::Delete,
        _ => true,
    }
}

/// What stays in the cluster, in words; complete once everything else is taken away.
pub fn stays(s: &Situation<'_>) -> Vec<String> {
    if let Some(noted) = s.removal.and_then(|removal| removal.stays.clone()) {
        return noted;
    }
    let crds = (s.deletion_crds == DeletionCrds::Keep)
        .then(|| "the CRDs of NVIDIA and of Node Feature Discovery".to_owned());
    let left = s.observed.left.values();
    let kept = left.flat_map(|left| left.stays.iter().cloned());
    let labels = (s.removal.is_some() && is_others_stack(s))
        .then(|| "NVIDIA's labels on the nodes, which somebody else's stack needs".to_owned());
    let kept = crds.into_iter().chain(kept).chain(labels);
    kept.chain(refused::given_up(s)).collect()
}

/// Somebody else's stack needs the labels that are on the nodes.
fn is_others_stack(s: &Situation<'_>) -> bool {
    let mut policies = s.observed.policies.iter();
    let around = s.observed.surroundings.as_ref();
    let role = around.is_some_and(|around| around.cluster_role.is_some() && !unrecorded::stands(s));
    role || policies.any(|policy| !PolicyFacts::is_of_module_release(policy))
}
