//! What is told while a driver is replaced, and of one that is not the wanted one.

use super::*;
use crate::facts::{DaemonSetFacts, DriverChange, DriverFacts, DriverImage, OperandPods};

fn changing(name: &str, allocatable: u64, change: DriverChange) -> NodeFacts {
    NodeFacts {
        schedulable: change == DriverChange::Waiting,
        driver_change: Some(change),
        ..node(name, allocatable)
    }
}

#[test]
fn a_driver_change_may_take_long_on_many_nodes_and_asks_nobody_to_uncordon() {
    let mut nodes = vec![changing("a", 1, DriverChange::UnderWay)];
    nodes.extend(["b", "c", "d"].map(|name| changing(name, 1, DriverChange::Waiting)));
    let mut case = Case::deployed(nodes);
    case.previous = Some(case.compute().status);
    case.now = NOW + LATER;
    assert_eq!(case.state(), State::Processing);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverRollingOut");
    let description = case.compute().status.description;
    assert!(
        description.contains("0 of 4 done (a cordoned for it); 3 of 4 GPU nodes"),
        "{description}"
    );
    case.wait();
    assert_eq!(case.now, NOW + STARTING_LIMIT * 4);
    assert_eq!(case.state(), State::Warning);
}

#[test]
fn between_two_nodes_of_a_driver_change_all_are_usable_and_it_is_not_over() {
    let mut case = Case::deployed(vec![node("a", 1), changing("b", 1, DriverChange::Waiting)]);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverRollingOut");
    let preinstalled = serde_json::from_value(json!({ "driver": { "mode": "Preinstalled" } })).unwrap();
    case.desired = crate::desired::resolve(
        &preinstalled,
        &Catalogue::compiled_in().unwrap(),
        crate::api::NodeFeatureDiscovery::Module,
        &[],
    );
    assert_eq!(case.state(), State::Ready, "the label is a left-over");
}

#[test]
fn a_failed_driver_change_is_told_at_once() {
    let mut case = Case::deployed(vec![node("a", 1), changing("b", 1, DriverChange::Failed)]);
    assert_eq!(case.state(), State::Warning);
    assert_eq!(case.reason(ConditionType::OperandsReady), "UpgradeFailed");
    let description = case.compute().status.description;
    assert!(
        description.contains("could not be replaced (b), look at"),
        "{description}"
    );
    case.observed.gpu_nodes.remove(0);
    assert_eq!(case.state(), State::Warning, "a trouble of its pool");
}

#[test]
fn a_failed_driver_change_on_a_node_that_works_is_told_of_its_pool_alone() {
    let mut case = Case::deployed(vec![node("a", 1), changing("b", 1, DriverChange::Failed)]);
    case.observed.gpu_nodes[1].schedulable = true;
    let status = case.compute().status;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Ready, "2/2")
    );
    let problem = &status.worker_pools[0].problems[0];
    assert_eq!((problem.reason.as_str(), problem.nodes), ("UpgradeFailed", 1));
}

#[test]
fn a_driver_change_is_seen_beside_a_broken_node_and_counts_those_that_can_have_a_driver() {
    let mut foreign = node("c", 0);
    foreign.system.os_image = "Ubuntu 24.04.2 LTS".to_owned();
    let nodes = vec![node("a", 1), changing("b", 1, DriverChange::UnderWay), foreign];
    let case = Case::deployed(nodes);
    assert_eq!(case.state(), State::Warning);
    let description = case.compute().status.description;
    assert!(
        description.ends_with("; the driver is being replaced node by node, 1 of 2 done (b cordoned for it); 1 of 3 GPU nodes can be used"),
        "{description}"
    );
}

#[test]
fn a_node_that_the_next_driver_cannot_serve_works_until_it_is_left_out() {
    let mut newer = node("a", 1);
    newer.system.os_image = "Garden Linux 2150.8.0".to_owned();
    let mut case = Case::deployed(vec![newer]);
    let branch = serde_json::from_value(json!({ "driver": { "branch": 570 } })).unwrap();
    let wanted = |spec| {
        let catalogue = Catalogue::compiled_in().unwrap();
        crate::desired::resolve(spec, &catalogue, crate::api::NodeFeatureDiscovery::Module, &[])
    };
    case.desired = wanted(&branch);
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Drivers,
    };
    assert_eq!(case.state(), State::Ready);
    let left_out = Some(crate::facts::OperandsLabel {
        value: "false".to_owned(),
        is_ours: true,
    });
    case.observed.gpu_nodes[0].operands = left_out;
    assert_eq!(case.reason(ConditionType::OperandsReady), "ExcludedDriver");
    // The way back: the label is still there, and the node would work with what is wanted.
    case.desired = wanted(&serde_json::from_value(json!({ "driver": { "mode": "Preinstalled" } })).unwrap());
    let status = case.compute().status;
    assert_eq!(status.worker_pools[0].problems[0].reason, "Rejoining");
    assert_eq!(status.gpu_nodes.summary, "0/0");
}

fn driver_object(state: Option<&str>) -> DriverFacts {
    DriverFacts {
        name: "gardenlinux-precompiled".to_owned(),
        owner: Some(owner(RELEASE_NAME)),
        state: state.map(ToOwned::to_owned),
        error: state.map(|_| ("DriverNotReady".to_owned(), "Waiting for driver pod".to_owned())),
    }
}

#[test]
fn ready_of_cluster_policy_says_nothing_of_the_driver_object() {
    // As measured after an upgrade to 26.7: ClusterPolicy's `ready` is older than the NVIDIADriver.
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.observed.drivers = vec![driver_object(None)];
    assert_eq!(case.reason(ConditionType::OperandsReady), "OperatorNotReporting");
    case.observed.drivers = vec![driver_object(Some("notReady"))];
    assert_eq!(case.state(), State::Processing);
    assert!(
        case.compute()
            .status
            .description
            .contains("Waiting for driver pod")
    );
    case.wait();
    assert_eq!(case.state(), State::Warning);
    case.observed.drivers = vec![driver_object(Some("ready"))];
    assert_eq!(case.state(), State::Ready);
    case.observed.drivers = vec![DriverFacts {
        owner: None,
        ..driver_object(None)
    }];
    assert_eq!(
        case.state(),
        State::Ready,
        "a user's own NVIDIADriver is not judged"
    );
}

#[test]
fn a_driver_that_is_not_the_wanted_one_is_not_ready() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.observed.drivers = vec![driver_object(Some("ready"))];
    case.observed.operand_pods = Some(OperandPods::new(fixtures::ready_pods("a")));
    let set = |owner: &str, tag: &str| DaemonSetFacts {
        terminating: false,
        name: "d".to_owned(),
        desired: 1,
        ready: 1,
        updated: 1,
        driver: Some(DriverImage {
            uid: String::new(),
            owner: owner.to_owned(),
            image: format!("ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:{tag}"),
        }),
    };
    let wanted = "580-6.12.47-cloud-amd64-gardenlinux0";
    let other = "590-6.12.47-cloud-amd64-gardenlinux0";
    case.observed.daemon_sets = vec![
        set("gardenlinux-precompiled", wanted),
        set("somebody-else", other),
    ];
    assert_eq!(case.state(), State::Ready);
    case.observed
        .daemon_sets
        .push(set("gardenlinux-precompiled", other));
    assert_eq!(case.state(), State::Processing);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverRollingOut");
    assert!(case.compute().status.description.contains(other));
    case.observed.daemon_sets[2].desired = 0;
    assert_eq!(case.state(), State::Ready, "no node runs it");
}
