//! A driver change that waits: what is said, and what stays as it was.

use super::*;
use crate::facts::{DriverFacts, GpuPod, MaintenanceWindow};
use crate::plan::{Blocker, DriverWait, Waiting};

/// Branch 590 is wanted and held, 580 runs, and the nodes are fine.
fn waits_for(blocker: Blocker) -> Case {
    let mut case = Case::deployed(vec![node("a", 1)]);
    let resolve = |spec| {
        let spec = serde_json::from_value(spec).unwrap();
        crate::desired::resolve(
            &spec,
            &Catalogue::compiled_in().unwrap(),
            crate::api::NodeFeatureDiscovery::default(),
            &[],
        )
        .unwrap()
    };
    let desired = resolve(json!({ "driver": { "branch": 590 } }));
    case.waiting = Waiting::Driver(Box::new(DriverWait {
        from: Some(resolve(json!({})).driver_id),
        to: desired.driver_id.clone(),
        whole: false,
        blocker,
    }));
    case.desired = Ok(desired);
    // As NVIDIA's operator judges drivers that it may not replace.
    case.observed.drivers = vec![DriverFacts {
        name: "gardenlinux-precompiled".to_owned(),
        owner: Some(owner(RELEASE_NAME)),
        state: Some("notReady".to_owned()),
        error: Some(("DriverNotReady".to_owned(), "waiting for driver pod".to_owned())),
    }];
    case
}

fn work() -> Blocker {
    Blocker::Work(vec![GpuPod {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        node: "a".to_owned(),
    }])
}

fn pending(case: &Case) -> (String, String, String) {
    let status = case.compute().status;
    let found = condition(&status, ConditionType::DriverChangePending).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

#[test]
fn a_busy_cluster_stays_ready_and_says_what_waits_for_whom() {
    let case = waits_for(work());
    let text = "the change from driver 580 to 590 waits for 1 Pod that uses a GPU (team/train)";
    let expected = ("True".to_owned(), "WaitingForIdle".to_owned(), text.to_owned());
    assert_eq!(pending(&case), expected);
    assert_eq!(case.state(), State::Ready);
    let description = case.compute().status.description;
    assert_eq!(description, format!("the one GPU node can be used; {text}"));
    let none = Case::deployed(vec![node("a", 1)]);
    assert_eq!(
        (pending(&none).0.as_str(), pending(&none).1.as_str()),
        ("False", "NoDriverChange")
    );
}

#[test]
fn every_wait_has_its_reason() {
    let window = MaintenanceWindow::parse("220000+0100", "230000+0100").unwrap();
    let next = window.next_begin(NOW);
    for (blocker, reason, words) in [
        (
            Blocker::WorkUnreadable("no".to_owned()),
            "WorkUnreadable",
            "it is not known whether Pods use GPUs: no",
        ),
        (
            Blocker::Window { window, next },
            "WaitingForWindow",
            "the maintenance window (21:00 to 22:00 UTC), which opens next at 1970-01-01T21:00:00Z",
        ),
        (
            Blocker::WindowUnreadable("there is none".to_owned()),
            "WindowUnreadable",
            "there is none",
        ),
    ] {
        let (status, found, message) = pending(&waits_for(blocker));
        assert_eq!((status.as_str(), found.as_str()), ("True", reason));
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn the_wait_has_one_beginning_whatever_it_waits_for() {
    let mut case = waits_for(work());
    case.previous = Some(case.compute().status);
    case.now = NOW + LATER;
    assert_eq!(
        case.compute().status,
        case.previous.clone().unwrap(),
        "nothing changed"
    );
    case.waiting = waits_for(Blocker::WorkUnreadable("no".to_owned())).waiting;
    let since = |case: &Case| {
        let status = case.compute().status;
        condition(&status, ConditionType::DriverChangePending)
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!(since(&case), NOW);
    case.waiting = Waiting::Unknown;
    assert_eq!(pending(&case).1, "WaitingForIdle", "nobody looked");
    assert_eq!(since(&case), NOW);
    case.waiting = Waiting::Nothing;
    assert_eq!(since(&case), case.now);
}

#[test]
fn what_is_held_is_not_called_broken_and_what_is_broken_is_not_called_held() {
    let mut case = waits_for(work());
    let mut policy = fixtures::policy(Some(owner(RELEASE_NAME)), Some("notReady"));
    let error = |states: &str| {
        let message = format!("ClusterPolicy is not ready, states not ready: [{states}]");
        Some(("OperandNotReady".to_owned(), message))
    };
    policy.error = error("state-driver");
    case.observed.policies = vec![policy.clone()];
    assert_eq!(case.state(), State::Ready);
    policy.error = error("state-driver state-device-plugin");
    case.observed.policies = vec![policy];
    assert_eq!(case.reason(ConditionType::OperandsReady), "OperandsNotReady");

    let mut selector = waits_for(work());
    selector.observed.drivers[0].error = Some(("ConflictingNodeSelector".to_owned(), "two".to_owned()));
    assert_eq!(selector.reason(ConditionType::OperandsReady), "OperandsNotReady");
    let mut unusable = waits_for(work());
    unusable.observed.gpu_nodes = vec![node("a", 0)];
    unusable.pass();
    unusable.now = NOW + LATER;
    assert_eq!(unusable.state(), State::Error);
}

#[test]
fn drivers_that_a_suspended_module_holds_are_no_failure() {
    let mut case = waits_for(work());
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    let mut latest = history.latest().unwrap().clone();
    latest.driver_upgrades = Some(DriverUpgrades::Held);
    case.observed.release = ReleaseFacts::Read(crate::facts::History::new(vec![latest]));
    case.waiting = Waiting::Unknown;
    case.plan = Plan::Hold(Hold::Suspended);
    assert_eq!(case.state(), State::Ready);
}

#[test]
fn a_change_that_waits_as_a_whole_leaves_the_status_of_what_runs() {
    let mut case = waits_for(work());
    case.previous = Some(Case::deployed(vec![node("a", 1)]).compute().status);
    if let Waiting::Driver(wait) = &mut case.waiting {
        wait.whole = true;
    }
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Drivers,
    };
    let status = case.compute().status;
    assert_eq!(status.state, State::Ready);
    let previous = case.previous.as_ref().unwrap();
    assert_eq!(
        (status.driver, status.release),
        (previous.driver.clone(), previous.release.clone())
    );
    assert!(
        pending(&case)
            .2
            .ends_with("nothing else of the spec is applied before")
    );
}
