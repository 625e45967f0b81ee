//! Deletions that running GPU work holds.

use super::*;
use crate::facts::{GpuPod, NodeFacts, NodeIds, OperandsLabel, WorkFacts};

/// A module that is being deleted while a Pod uses a GPU.
fn busy() -> Case {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.deleting = true;
    case.removal = None;
    case.observed.gpu_nodes = vec![fixtures::node("gpu-0", 1)];
    case.observed.gpu_work = Some(WorkFacts::Read(vec![GpuPod {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        node: "gpu-0".to_owned(),
    }]));
    case
}

fn is_held(case: &Case) -> bool {
    let held = Plan::Wait {
        until: NOW + WORK_LOOK,
        why: Wait::Work,
    };
    case.plan() == held
}

#[test]
fn running_work_holds_a_deletion_until_it_ends() {
    let mut case = busy();
    assert!(is_held(&case));
    case.observed.gpu_work = None;
    assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    assert_eq!(case.plan(), Plan::Read(Reading::DriverUpgrades));
}

#[test]
fn what_cannot_be_read_holds_it_too() {
    let mut case = busy();
    case.observed.gpu_work = Some(WorkFacts::Unreadable("forbidden".to_owned()));
    assert!(is_held(&case));
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    case.observed.unread = vec!["Nodes"];
    assert!(is_held(&case), "nobody knows which nodes have GPUs");
}

#[test]
fn the_user_can_have_it_ignored() {
    let mut case = busy();
    case.deletion_workloads = DeletionWorkloads::Ignore;
    assert_eq!(case.plan(), Plan::Read(Reading::DriverUpgrades));
}

#[test]
fn what_has_begun_and_what_is_others_is_not_held() {
    let mut case = busy();
    case.removal = Some(Removal::default());
    assert!(matches!(case.plan(), Plan::Act(Action::Uninstall { .. })));
    let mut case = busy();
    case.change_latest(|latest| (latest.by, latest.meant) = (None, None));
    case.recorded = None;
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn what_stands_without_any_record_in_the_modules_namespace_is_held_too() {
    let mut case = busy();
    case.observed.release = ReleaseFacts::Read(History::default());
    case.recorded = None;
    let around = case.observed.surroundings.as_mut().unwrap();
    (around.namespace, around.cluster_role) = (SurroundingNamespace::Ours, Some(Some(owner(RELEASE_NAME))));
    assert!(is_held(&case));
}

#[test]
fn a_release_whose_secrets_are_gone_is_held_before_it_is_recorded_anew() {
    let mut case = busy();
    case.observed.release = ReleaseFacts::Read(History::default());
    case.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner(RELEASE_NAME)));
    assert!(is_held(&case));
}

#[test]
fn everything_but_the_release_goes_on_meanwhile() {
    // A newer chart and another driver are wanted: neither comes.
    let mut case = busy();
    case.change_latest(|latest| latest.chart = Some(Version::new(26, 3, 3)));
    assert!(is_held(&case));
    case.change_latest(|latest| latest.chart = Some(Version::new(26, 7, 0)));
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    assert!(is_held(&case));

    // What is missing comes back.
    case.desired = resolve(json!({}));
    case.drift_mode = DriftMode::Correct;
    assert!(matches!(case.plan(), Plan::Act(Action::RestoreCrds { .. })));
    case.suspended = true;
    assert!(is_held(&case));
    case.suspended = false;
    case.drift_mode = DriftMode::Ignore;

    // A node that may come back loses the label.
    let labelled = OperandsLabel {
        value: "false".to_owned(),
        is_ours: true,
    };
    case.observed.former_gpu_nodes = vec![NodeFacts {
        operands: Some(labelled),
        ..fixtures::node("old", 0)
    }];
    assert!(matches!(case.plan(), Plan::Act(Action::LabelNodes { .. })));
}

#[test]
fn what_nobody_knows_later_is_noted_before_anything_is_taken_away() {
    let mut case = busy();
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    let nodes = NodeIds::from(["uid".to_owned()]);
    case.observed.driver_upgrades = Some(nodes.clone());
    let removal = Removal {
        of: "module".to_owned(),
        began: Some(NOW),
        stays: None,
        in_driver_upgrade: nodes,
    };
    let begin = Plan::Act(Action::BeginRemoval {
        removal: removal.clone(),
    });
    assert_eq!(case.plan(), begin);
    case.removal = Some(removal);
    assert!(matches!(case.plan(), Plan::Act(Action::Uninstall { .. })));
}

#[test]
fn who_comes_only_to_remove_does_nothing_while_the_removal_is_held() {
    let labelled = OperandsLabel {
        value: "false".to_owned(),
        is_ours: true,
    };
    let mut drifted = busy();
    drifted.drift_mode = DriftMode::Correct;
    let mut relabelled = busy();
    relabelled.observed.former_gpu_nodes = vec![NodeFacts {
        operands: Some(labelled),
        ..fixtures::node("old", 0)
    }];
    for mut case in [drifted, relabelled] {
        assert!(
            !is_held(&case),
            "something is to be done meanwhile: {:?}",
            case.plan()
        );
        case.only_removes = true;
        assert!(is_held(&case), "{:?}", case.plan());
        // What has to be known before that is still read, and what is held by nobody goes on.
        case.observed.gpu_work = None;
        assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
        case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
        assert_eq!(case.plan(), Plan::Read(Reading::DriverUpgrades));
    }
}
