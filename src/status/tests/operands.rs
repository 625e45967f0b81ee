//! What NVIDIA's operands and the GPU nodes lead to.

use super::*;
use crate::facts::{OperandPod, Part, PodState};

#[test]
fn all_nodes_usable_is_ready() {
    let case = Case::deployed(vec![node("a", 1), node("b", 8)]);
    let status = case.compute().status;
    assert_eq!(status.state, State::Ready);
    assert_eq!(status.gpu_nodes.summary, "2/2");
    assert_eq!(status.release.unwrap().revision, 1);
    assert_eq!(status.description, "all 2 GPU nodes can be used");
    assert_eq!(case.compute().recheck, None);
}

#[test]
fn no_gpu_node_is_healthy_and_says_so() {
    let case = Case::deployed(vec![]);
    assert_eq!(case.state(), State::Ready);
    assert_eq!(case.reason(ConditionType::OperandsReady), "NoGpuNodes");
}

#[test]
fn nodes_that_cannot_be_read_are_an_error_and_not_an_empty_cluster() {
    let mut case = Case::deployed(vec![]);
    case.observed.unread = vec!["Nodes"];
    let status = case.compute().status;
    assert_eq!(status.state, State::Error);
    assert_eq!(case.status_of(ConditionType::OperandsReady), "Unknown");
    assert!(
        status.description.contains("may not read Nodes"),
        "{}",
        status.description
    );
}

#[test]
fn ready_of_cluster_policy_alone_is_not_believed() {
    let case = Case::deployed(vec![node("a", 0)]);
    assert_eq!(case.state(), State::Processing);
    assert_eq!(case.reason(ConditionType::OperandsReady), "RollingOut");
}

#[test]
fn processing_ends_in_a_state_that_names_the_nodes() {
    let mut case = Case::deployed(vec![node("a", 0), node("b", 1)]);
    case.wait();
    assert_eq!(case.now, NOW + STARTING_LIMIT);
    assert_eq!(case.state(), State::Warning);
    assert!(
        case.compute()
            .status
            .description
            .contains("1 of 2 GPU nodes cannot be used: no driver is ready for the kernel (a), look at")
    );
    case.observed.gpu_nodes.pop();
    assert_eq!(
        case.state(),
        State::Error,
        "no node is usable for a technical cause"
    );
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.observed.gpu_nodes[0].schedulable = false;
    assert_eq!(case.state(), State::Warning, "a cordon is a user's to undo");
}

#[test]
fn a_cordon_is_told_at_once_since_nothing_is_being_set_up_behind_it() {
    let mut case = Case::deployed(vec![node("a", 1), node("b", 1)]);
    case.observed.gpu_nodes[0].schedulable = false;
    assert_eq!(case.state(), State::Warning);
    assert_eq!(case.reason(ConditionType::OperandsReady), "Cordoned");
    let description = case.compute().status.description;
    assert!(
        description.contains("1 of 2 GPU nodes cannot be used: the node is cordoned, so that no Pod can start there (a), run kubectl uncordon"),
        "{description}"
    );
    // The operands do start on a cordoned node.
    case.observed.gpu_nodes[0].allocatable = 0;
    assert_eq!(case.state(), State::Processing);
    assert_eq!(case.reason(ConditionType::OperandsReady), "RollingOut");
}

#[test]
fn a_node_that_joins_does_not_flap_the_state() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.now = NOW + LATER;
    let mut young = node("b", 0);
    young.created = case.now;
    case.observed.gpu_nodes.push(young);
    case.observed.policies[0].state = Some("notReady".to_owned());
    assert_eq!(case.state(), State::Ready);
    assert_eq!(case.reason(ConditionType::OperandsReady), "NodesStarting");
    assert_eq!(case.compute().recheck, Some(case.now + STARTING_LIMIT));
    case.wait();
    assert_eq!(case.state(), State::Warning);
}

#[test]
fn a_silent_controller_is_an_error_after_its_time() {
    let mut case = Case::deployed(vec![]);
    case.observed.policies[0].state = None;
    assert_eq!(case.state(), State::Processing);
    case.wait();
    assert_eq!(case.state(), State::Error);
    assert_eq!(case.reason(ConditionType::OperandsReady), "OperatorNotReporting");
}

#[test]
fn not_ready_operands_become_a_warning_in_their_time_even_long_after_the_install() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.previous = Some(case.compute().status);
    case.now = NOW + LATER;
    case.observed.policies[0].state = Some("notReady".to_owned());
    case.observed.policies[0].error =
        Some(("OperandNotReady".to_owned(), "[state-dcgm-exporter]".to_owned()));
    assert_eq!(case.state(), State::Processing);
    case.wait();
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert!(
        status.description.contains("[state-dcgm-exporter]"),
        "{}",
        status.description
    );
}

