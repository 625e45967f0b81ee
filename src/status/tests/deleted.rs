//! Condition `Deleted`.

use super::*;
use crate::facts::{Departure, HoldCause, NamespaceHold, SurroundingNamespace};

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
        "step 7 of 8 of the removal: labels and annotations are being taken off nodes (2 left: Node a, Node b), which is not \
         possible yet and tried again: a policy says no"
    );
}

#[test]
fn a_removal_that_was_held_for_long_has_its_whole_time() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    case.now = NOW + SignedDuration::from_hours(24);
    case.plan = Plan::Act(Action::Uninstall { hooks: true });
    // Not installed as wanted for long before.
    let mut status = case.compute().status;
    for old in &mut status.conditions {
        old.last_transition_time.0 = NOW;
    }
    case.previous = Some(status);
    case.removal_began = Some(case.now);
    case.plan = awaits(Leavings::Pods, &["Pod a"]);
    assert_eq!(case.state(), State::Deleting);
    let due = case.compute().recheck;
    assert_eq!(due, Some(case.now + SignedDuration::from_mins(10)));
    case.now = due.unwrap();
    assert_eq!(case.state(), State::Error);
}

#[test]
fn a_pod_that_does_not_end_is_told_with_what_to_do() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    case.removal_began = Some(NOW);
    let told = |case: &Case| case.compute().status.description.contains("replace the node");
    for (what, expected) in [(Leavings::Pods, true), (Leavings::Namespace, false)] {
        case.plan = awaits(what, &["Pod a"]);
        case.now = NOW;
        assert!(!told(&case), "it may still end");
        case.now = NOW + SignedDuration::from_mins(10);
        assert_eq!(case.state(), State::Error);
        assert_eq!(told(&case), expected);
    }
}

#[test]
fn a_namespace_that_goes_is_the_step_of_a_removal_and_no_word_of_installing() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::NamespaceTerminating,
    };
    let status = case.pass().status;
    assert_eq!(status.state, State::Deleting);
    assert_eq!(
        status.description,
        "step 8 of 8 of the removal: the namespace is going"
    );
    let said = format!("{:?}", status.conditions);
    assert!(!said.contains("can be installed"), "{said}");
    case.now = NOW + SignedDuration::from_mins(10);
    assert_eq!(case.state(), State::Error);
    let description = case.compute().status.description;
    assert!(description.contains("namespace gpu-operator"), "{description}");
}

/// A namespace that has been going since then, with one cause of each of these kinds.
fn departing(case: &mut Case, causes: &[HoldCause]) {
    let held_by = causes.iter().map(|cause| NamespaceHold {
        cause: *cause,
        message: format!("{cause:?} of Kubernetes"),
    });
    let around = case.observed.surroundings.as_mut().unwrap();
    around.namespace = SurroundingNamespace::Terminating;
    around.departure = Some(Departure {
        since: case.now,
        held_by: held_by.collect(),
    });
}

#[test]
fn a_namespace_that_stays_is_told_with_what_keeps_it_and_what_to_do() {
    let terminating = Plan::Wait {
        until: NOW,
        why: Wait::NamespaceTerminating,
    };
    let awaited = awaits(Leavings::Namespace, &["Namespace gpu-operator"]);
    for (deleting, plan) in [
        (None, &terminating),
        (Some(NOW), &terminating),
        (Some(NOW), &awaited),
    ] {
        let mut case = Case::deployed(Vec::new());
        case.deleting = deleting;
        case.plan = plan.clone();
        departing(&mut case, &[HoldCause::Finalizers, HoldCause::Objects]);
        for now in [NOW, NOW + SignedDuration::from_mins(10)] {
            case.now = now;
            let status = case.compute().status;
            let told = "(Finalizers of Kubernetes; Objects of Kubernetes); see that the program runs";
            assert!(
                status.description.contains(told),
                "{plan:?}: {}",
                status.description
            );
        }
        assert_eq!(case.state(), State::Error);
        // What waits for Pods has other reasons.
        case.deleting = Some(NOW);
        case.plan = awaits(Leavings::Pods, &["Pod a"]);
        assert!(!case.compute().status.description.contains("of Kubernetes"));
    }
}

#[test]
fn each_step_of_a_removal_has_its_own_ten_minutes() {
    let minutes = |minutes| NOW + SignedDuration::from_mins(minutes);
    let mut case = Case::deployed(Vec::new());
    (case.deleting, case.removal_began) = (Some(NOW), Some(NOW));
    // Nobody may see the Pods any more, which is no reason to begin anew.
    case.observed.operand_pods = None;
    let uninstall = Action::Uninstall { hooks: true };
    for (at, plan, state) in [
        (0, Plan::Act(uninstall.clone()), State::Deleting),
        (14, awaits(Leavings::Pods, &["Pod a"]), State::Deleting),
        (23, awaits(Leavings::Pods, &["Pod a"]), State::Deleting),
        (23, awaits(Leavings::Hooks, &["Job a"]), State::Deleting),
        (32, awaits(Leavings::Hooks, &["Job a"]), State::Deleting),
        (33, awaits(Leavings::Hooks, &["Job a"]), State::Error),
    ] {
        (case.now, case.plan) = (minutes(at), plan);
        case.ended.clear();
        if at == 14 {
            case.ended.push(Ended {
                action: uninstall.clone(),
                failure: None,
            });
        }
        assert_eq!(case.pass().status.state, state, "{at}: {:?}", case.plan);
    }
    // A process that begins anew knows when the release was gone.
    case.sightings = Sightings::default();
    for (at, state) in [(23, State::Deleting), (24, State::Error)] {
        case.now = minutes(at);
        assert_eq!(case.state(), state, "{at}");
    }
}

