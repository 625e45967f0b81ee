//! Which nodes NVIDIA's operator is told to keep off.

use super::*;
use crate::facts::{
    DriverChange, GpuPod, MaintenanceWindow, NodeFacts, OperandPods, OperandsLabel, Part, PodState, WorkFacts,
};

const UBUNTU: &str = "Ubuntu 24.04.3 LTS";

fn node(name: &str, os_image: &str, allocatable: u64) -> NodeFacts {
    let mut node = fixtures::node(name, allocatable);
    node.system.os_image = os_image.to_owned();
    node
}

fn labelled(mut node: NodeFacts, value: &str, is_ours: bool) -> NodeFacts {
    node.operands = Some(OperandsLabel {
        value: value.to_owned(),
        is_ours,
    });
    node
}

fn good(name: &str) -> NodeFacts {
    node(name, "Garden Linux 2150.7.0", 1)
}

fn label(node: &NodeFacts, keep_out: bool) -> NodeLabel {
    NodeLabel {
        node: node.name.clone(),
        uid: node.uid.clone(),
        change: if keep_out {
            LabelChange::KeepOut
        } else {
            LabelChange::LetIn
        },
    }
}

fn labels(labels: &[(&NodeFacts, bool)]) -> Plan {
    let labels = labels.iter().map(|(node, keep_out)| label(node, *keep_out));
    Plan::Act(Action::LabelNodes {
        labels: labels.collect(),
    })
}

impl Case {
    pub(super) fn node_rules<'a>(&'a self, catalogue: &'a Catalogue) -> NodeRules<'a> {
        NodeRules {
            spec: Some(&self.nodes),
            driver: self.desired.as_ref().ok().map(|desired| &desired.driver),
            matrix: &catalogue.drivers,
        }
    }
}

/// A release that is as wanted, and these nodes.
fn settled(nodes: &[NodeFacts]) -> Case {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    let driver = case.desired.as_ref().unwrap().driver_id.clone();
    case.change_latest(|latest| {
        latest.driver = Some(driver);
        latest.driver_upgrades = Some(DriverUpgrades::AsConfigured);
    });
    case.observed.gpu_nodes = nodes.to_vec();
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    case
}

/// The same where the nodes run branch 580 and another one is wanted.
fn changing(branch: u16, nodes: &[NodeFacts]) -> Case {
    let mut case = settled(nodes);
    case.desired = resolve(json!({ "driver": { "branch": branch } }));
    case
}

fn noted(case: &mut Case, done: &Plan) {
    let Plan::Act(Action::LabelNodes { labels }) = done else {
        panic!("{done:?}");
    };
    for label in labels {
        case.labelled.tried(label.clone(), None, NOW, 0.0);
    }
}

fn busy() -> WorkFacts {
    WorkFacts::Read(vec![GpuPod {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        node: "a".to_owned(),
    }])
}

#[test]
fn nodes_that_cannot_work_are_labelled_before_the_first_install() {
    let (ubuntu, mut arm) = (node("b", UBUNTU, 0), good("c"));
    arm.system.architecture = "arm64".to_owned();
    let mut case = Case::new();
    case.observed.gpu_nodes = vec![good("a"), ubuntu.clone(), arm.clone()];
    case.finalizer = false;
    assert_eq!(case.plan_at(NOW), Plan::Act(Action::AddFinalizer));
    case.finalizer = true;
    case.observed.surroundings = None;
    assert_eq!(case.plan_at(NOW), Plan::Look);
    case.observed.surroundings = fixtures::observed().surroundings;
    let plan = case.plan_at(NOW);
    assert_eq!(plan, labels(&[(&ubuntu, true), (&arm, true)]));
    // What was labelled a moment ago is not labelled again, though no watch has told of it.
    noted(&mut case, &plan);
    assert!(matches!(case.plan_at(NOW), Plan::Act(Action::Upgrade { .. })));
}

#[test]
fn a_label_follows_what_the_node_runs() {
    let (foreign, ours) = (node("a", UBUNTU, 0), labelled(good("a"), "false", true));
    assert_eq!(
        settled(std::slice::from_ref(&foreign)).plan_at(NOW),
        labels(&[(&foreign, true)])
    );
    assert_eq!(
        settled(&[labelled(foreign, "false", true)]).plan_at(NOW),
        Plan::Keep
    );
    assert_eq!(
        settled(std::slice::from_ref(&ours)).plan_at(NOW),
        labels(&[(&ours, false)])
    );
    assert_eq!(settled(&[good("a")]).plan_at(NOW), Plan::Keep);
    // An image may be there although the module does not know it.
    assert_eq!(
        settled(&[node("a", "Garden Linux 2150.99.0", 0)]).plan_at(NOW),
        Plan::Keep
    );
    // A kubelet that has not said anything yet.
    assert_eq!(settled(&[node("a", "", 0)]).plan_at(NOW), Plan::Keep);
}

