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
    assert_eq!(case.state(), State::Error);
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
