//! Revisions that are in Helm's way: unfinished ones, and those that Helm cannot decode. None of this deletes an object.

use super::release::{Unknown, chart_of, compared};
use super::{Action, Obstacle, Plan, RECOVERY_FAILED, ROLLBACK_TRIES, Situation, Wait};
use crate::api::{
    CLUSTER_POLICY_CRD, NODE_FEATURE_RULE_CRD, NVIDIA_DRIVER_CRD, NodeFeatureDiscovery, OperationKind,
};
use crate::catalogue::MinorVersion;
use crate::desired::Desired;
use crate::drift::ObjectRef;
use crate::facts::{History, Revision};
use crate::helm::RevisionStatus;

/// Reads the revision through Helm where that is due, and gets it out of the way where Helm cannot.
pub fn undecodable(s: &Situation<'_>, latest: &Revision) -> Option<Plan> {
    if compared(s, latest).is_some_and(|compared| compared.content.is_none()) {
        return Some(discard(latest, Obstacle::Undecodable));
    }
    s.comparison_due.then_some(Plan::Compare)
}

fn discard(revision: &Revision, why: Obstacle) -> Plan {
    Plan::Act(Action::Discard {
        revision: revision.number,
        why,
    })
}

/// An operation that has not ended.
///
/// One that the module began is dead by now: a single operator acts at a time and runs one Helm at a time, and a child that
/// outlived its operator is waited for before the next one starts. Somebody else's gets a deadline.
pub fn unfinished(s: &Situation<'_>, desired: &Desired, history: &History, latest: &Revision) -> Plan {
    left_alone(s, latest).unwrap_or_else(|| free(s, desired, history, latest))
}

/// Waits while somebody else's Helm may still be at work on a revision that is not finished.
pub fn left_alone(s: &Situation<'_>, latest: &Revision) -> Option<Plan> {
    let until = latest.changed + s.foreign_operation_limit;
    (!is_own(s, latest) && s.now < until).then_some(Plan::Wait {
        until,
        why: Wait::ForeignOperation(latest.status),
    })
}

/// Frees a locked release; no object is deleted.
fn free(s: &Situation<'_>, desired: &Desired, history: &History, latest: &Revision) -> Plan {
    let pending = latest.status.is_pending();
    if pending && s.attempts.failures_of(RECOVERY_FAILED) >= ROLLBACK_TRIES {
        return discard(latest, Obstacle::NotFreed);
    }
    // NVIDIA supports no way back to an earlier line, so the way forward is taken again.
    let good = history
        .last_good()
        .filter(|_| latest.status != RevisionStatus::Uninstalling);
    if let (Some(reached), Some(good)) = (latest.own_chart().filter(|_| pending), good) {
        let reached = MinorVersion::of(reached);
        let forward = MinorVersion::of(&desired.chart.version) >= reached;
        match chart_of(s, good) {
            Ok(before) if MinorVersion::of(&before) < reached && forward => {
                return discard(latest, Obstacle::AnotherLine);
            }
            Ok(_) => {}
            Err(Unknown::NotRead) => {
                return Plan::ReadExisting {
                    revision: good.number,
                };
            }
            Err(Unknown::Undecodable) => return discard(latest, Obstacle::AnotherLine),
        }
    }
    if let Some(plan) = restore_first(s) {
        return plan;
    }
    // What was being uninstalled is brought back itself; of the rest what last worked, or what there is.
    Plan::Act(Action::Rollback {
        to: good.unwrap_or(latest).number,
        found: latest.status,
    })
}

/// Brings back the CRDs without which Helm can read no manifest that holds their objects: it neither rolls back nor uninstalls then, and
/// an uninstall would still mark the release as `uninstalling`.
pub fn restore_first(s: &Situation<'_>) -> Option<Plan> {
    let desired = s.recordable()?;
    let rule = desired.node_feature_discovery == NodeFeatureDiscovery::Cluster;
    let needed = [CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD]
        .into_iter()
        .chain(rule.then_some(NODE_FEATURE_RULE_CRD));
    let is_missing = |name: &&str| {
        desired.chart.crds.iter().any(|known| known == name) && !s.observed.crds.contains_key(*name)
    };
    let crds: Vec<_> = needed.filter(is_missing).map(ObjectRef::crd).collect();
    (!crds.is_empty()).then_some(Plan::Act(Action::RestoreCrds { crds }))
}

/// True where an operation that has not ended was the module's.
///
/// Its labels tell, but for a rollback, which copies those of the revision that it returns to: of that the status tells. Of an
/// uninstall nothing does, since Helm only changes the status of the revision.
fn is_own(s: &Situation<'_>, latest: &Revision) -> bool {
    match latest.status {
        RevisionStatus::PendingRollback => s.interrupted.is_some_and(|begun| {
            begun.operation == OperationKind::Rollback && begun.revision == Some(i64::from(latest.number))
        }),
        RevisionStatus::Uninstalling => false,
        _ => latest.made_by_module(),
    }
}