#[test]
fn somebody_elses_label_is_never_touched() {
    for value in ["false", "true", ""] {
        for os_image in [UBUNTU, "Garden Linux 2150.7.0"] {
            let mut case = settled(&[labelled(node("a", os_image, 0), value, false)]);
            assert_eq!(case.plan_at(NOW), Plan::Keep, "{value} {os_image}");
            case.nodes.exclude = vec!["gpu".to_owned()];
            assert_eq!(case.plan_at(NOW), Plan::Keep, "{value} {os_image}");
            case.deleting = true;
            case.observed.release = ReleaseFacts::Read(History::default());
            assert_eq!(case.plan_at(NOW), Plan::Act(Action::RemoveFinalizer));
        }
    }
}

#[test]
fn the_spec_chooses_worker_pools() {
    let in_pool = |name: &str, pool: Option<&str>| {
        let mut node = good(name);
        node.pool = pool.map(ToOwned::to_owned);
        node
    };
    let nodes = [
        in_pool("a", Some("train")),
        in_pool("b", Some("infer")),
        in_pool("c", None),
    ];
    let [a, b, c] = &nodes;
    let chosen = |include: &[&str], exclude: &[&str]| {
        let mut case = settled(&nodes);
        let owned = |pools: &[&str]| pools.iter().map(|&pool| pool.to_owned()).collect();
        (case.nodes.include, case.nodes.exclude) = (owned(include), owned(exclude));
        case.plan_at(NOW)
    };
    assert_eq!(chosen(&[], &[]), Plan::Keep);
    assert_eq!(chosen(&[], &["infer"]), labels(&[(b, true)]));
    assert_eq!(chosen(&["train"], &[]), labels(&[(b, true), (c, true)]));
    assert_eq!(
        chosen(&["train", "infer"], &["infer"]),
        labels(&[(b, true), (c, true)])
    );
    assert_eq!(
        chosen(&["other"], &[]),
        labels(&[(a, true), (b, true), (c, true)])
    );
}

#[test]
fn nothing_is_labelled_while_the_module_may_not_act() {
    let mut case = settled(&[node("a", UBUNTU, 0)]);
    case.suspended = true;
    assert!(matches!(case.plan_at(NOW), Plan::Hold(Hold::Suspended)));
    case.suspended = false;
    case.desired = resolve(json!({ "chartVersion": "1.0.0" }));
    assert!(matches!(case.plan_at(NOW), Plan::Hold(Hold::Refused(_))));
    case.desired = resolve(json!({}));
    case.observed.kubernetes = "1.0".parse().unwrap();
    case.observed.release = ReleaseFacts::Read(History::default());
    assert!(matches!(
        case.plan_at(NOW),
        Plan::Hold(Hold::UnsupportedKubernetes { .. })
    ));
    case.observed.unread = vec!["Nodes"];
    assert!(matches!(case.plan_at(NOW), Plan::Hold(Hold::Unread(_))));
}

#[test]
fn a_driver_that_a_node_cannot_have_takes_it_out_when_the_change_goes_on_and_not_before() {
    let (excluded, idle) = (
        node("a", "Garden Linux 2150.9.0", 1),
        node("b", "Garden Linux 2150.9.0", 0),
    );
    let mut case = changing(570, &[excluded.clone(), good("c")]);
    case.observed.gpu_work = Some(busy());
    // The change goes into the release and is held there.
    assert!(
        matches!(case.plan_at(NOW), Plan::Act(Action::Upgrade { to, .. }) if to.drivers == DriverUpgrades::Held)
    );
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    let plan = case.plan_at(NOW);
    assert_eq!(plan, labels(&[(&excluded, true)]));
    noted(&mut case, &plan);
    assert!(
        matches!(case.plan_at(NOW), Plan::Act(Action::Upgrade { to, .. }) if to.drivers == DriverUpgrades::AsConfigured)
    );
    // Nothing is interrupted where nothing runs.
    let mut case = changing(570, &[idle.clone(), good("c")]);
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan_at(NOW), labels(&[(&idle, true)]));
}

