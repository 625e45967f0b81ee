//! What is said of nodes that are to be left out.

use super::*;
use crate::facts::{GpuPod, MaintenanceWindow, OperandsLabel, WorkFacts};
use crate::plan::{LabelChange, NodeLabel};

/// Node `a` of pool `gpu`, which the spec excludes, and `b` of another pool, which works.
fn excluded(is_labelled: bool) -> Case {
    let (mut a, mut b) = (node("a", u64::from(!is_labelled)), node("b", 1));
    a.operands = is_labelled.then(|| OperandsLabel {
        value: "false".to_owned(),
        is_ours: true,
    });
    b.pool = Some("other".to_owned());
    let mut case = Case::deployed(vec![a, b]);
    case.nodes = Some(NodesSpec {
        exclude: vec!["gpu".to_owned()],
        ..NodesSpec::default()
    });
    case
}

fn description(case: &Case) -> String {
    case.compute().status.description
}

fn including(pools: &[&str]) -> Case {
    let mut case = excluded(true);
    case.nodes = Some(NodesSpec {
        include: pools.iter().map(|&pool| pool.to_owned()).collect(),
        ..NodesSpec::default()
    });
    case
}

#[test]
fn a_node_in_use_that_is_to_be_left_out_is_told_with_what_it_waits_for() {
    let mut case = excluded(false);
    let pod = |node: &str| GpuPod {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        node: node.to_owned(),
    };
    let pools = case.compute().status.worker_pools;
    let counts = pools
        .iter()
        .map(|pool| (pool.nodes, pool.participating, pool.usable));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 0, 0), (1, 1, 1)]);
    assert!(!description(&case).contains("leaving out"), "nobody has looked");
    case.observed.gpu_work = Some(WorkFacts::Read(vec![pod("b")]));
    assert!(!description(&case).contains("leaving out"), "work elsewhere");
    case.observed.gpu_work = Some(WorkFacts::Read(vec![pod("a"), pod("b")]));
    let told = "; leaving out GPU nodes a waits for 1 Pod that uses a GPU (team/train)";
    assert!(description(&case).ends_with(told), "{}", description(&case));
    assert_eq!(case.state(), State::Ready);
    case.observed.gpu_work = Some(WorkFacts::Unreadable("no".to_owned()));
    assert!(description(&case).ends_with("GPU work cannot be read: no"));
    case.observed.gpu_work = None;
    let closed = MaintenanceWindow::parse("100000+0000", "110000+0000").unwrap();
    case.observed.maintenance = Some(Ok(closed));
    assert!(description(&case).contains("leaving out GPU nodes a waits for the maintenance window"));
    case.observed.maintenance = Some(Err("no".to_owned()));
    assert!(description(&case).ends_with("the maintenance window is not known: no"));
    // Done.
    let mut case = excluded(true);
    case.observed.gpu_work = Some(WorkFacts::Read(vec![pod("a")]));
    assert!(!description(&case).contains("leaving out"));
}

#[test]
fn a_node_that_is_left_out_and_stays_cordoned_is_told() {
    let mut case = excluded(true);
    assert!(!description(&case).contains("cordoned"));
    case.observed.gpu_nodes[0].schedulable = false;
    assert!(description(&case).contains("left out and cordoned: a, use kubectl uncordon"));
    assert_eq!(case.state(), State::Ready);
    case.observed.gpu_nodes[0].leaving = true;
    assert!(!description(&case).contains("cordoned"));
}

#[test]
fn a_named_pool_whose_nodes_have_no_gpu_is_a_warning_where_no_gpu_node_takes_part() {
    for with_gpu_nodes in [true, false] {
        let mut case = including(&["cpu", "spare"]);
        case.observed.pools_without_gpu = [("cpu", NOW), ("system", NOW)]
            .map(|(pool, first)| (pool.to_owned(), first))
            .into();
        if !with_gpu_nodes {
            case.observed.gpu_nodes.clear();
        }
        // A node without labels may still turn out to have one.
        assert_eq!(case.state(), State::Ready);
        case.wait();
        assert_eq!(case.now, NOW + STARTING_LIMIT);
        assert_eq!(case.state(), State::Warning);
        assert_eq!(case.reason(ConditionType::OperandsReady), "WorkerPoolWithoutGpu");
        let told = description(&case);
        assert!(told.contains("no node in cpu has a GPU"), "{told}");
        assert_eq!(told.contains("GPU nodes in gpu, other"), with_gpu_nodes, "{told}");
        assert_eq!(told.matches("cpu").count(), 1, "{told}");
    }
    // Somebody has one node take part all the same.
    let mut case = including(&["cpu"]);
    case.now = NOW + LATER;
    case.observed.pools_without_gpu = [("cpu".to_owned(), NOW)].into();
    assert_eq!(case.state(), State::Warning);
    case.observed.gpu_nodes[1].operands = Some(OperandsLabel {
        value: "true".to_owned(),
        is_ours: false,
    });
    assert_eq!(case.state(), State::Ready);
}

#[test]
fn a_named_pool_without_any_node_is_a_note() {
    let mut case = including(&["gpus"]);
    case.now = NOW + LATER;
    case.observed.pools_without_gpu = [("system".to_owned(), NOW)].into();
    assert_eq!(case.state(), State::Ready);
    assert_eq!(case.reason(ConditionType::OperandsReady), "NoGpuNodes");
    let told = description(&case);
    assert!(
        told.contains("; no GPU node is in gpus") && told.ends_with("there are GPU nodes in gpu, other"),
        "{told}"
    );
    // Who has no GPU node yet may name pools that come.
    case.observed.gpu_nodes.clear();
    assert_eq!(case.state(), State::Ready);
    assert!(!description(&case).contains("spec.nodes names"));
}

#[test]
fn names_of_pools_without_gpu_nodes_are_told() {
    let mut case = including(&["other", "spare"]);
    let told = "; no GPU node is in spare, which spec.nodes names";
    assert!(description(&case).ends_with(told), "{}", description(&case));
    assert_eq!(case.state(), State::Ready);
    case.nodes.as_mut().unwrap().include.pop();
    assert!(!description(&case).contains("spec.nodes names"));
}

#[test]
fn a_label_that_is_refused_again_and_again_is_told() {
    let mut case = excluded(false);
    let refuse = |case: &mut Case, error: Option<&str>| {
        let label = NodeLabel {
            node: "a".to_owned(),
            uid: case.observed.gpu_nodes[0].uid.clone(),
            change: LabelChange::KeepOut,
        };
        let error = error.map(ToOwned::to_owned);
        case.labelled.tried(label, error, NOW, 0.0);
    };
    for _ in 0..2 {
        refuse(&mut case, Some("forbidden"));
    }
    assert!(!description(&case).contains("forbidden"), "it may be by chance");
    refuse(&mut case, Some("forbidden"));
    let told = "the labels of nodes a cannot be changed, which is tried again: forbidden";
    assert!(description(&case).contains(told), "{}", description(&case));
    // It went well, and somebody else is at odds with it.
    refuse(&mut case, None);
    assert!(!description(&case).contains("cannot be changed"));
    refuse(&mut case, Some("forbidden"));
    case.observed.gpu_nodes.remove(0);
    assert!(
        !description(&case).contains("cannot be changed"),
        "the node is gone"
    );
}