#[test]
fn a_failure_on_the_way_and_another_verb_end_no_step() {
    let mut case = Case::deployed(Vec::new());
    (case.deleting, case.removal_began) = (Some(NOW), Some(NOW));
    case.plan = awaits(Leavings::Pods, &["Pod a"]);
    case.pass();
    case.now = NOW + SignedDuration::from_mins(9);
    let clear = Action::Clear {
        what: Leavings::Pods,
        objects: Vec::new(),
    };
    let backoff = Plan::Wait {
        until: case.now,
        why: Wait::Backoff,
    };
    for plan in [backoff, Plan::Act(clear)] {
        case.plan = plan;
        case.pass();
    }
    case.plan = awaits(Leavings::Pods, &["Pod a"]);
    assert_eq!(case.pass().status.state, State::Deleting);
    case.now = NOW + SignedDuration::from_mins(10);
    assert_eq!(case.state(), State::Error);
}

#[test]
fn a_namespace_that_goes_is_measured_by_its_own_time() {
    let mut case = Case::deployed(Vec::new());
    let minutes = |minutes| NOW + SignedDuration::from_mins(minutes);
    case.plan = Plan::Act(upgrade(Cause::Changed));
    case.pass();
    case.now = minutes(9);
    departing(&mut case, &[]);
    let terminating = Plan::Wait {
        until: NOW,
        why: Wait::NamespaceTerminating,
    };
    case.plan = terminating;
    // Also by a process that has begun anew.
    let known = case.pass().sightings;
    for sightings in [known, Sightings::default()] {
        case.sightings = sightings;
        for (at, state) in [(18, State::Processing), (19, State::Error)] {
            case.now = minutes(at);
            assert_eq!(case.state(), state, "{at}");
        }
    }
    // Whoever removes the module has all of the time.
    (case.deleting, case.now) = (Some(minutes(60)), minutes(61));
    assert_eq!(case.state(), State::Deleting);
}

#[test]
fn each_step_on_the_way_to_another_chart_has_its_own_time() {
    let mut case = Case::deployed(Vec::new());
    let minutes = |minutes| NOW + SignedDuration::from_mins(minutes);
    let waits = |at: &str| Plan::Wait {
        until: NOW,
        why: Wait::Step {
            at: at.parse().unwrap(),
        },
    };
    let goes = |chart| {
        Plan::Act(Action::Upgrade {
            to: step(chart, DriverUpgrades::Held),
            cause: Cause::Changed,
        })
    };
    for (at, plan, state) in [
        (0, goes("26.3.3"), State::Processing),
        (9, waits("26.3.3"), State::Processing),
        (9, goes("26.7.0"), State::Processing),
        (18, waits("26.7.0"), State::Processing),
        (19, waits("26.7.0"), State::Error),
        // It is taken again, and hangs as before.
        (19, goes("26.7.0"), State::Processing),
        (20, waits("26.7.0"), State::Error),
    ] {
        (case.now, case.plan) = (minutes(at), plan);
        assert_eq!(case.pass().status.state, state, "{at}: {:?}", case.plan);
    }
    // A new process goes by the revision, which is of NOW.
    case.sightings = Sightings::default();
    case.now = minutes(9);
    assert_eq!(case.state(), State::Processing);
    case.now = minutes(10);
    assert_eq!(case.state(), State::Error);
}

#[test]
fn a_pause_does_not_turn_the_steps_back() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    let message = |case: &Case| {
        let status = case.compute().status;
        condition(&status, ConditionType::Deleted)
            .unwrap()
            .message
            .clone()
    };
    let wait = |why| Plan::Wait { until: NOW, why };
    case.plan = awaits(Leavings::Hooks, &["Job a"]);
    let before = message(&case);
    assert!(before.starts_with("step 6 of 8"), "{before}");
    case.pass();
    for plan in [wait(Wait::Backoff), Plan::Hold(Hold::Unread("Nodes".to_owned()))] {
        case.plan = plan;
        assert_eq!(message(&case), before);
    }
    case.plan = awaits(Leavings::OwnLabels, &["Node gpu-0"]);
    assert!(message(&case).starts_with("step 8 of 8"), "{}", message(&case));
}

#[test]
fn a_stack_that_may_never_go_is_an_error_in_the_end() {
    let mut case = Case::deployed(Vec::new());
    case.deleting = Some(NOW);
    case.removal_began = Some(NOW);
    for (what, end) in [
        (Leavings::Stack, State::Error),
        (Leavings::Nodes, State::Deleting),
    ] {
        case.plan = Plan::Wait {
            until: NOW,
            why: Wait::Refused {
                what,
                names: vec!["DaemonSet a".to_owned()],
                why: "a policy says no".to_owned(),
            },
        };
        case.now = NOW;
        assert_eq!(case.state(), State::Deleting);
        case.now = NOW + SignedDuration::from_mins(10);
        assert_eq!(case.state(), end);
        let description = case.compute().status.description;
        assert!(description.contains("DaemonSet a"), "{description}");
        assert!(description.contains("a policy says no"), "{description}");
    }
}