#[test]
fn a_node_comes_back_after_the_release_is_as_wanted() {
    let kept_out = labelled(node("a", "Garden Linux 2150.9.0", 0), "false", true);
    let mut case = changing(590, std::slice::from_ref(&kept_out));
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    assert!(matches!(case.plan_at(NOW), Plan::Act(Action::Upgrade { .. })));
    assert_eq!(
        settled(std::slice::from_ref(&kept_out)).plan_at(NOW),
        labels(&[(&kept_out, false)])
    );
}

#[test]
fn two_writers_of_a_label_make_no_storm() {
    let foreign = node("a", UBUNTU, 0);
    let mut case = settled(std::slice::from_ref(&foreign));
    let catalogue = Catalogue::compiled_in().unwrap();
    let (mut now, mut tries) = (NOW, 0);
    while now < NOW + SignedDuration::from_hours(1) {
        if let Plan::Act(Action::LabelNodes { labels }) = case.plan_in(now, &catalogue) {
            tries += 1;
            // Somebody takes it off at once.
            case.labelled.tried(labels[0].clone(), None, now, 1.0);
        }
        now += SignedDuration::from_secs(1);
    }
    assert!((10..=16).contains(&tries), "{tries} times in an hour");
    // A failure of something else keeps no node waiting.
    let mut case = settled(&[foreign]);
    case.attempts.failed(
        Failure {
            reason: "UpgradeFailed",
            message: String::new(),
        },
        NOW,
        0.0,
    );
    assert!(matches!(case.plan_at(NOW), Plan::Act(Action::LabelNodes { .. })));
}

#[test]
fn many_nodes_are_labelled_in_several_steps() {
    let nodes: Vec<_> = (0..250)
        .map(|number| node(&format!("n-{number:03}"), UBUNTU, 0))
        .collect();
    let mut case = settled(&nodes);
    let mut sizes = Vec::new();
    while let plan @ Plan::Act(Action::LabelNodes { .. }) = case.plan_at(NOW) {
        noted(&mut case, &plan);
        let Plan::Act(Action::LabelNodes { labels }) = plan else {
            unreachable!();
        };
        sizes.push(labels.len());
    }
    assert_eq!(sizes, [100, 100, 50]);
}

#[test]
fn the_modules_labels_go_with_what_made_them() {
    let ours = labelled(node("a", UBUNTU, 0), "false", true);
    let mut case = settled(&[]);
    case.observed.former_gpu_nodes = vec![ours.clone()];
    assert_eq!(case.plan_at(NOW), labels(&[(&ours, false)]));
}

#[test]
fn what_a_driver_change_has_left_on_a_node_goes_once_its_driver_is_gone() {
    let left_behind = |change| {
        let mut node = labelled(good("a"), "false", true);
        (node.driver_change, node.schedulable) = (Some(change), false);
        let mut case = settled(&[node]);
        case.nodes.exclude = vec!["gpu".to_owned()];
        case
    };
    let ended = |case: &Case| {
        Plan::Act(Action::LabelNodes {
            labels: vec![NodeLabel {
                node: "a".to_owned(),
                uid: case.observed.gpu_nodes[0].uid.clone(),
                change: LabelChange::EndDriverChange,
            }],
        })
    };
    for change in [
        DriverChange::Waiting,
        DriverChange::UnderWay,
        DriverChange::Failed,
    ] {
        let mut case = left_behind(change);
        assert_eq!(case.plan_at(NOW), ended(&case));
        // Whoever keeps it out.
        case.observed.gpu_nodes[0].operands.as_mut().unwrap().is_ours = false;
        assert_eq!(case.plan_at(NOW), ended(&case));
        // NVIDIA's operator would write it again.
        let driver = fixtures::pod("a", Part::Driver, PodState::Leaving);
        case.observed.operand_pods = Some(OperandPods::new(vec![driver]));
        assert_eq!(case.plan_at(NOW), Plan::Keep);
        case.observed.operand_pods = None;
        assert_eq!(case.plan_at(NOW), Plan::Keep, "nobody knows");
    }
    // On a node that takes part it is NVIDIA's affair.
    let mut case = left_behind(DriverChange::Failed);
    case.nodes.exclude.clear();
    case.observed.gpu_nodes[0].operands = None;
    assert_eq!(case.plan_at(NOW), Plan::Keep);
}

/// A node in use that the spec leaves out.
fn excluded_in_use() -> (Case, NodeFacts) {
    let node = good("a");
    let mut case = settled(std::slice::from_ref(&node));
    case.nodes.exclude = vec!["gpu".to_owned()];
    case.observed.gpu_work = None;
    (case, node)
}

impl Case {
    fn looks_again(&self) -> Option<Timestamp> {
        let catalogue = Catalogue::compiled_in().unwrap();
        recheck_nodes(&self.situation(NOW, &catalogue), &self.plan_at(NOW))
    }
}

