//! Condition `Deleted`.

use super::*;

fn pods(count: usize) -> Vec<GpuPod> {
    let pod = |number| GpuPod {
        namespace: format!("team-{}", number % 2),
        name: format!("train-{number}"),
        node: "gpu-0".to_owned(),
    };
    (0..count).map(pod).collect()
}

#[test]
fn it_is_there_only_during_a_deletion() {
    let mut case = Case::deployed(vec![node("gpu-0", 1)]);
    assert!(condition(&case.compute().status, ConditionType::Deleted).is_none());
    case.deleting = Some(NOW);
    assert_eq!(case.reason(ConditionType::Deleted), "Removing");
    assert_eq!(case.state(), State::Deleting);
}

#[test]
fn running_work_is_told_by_number_namespace_and_name() {
    let mut case = Case::deployed(vec![node("gpu-0", 1)]);
    case.deleting = Some(NOW);
    case.work = pods(7);
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Work,
    };
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    let deleted = condition(&status, ConditionType::Deleted).unwrap();
    assert_eq!(
        (deleted.status.as_str(), deleted.reason.as_str()),
        ("False", "WorkloadsUsingGpu")
    );
    assert_eq!(
        deleted.message,
        "7 Pods use GPUs in namespaces team-0, team-1 (team-0/train-0, team-1/train-1, team-0/train-2, team-1/train-3, \
         team-0/train-4 and 2 more), so the module, whose deletion was asked for at 1970-01-01T00:00:00Z, stays until they \
         end; delete them, or set spec.deletion.workloads to Ignore"
    );
    assert_eq!(status.description, deleted.message);
}

#[test]
fn what_is_done_meanwhile_leaves_the_state_as_it_is() {
    let mut case = Case::deployed(vec![node("gpu-0", 1)]);
    case.deleting = Some(NOW);
    case.work = pods(1);
    case.plan = Plan::Act(Action::LabelNodes { labels: Vec::new() });
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert!(
        status
            .description
            .starts_with("1 Pod uses a GPU in namespace team-0 (team-0/train-0)")
    );
}

#[test]
fn the_step_says_how_much_is_left_and_what_is_refused() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Refused {
            what: Leavings::Nodes,
            names: vec!["Node a".to_owned(), "Node b".to_owned()],
            why: "a policy says no".to_owned(),
        },
    };
    let status = case.compute().status;
    assert_eq!(status.state, State::Deleting);
    assert_eq!(
        status.description,
        "step 7 of 8 of the removal: labels and annotations are being taken off nodes (2 left: Node a, Node b), which is refused and \
         tried again: a policy says no"
    );
}
