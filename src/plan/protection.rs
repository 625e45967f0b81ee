//! Running GPU work holds a deletion: a driver is not taken from under it.
//!
//! Meanwhile the module goes on with what runs: its objects are put right, nodes are kept out, the status stays true. Only the release
//! stays as it is. Who comes only to remove does nothing meanwhile. A removal that has begun is not held any more; it has to end.

use super::release::compared;
use super::{Plan, Reading, Situation, WORK_LOOK, Wait, drift, foreign, keep_out, unread, unrecorded};
use crate::api::DeletionWorkloads;
use crate::facts::{GpuPod, ReleaseFacts, Revision, SurroundingNamespace, WorkFacts};
use crate::helm::RevisionStatus;

/// What holds a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// These Pods use GPUs.
    Work(&'a [GpuPod]),
    /// Nobody knows whether Pods use GPUs, for this reason.
    Unreadable(&'a str),
}

/// Whether a deletion is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection<'a> {
    /// It is not.
    Nothing,
    /// Nobody has read what is needed to know it.
    Unknown,
    /// It is.
    Held(Held<'a>),
}

/// Whether the deletion of this GpuModule is held.
pub fn protection<'a>(s: &Situation<'a>) -> Protection<'a> {
    if !s.deleting || !s.finalizer || s.deletion_workloads == DeletionWorkloads::Ignore || !may_remove(s) {
        return Protection::Nothing;
    }
    // Which nodes have GPUs is not known either then.
    if !s.observed.nodes_are_read() {
        return Protection::Held(Held::Unreadable("the operator may not list Nodes"));
    }
    match &s.observed.gpu_work {
        _ if s.observed.nodes_in_reach().next().is_none() => Protection::Nothing,
        None => Protection::Unknown,
        Some(WorkFacts::Read(pods)) if pods.is_empty() => Protection::Nothing,
        Some(WorkFacts::Read(pods) | WorkFacts::Remembered(pods)) => Protection::Held(Held::Work(pods)),
        Some(WorkFacts::Unreadable(why)) => Protection::Held(Held::Unreadable(why)),
    }
}

/// True where something of the module's is there whose removal has not begun.
fn may_remove(s: &Situation<'_>) -> bool {
    let there = match &s.observed.release {
        ReleaseFacts::Read(history) => !history.is_empty() || unrecorded::stands(s),
        ReleaseFacts::Unreadable => unrecorded::stands(s),
    };
    // What stands in the module's own namespace without any record is taken away, too.
    let around = s.observed.surroundings.as_ref();
    let in_ours = s.observed.release.latest().is_none()
        && around.is_some_and(|around| around.namespace == SurroundingNamespace::Ours);
    there && s.removal.is_none() && (foreign::is_ours(s) || in_ours)
}

/// What is done instead of the removal while it is held, or what has to be read before that is known.
pub fn step(s: &Situation<'_>) -> Option<Plan> {
    match protection(s) {
        Protection::Nothing => None,
        Protection::Unknown => Some(Plan::Read(Reading::GpuWork)),
        Protection::Held(_) if s.only_removes => Some(wait(s)),
        Protection::Held(_) => Some(match meanwhile(s) {
            Plan::Keep => wait(s),
            plan => plan,
        }),
    }
}

fn wait(s: &Situation<'_>) -> Plan {
    Plan::Wait {
        until: s.now + WORK_LOOK,
        why: Wait::Work,
    }
}

fn meanwhile(s: &Situation<'_>) -> Plan {
    if s.suspended {
        return drift::look_while_suspended(s).unwrap_or(Plan::Keep);
    }
    let (Ok(desired), None) = (s.desired, unread(s)) else {
        return Plan::Keep;
    };
    let latest = s.observed.release.latest();
    let looked = match latest.filter(|latest| latest.status == RevisionStatus::Deployed) {
        None => Plan::Keep,
        // The CRDs of another chart are not those of this one.
        Some(latest) if is_of_chart(s, latest, &desired.chart.version) => drift::step(s, desired, latest),
        Some(latest) => drift::objects(s, latest),
    };
    keep_out::step(s, desired, looked)
}

fn is_of_chart(s: &Situation<'_>, revision: &Revision, chart: &semver::Version) -> bool {
    let read = compared(s, revision).and_then(|compared| compared.content.as_ref());
    let read = read.map(|content| &content.chart_version);
    read.or_else(|| revision.own_chart()) == Some(chart)
}
