//! The removal once nothing holds it.

use super::*;

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

#[test]
fn the_finalizer_stays_until_what_the_release_made_is_gone() {
    let mut case = Case::new();
    case.deleting = true;
    case.recorded = Some(recorded(1));
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), None)];
    case.observed.daemon_sets = vec![DaemonSetFacts {
        name: "d".to_owned(),
        desired: 1,
        ready: 1,
        updated: 1,
        driver: None,
    }];
    let left = vec![
        "ClusterPolicy cluster-policy".to_owned(),
        "DaemonSet d".to_owned(),
    ];
    assert_eq!(case.plan(), Plan::AwaitRemoval(left));
    case.observed.policies.clear();
    case.observed.daemon_sets.clear();
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}
