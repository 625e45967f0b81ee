//! What is done about revisions that are in Helm's way, and about a release whose record is gone.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::api::{Operation, OperationKind, Outcome};
use crate::drift::ObjectRef;
use crate::facts::{Orphan, Orphans};

fn begun(operation: OperationKind, revision: i64) -> Operation {
    Operation {
        time: Time(Timestamp::UNIX_EPOCH),
        operation,
        from: None,
        to: None,
        revision: Some(revision),
        outcome: Outcome::Running,
        message: String::new(),
    }
}

fn discard(revision: u32, why: Obstacle) -> Plan {
    Plan::Act(Action::Discard { revision, why })
}

fn undecodable(mut case: Case, revision: u32) -> Case {
    case.observed.comparison = Some(Comparison {
        uid: revision.to_string(),
        content: None,
    });
    case
}

#[test]
fn a_rollback_of_a_dead_process_is_known_by_the_status_and_freed_at_once() {
    let mut case = Case::ours(&[RevisionStatus::Superseded, RevisionStatus::PendingRollback]);
    // Helm copied the labels of the revision that it returns to.
    case.change_latest(|latest| latest.meant = Some(1));
    let foreign = case.plan();
    assert!(matches!(foreign, Plan::Wait { .. }), "{foreign:?}");

    case.interrupted = Some(begun(OperationKind::Rollback, 2));
    let freed = Plan::Act(Action::Rollback {
        to: 1,
        found: RevisionStatus::PendingRollback,
    });
    assert_eq!(case.plan(), freed);
    for other in [
        begun(OperationKind::Rollback, 1),
        begun(OperationKind::Upgrade, 2),
    ] {
        case.interrupted = Some(other);
        assert_eq!(case.plan(), foreign);
    }
}

#[test]
fn a_revision_that_cannot_be_decoded_is_discarded_whatever_its_status() {
    for status in RevisionStatus::ALL {
        for deleting in [false, true] {
            let case = Case::ours(&[RevisionStatus::Superseded, status]);
            let mut case = undecodable(case, 2);
            case.deleting = deleting;
            assert_eq!(case.plan(), discard(2, Obstacle::Undecodable), "{status}");
        }
    }
    let earlier = undecodable(
        Case::ours(&[RevisionStatus::Superseded, RevisionStatus::Deployed]),
        1,
    );
    assert_eq!(earlier.plan(), Plan::Keep, "Helm passes over an earlier one");
}

#[test]
fn a_newest_revision_that_helm_does_not_get_past_is_read_before_the_next_try() {
    for status in [RevisionStatus::Failed, RevisionStatus::PendingUpgrade] {
        let mut case = Case::ours(&[RevisionStatus::Superseded, status]);
        case.comparison_due = true;
        assert_eq!(case.plan(), Plan::Compare);
        case.deleting = true;
        assert_eq!(case.plan(), Plan::Compare);
    }
}

#[test]
fn after_a_discarded_revision_the_way_goes_on_from_the_one_before() {
    let mut case = Case::ours(&[RevisionStatus::Superseded]);
    case.change_latest(|latest| {
        latest.chart = Some("26.3.3".parse().unwrap());
        latest.layout = Some(DriverLayout::ClusterPolicy);
    });
    let first = step("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(
        case.plan(),
        Plan::Act(Action::Upgrade {
            to: first,
            cause: Cause::Retry
        })
    );
}

#[test]
fn a_revision_that_no_rollback_frees_is_discarded_after_some_tries() {
    let mut case = Case::ours(&[RevisionStatus::PendingInstall]);
    for _ in 0..ROLLBACK_TRIES {
        assert!(matches!(case.plan(), Plan::Act(Action::Rollback { to: 1, .. })));
        let failed = Failure {
            reason: RECOVERY_FAILED,
            message: "no matches for kind".to_owned(),
        };
        case.attempts
            .failed(failed, NOW - SignedDuration::from_hours(1), 0.0);
    }
    assert_eq!(case.plan(), discard(1, Obstacle::NotFreed));
}

/// The objects of the module's release stand, and no revision tells of them.
fn unrecorded() -> Case {
    let mut case = Case::new();
    case.recorded = Some(recorded(3));
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("ready"))];
    case.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner(RELEASE_NAME)));
    case
}