#[test]
fn a_node_in_use_is_left_out_once_it_is_idle() {
    let (mut case, node) = excluded_in_use();
    assert_eq!(case.plan_at(NOW), Plan::Read(Reading::GpuWork));
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan_at(NOW), Plan::Keep);
    assert_eq!(case.looks_again(), Some(NOW + WORK_LOOK));
    case.observed.gpu_work = Some(WorkFacts::Unreadable("no".to_owned()));
    assert_eq!(case.plan_at(NOW), Plan::Keep, "it fails closed");
    // What was seen a moment ago tells of no node that it is idle now.
    case.observed.gpu_work = busy().remembered();
    assert_eq!(case.plan_at(NOW), Plan::Keep);
    case.observed.gpu_nodes[0].name = "b".to_owned();
    assert_eq!(case.plan_at(NOW), Plan::Read(Reading::GpuWork));
    case.observed.gpu_nodes = vec![node.clone()];
    case.observed.gpu_work = Some(WorkFacts::Read(Vec::new()));
    assert_eq!(case.plan_at(NOW), labels(&[(&node, true)]));
    assert_eq!(case.looks_again(), None);
    // Also where something else changes that restarts no driver.
    case.desired = resolve(json!({ "values": { "mig": { "strategy": "mixed" } } }));
    case.observed.gpu_work = Some(busy());
    assert!(matches!(case.plan_at(NOW), Plan::Act(Action::Upgrade { .. })));
    // Work elsewhere is no reason to wait.
    let (mut case, node) = excluded_in_use();
    case.observed.gpu_nodes[0].name = "b".to_owned();
    case.observed.gpu_work = Some(busy());
    assert!(node.name != "b" && matches!(case.plan_at(NOW), Plan::Act(Action::LabelNodes { .. })));
}

#[test]
fn the_policy_says_when_a_node_in_use_is_left_out() {
    let (mut case, node) = excluded_in_use();
    case.upgrade_policy = UpgradePolicy::Immediate;
    assert_eq!(case.plan_at(NOW), labels(&[(&node, true)]));
    case.upgrade_policy = UpgradePolicy::Window;
    assert_eq!(case.plan_at(NOW), Plan::Read(Reading::MaintenanceWindow));
    let window = |begin, end| Some(Ok(MaintenanceWindow::parse(begin, end).unwrap()));
    case.observed.maintenance = window("000100+0000", "010000+0000");
    assert_eq!(case.plan_at(NOW), Plan::Keep);
    assert_eq!(case.looks_again(), Some(NOW + SignedDuration::from_mins(1)));
    case.observed.maintenance = window("230000+0000", "010000+0000");
    assert_eq!(case.plan_at(NOW), labels(&[(&node, true)]));
    case.observed.maintenance = Some(Err("no".to_owned()));
    assert_eq!(case.plan_at(NOW), Plan::Keep);
    assert!(case.looks_again().is_some());
}

#[test]
fn what_the_release_does_not_serve_is_in_nobodys_way() {
    // A driver and a device plugin of somebody's own, before the first install.
    let (mut case, node) = excluded_in_use();
    case.observed.gpu_work = Some(busy());
    case.observed.release = ReleaseFacts::Read(History::default());
    assert_eq!(case.plan_at(NOW), labels(&[(&node, true)]));
    // The kubelet or the device plugin has just started: no GPU is announced, and Pods have theirs.
    let (mut case, _) = excluded_in_use();
    let node = node_without_gpus(&mut case);
    case.observed.gpu_work = Some(busy());
    case.observed.operand_pods = Some(OperandPods::new(fixtures::ready_pods("a")));
    assert_eq!(case.plan_at(NOW), Plan::Keep);
    let starting = fixtures::pod("a", Part::Driver, PodState::Starting);
    case.observed.operand_pods = Some(OperandPods::new(vec![starting]));
    assert_eq!(case.plan_at(NOW), labels(&[(&node, true)]));
    // What the module itself finds impossible waits too: it may have learnt of it while it worked.
    let impossible = good("a");
    let mut case = settled(&[NodeFacts {
        system: node_system(UBUNTU),
        ..impossible
    }]);
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan_at(NOW), Plan::Keep);
}

fn node_without_gpus(case: &mut Case) -> NodeFacts {
    case.observed.gpu_nodes[0].allocatable = 0;
    case.observed.gpu_nodes[0].capacity = 0;
    case.observed.gpu_nodes[0].clone()
}

fn node_system(os_image: &str) -> crate::facts::SystemFacts {
    node("a", os_image, 1).system
}