#[test]
fn a_kubelet_that_starts_anew_is_given_its_time_though_the_device_plugin_is_ready_for_days() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.pass();
    case.now = NOW + LATER * 100;
    case.observed.gpu_nodes[0].allocatable = 0;
    case.observed.gpu_nodes[0].capacity = 0;
    assert_eq!(case.state(), State::Processing);
    case.wait();
    assert_eq!(case.state(), State::Error);
    assert_eq!(case.reason(ConditionType::OperandsReady), "NoAllocatableGpu");
}

#[test]
fn an_old_trouble_takes_no_time_from_a_new_one() {
    let mut foreign = node("b", 0);
    foreign.system.os_image = "Ubuntu 24.04.2 LTS".to_owned();
    let mut case = Case::deployed(vec![node("a", 1), foreign]);
    case.pass();
    case.now = NOW + LATER * 100;
    assert_eq!(case.pass().status.state, State::Warning);
    // No driver Pod for the kernel that it has now.
    case.observed.gpu_nodes[0].system.kernel = "6.18.41-cloud-amd64".to_owned();
    assert!(!case.compute().status.description.contains("(a)"));
    assert_eq!(
        case.reason(ConditionType::OperandsReady),
        "ForeignOperatingSystem"
    );
    case.wait();
    assert_eq!(case.reason(ConditionType::OperandsReady), "NodesNotUsable");
    // Nor do NVIDIA's own words inherit its age.
    case.observed.gpu_nodes = vec![node("a", 1)];
    case.pass();
    case.observed.policies[0].state = Some("notReady".to_owned());
    assert_eq!(case.state(), State::Processing);
}

#[test]
fn one_broken_node_is_no_error_while_others_are_within_their_time() {
    let mut case = Case::deployed(vec![node("a", 0), node("b", 0)]);
    let crashing = fixtures::pod("a", Part::Driver, PodState::CrashLoop { restarts: 8 });
    case.observed.operand_pods = Some(OperandPods::new(vec![crashing]));
    assert_eq!(case.state(), State::Warning);
    case.wait();
    assert_eq!(case.state(), State::Error);
}

#[test]
fn what_keeps_nvidias_operator_from_going_on_is_told_beside_the_nodes() {
    let mut case = Case::deployed(vec![node("a", 0)]);
    case.observed.policies[0].state = Some("notReady".to_owned());
    let mut told = |reason: &str| {
        case.observed.policies[0].error = Some((reason.to_owned(), "pods is forbidden".to_owned()));
        case.compute().status.description
    };
    assert!(told("ReconcileFailed").ends_with("; NVIDIA's gpu-operator says: pods is forbidden"));
    assert!(!told("OperandNotReady").contains("forbidden"));
    case.observed.policies[0].error = None;
    let error = Some(("ReconcileFailed".to_owned(), "two drivers".to_owned()));
    case.observed.drivers = vec![crate::facts::DriverFacts {
        name: "gardenlinux-precompiled".to_owned(),
        owner: Some(owner(RELEASE_NAME)),
        state: Some("notReady".to_owned()),
        error,
    }];
    assert!(case.compute().status.description.ends_with(": two drivers"));
}

/// NVIDIA's operator looks at its parts one after the other, so it says that it is ready a moment after the last node is.
#[test]
fn a_node_that_has_just_come_up_makes_no_flap() {
    let mut case = Case::deployed(vec![node("a", 1), node("b", 1)]);
    case.now = NOW + STARTING_LIMIT;
    case.observed.gpu_nodes[1].created = case.now - SignedDuration::from_mins(3);
    let pods = |since| {
        let old = fixtures::ready_pods("a").into_iter();
        let new = fixtures::ready_pods("b").into_iter();
        let new = new.map(move |pod| OperandPod { since, ..pod });
        OperandPods::new(old.chain(new).collect())
    };
    case.observed.operand_pods = Some(pods(case.now - SignedDuration::from_secs(1)));
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("notReady"))];
    assert_eq!(case.state(), State::Ready);
    let recheck = case.compute().recheck.unwrap();
    assert_eq!(recheck, case.now + SignedDuration::from_secs(59));
    case.now = recheck;
    assert_eq!(case.reason(ConditionType::OperandsReady), "OperandsNotReady");

    // Of a node that was there before the release nothing excuses it.
    case.observed.operand_pods = Some(pods(case.now));
    case.observed.gpu_nodes[1].created = NOW;
    assert_eq!(case.reason(ConditionType::OperandsReady), "OperandsNotReady");
}