#[test]
fn with_its_secrets_deleted_the_recorded_chart_is_installed_again_over_what_stands() {
    let mut case = unrecorded();
    assert_eq!(case.plan(), upgrade(Cause::RecordLost));

    case.recorded.as_mut().unwrap().chart_version = "25.10.1".to_owned();
    let again = step("25.10.1", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(
        case.plan(),
        Plan::Act(Action::Upgrade {
            to: again,
            cause: Cause::RecordLost
        }),
        "a later chart would leave behind what only the earlier one has"
    );
    case.observed.surroundings.as_mut().unwrap().cluster_role = None;
    assert_eq!(case.plan(), upgrade(Cause::Install), "nothing stands");
}

#[test]
fn a_deletion_lets_helm_know_again_what_it_is_to_remove() {
    let mut case = unrecorded();
    case.deleting = true;
    assert_eq!(case.plan(), upgrade(Cause::RecordLost));
    case.observed.surroundings.as_mut().unwrap().cluster_role = None;
    let gone = Plan::Act(Action::RemoveFinalizer);
    assert_eq!(
        case.plan(),
        gone,
        "helm has removed it, and the watch lags behind"
    );
    case.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner("other")));
    assert_eq!(case.plan(), gone);
}

#[test]
fn gaps_and_several_deployed_revisions_change_nothing_about_the_newest() {
    let mut case = Case::ours(&[RevisionStatus::Deployed; 4]);
    assert_eq!(case.plan(), Plan::Keep);
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    let some = history.all().iter().filter(|revision| revision.number != 2);
    case.observed.release = ReleaseFacts::Read(History::new(some.cloned().collect()));
    assert_eq!(case.plan(), Plan::Keep);
    case.change_latest(|latest| latest.status = RevisionStatus::PendingUpgrade);
    assert!(matches!(case.plan(), Plan::Act(Action::Rollback { to: 3, .. })));
}

#[test]
fn what_a_failed_upgrade_left_behind_is_looked_for_once_and_deleted() {
    let statuses = [
        RevisionStatus::Superseded,
        RevisionStatus::Failed,
        RevisionStatus::PendingUpgrade,
        RevisionStatus::Deployed,
    ];
    let mut case = Case::ours(&statuses);
    assert_eq!(case.plan(), Plan::FindOrphans(vec![2, 3]));
    let orphan = Orphan {
        object: ObjectRef::crd("left-behind"),
        uid: "1".to_owned(),
    };
    let orphans = |of: &str, objects: &[Orphan]| {
        Some(Orphans {
            of: of.to_owned(),
            objects: objects.to_vec(),
        })
    };
    case.orphans = orphans("3", std::slice::from_ref(&orphan));
    assert_eq!(
        case.plan(),
        Plan::FindOrphans(vec![2, 3]),
        "those of another revision say nothing"
    );
    case.orphans = orphans("4", std::slice::from_ref(&orphan));
    assert_eq!(
        case.plan(),
        Plan::Act(Action::Prune {
            objects: vec![orphan],
            left_by: LeftBy::FailedUpgrade,
        })
    );
    case.orphans = orphans("4", &[]);
    assert_eq!(case.plan(), Plan::Keep);
}

#[test]
fn crds_come_back_before_helm_has_to_read_a_manifest_that_needs_them() {
    let crds = vec![ObjectRef::crd(crate::api::CLUSTER_POLICY_CRD)];
    let restore = Plan::Act(Action::RestoreCrds { crds });
    let mut pending = Case::ours(&[RevisionStatus::Deployed, RevisionStatus::PendingUpgrade]);
    pending.observed.crds.remove(crate::api::CLUSTER_POLICY_CRD);
    assert_eq!(pending.plan(), restore);
    let mut deleting = Case::ours(&[RevisionStatus::Deployed]);
    deleting.observed.crds.remove(crate::api::CLUSTER_POLICY_CRD);
    deleting.deleting = true;
    assert_eq!(deleting.plan(), restore);
    deleting.observed.crds = fixtures::observed().crds;
    assert_eq!(deleting.plan(), Plan::Act(Action::Uninstall { hooks: true }));
}
