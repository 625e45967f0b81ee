//! The removal once nothing holds it.

use super::*;
use crate::drift::ObjectRef;
use crate::facts::{Leavings, Left, Leftover, Remedy};

#[test]
fn hooks_are_left_out_after_failed_uninstalls_and_not_after_other_failures() {
    let mut case = Case::ours(&[RevisionStatus::Uninstalling]);
    case.deleting = true;
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.attempts.failed(failure(), NOW, 0.0);
    case.attempts.failed(failure(), NOW, 0.0);
    for _ in 0..UNINSTALL_TRIES_WITH_HOOKS {
        assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
        let failed = Failure {
            reason: UNINSTALL_FAILED,
            message: "a hook hangs".to_owned(),
        };
        case.attempts.failed(failed, NOW, 0.0);
    }
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: false }));
}

fn left(what: Leavings, remedy: Remedy) -> Case {
    let mut case = Case::new();
    case.deleting = true;
    case.recorded = Some(recorded(1));
    let object = Leftover {
        object: ObjectRef::crd("left"),
        uid: String::new(),
        remedy,
    };
    let left = case.observed.left.get_mut(&what).unwrap();
    left.objects = vec![object];
    case
}

#[test]
fn the_finalizer_stays_until_nothing_is_left() {
    let after = Leavings::ALL
        .into_iter()
        .filter(|what| *what != Leavings::DriverUpgrades);
    for what in after {
        let mut case = left(what, Remedy::Delete);
        let objects = case.observed.left[&what].objects.clone();
        assert_eq!(case.plan(), Plan::Act(Action::Clear { what, objects }));
        case = left(what, Remedy::Wait);
        let names = vec!["CustomResourceDefinition left".to_owned()];
        assert_eq!(case.plan(), Plan::AwaitRemoval(names));
        case.observed.left.remove(&what);
        assert_eq!(case.plan(), Plan::Read(Reading::Left(what)), "it is read back");
        case.observed.left.insert(what, Left::default());
        assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
    }
}

#[test]
fn driver_upgrades_are_paused_and_nodes_uncordoned_before_the_uninstall() {
    for what in [Leavings::DriverUpgrades, Leavings::Cordons] {
        let left = left(what, Remedy::Delete).observed.left;
        let mut case = Case::ours(&[RevisionStatus::Deployed]);
        case.deleting = true;
        case.observed.left = left;
        assert!(matches!(case.plan(), Plan::Act(Action::Clear { what: first, .. }) if first == what));
    }
}

#[test]
fn hooks_run_again_and_again_where_one_has_a_gpu_cluster_to_clean_up() {
    let mut case = Case::ours(&[RevisionStatus::Uninstalling]);
    case.deleting = true;
    for _ in 0..UNINSTALL_TRIES_WITH_HOOKS {
        let failed = Failure {
            reason: UNINSTALL_FAILED,
            message: "a hook hangs".to_owned(),
        };
        case.attempts.failed(failed, NOW, 0.0);
    }
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.observed.gpu_clusters = None;
    assert_eq!(case.plan_at(later), Plan::Read(Reading::GpuClusters));
    case.observed.gpu_clusters = Some(true);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
}

#[test]
fn an_install_that_was_killed_is_uninstalled_without_hooks() {
    let mut case = Case::ours(&[RevisionStatus::PendingInstall]);
    case.deleting = true;
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.observed.gpu_clusters = Some(false);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: false }));
    case.observed.gpu_clusters = Some(true);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
}

#[test]
fn labels_stay_where_somebody_else_runs_the_stack() {
    let mut case = left(Leavings::Nodes, Remedy::Delete);
    case.observed.policies = vec![fixtures::policy(None, None)];
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}
