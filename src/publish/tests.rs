//! What becomes an Event.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::api::Operation;

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

#[test]
fn one_event_for_each_changed_condition_and_none_for_a_new_wording() {
    let before = [
        condition("Installed", "True", "Installed", "a"),
        condition("Ready", "True", "Ready", "a"),
    ];
    let now = [
        condition("Installed", "True", "Installed", "another wording"),
        condition("Ready", "False", "NodesNotUsable", &"x".repeat(2000)),
        condition("Configured", "True", "Configured", "new"),
    ];
    assert!(
        news(&before, &now, State::Processing)
            .iter()
            .all(|event| matches!(event.type_, EventType::Normal))
    );
    let news = news(&before, &now, State::Warning);
    let told: Vec<_> = news
        .iter()
        .map(|event| (event.action.as_str(), event.reason.as_str()))
        .collect();
    assert_eq!(told, [("Ready", "NodesNotUsable"), ("Configured", "Configured")]);
    assert_eq!(news[0].note.as_ref().unwrap().len(), MAX_NOTE);
    assert!(matches!(news[0].type_, EventType::Warning));
}

#[test]
fn a_driver_change_is_told_when_it_begins_and_ends_to_wait_and_warns_of_nothing() {
    let waits = [condition("DriverChangePending", "True", "WaitingForIdle", "a")];
    let none = [condition("DriverChangePending", "False", "NoDriverChange", "b")];
    assert!(news(&[], &none, State::Ready).is_empty());
    for told in [
        news(&none, &waits, State::Ready),
        news(&waits, &none, State::Ready),
    ] {
        assert_eq!(told.len(), 1);
        assert!(matches!(told[0].type_, EventType::Normal));
    }
}

#[test]
fn drift_is_the_bad_case_of_its_condition() {
    for (status, type_) in [("True", EventType::Warning), ("False", EventType::Normal)] {
        let news = news(
            &[],
            &[condition("Drifted", status, "Reason", "a")],
            State::Warning,
        );
        assert_eq!(format!("{:?}", news[0].type_), format!("{type_:?}"));
    }
}

#[test]
fn a_removal_warns_only_of_what_holds_it() {
    for (type_, reason, warns) in [
        ("Deleted", "Removing", false),
        ("Deleted", "WorkloadsUsingGpu", true),
        ("Deleted", "WorkUnreadable", true),
        ("Ready", "Removing", false),
        ("Ready", "Uninstalling", true),
        ("Installed", "Uninstalling", false),
        ("Installed", "UninstallFailed", true),
    ] {
        let news = news(&[], &[condition(type_, "False", reason, "a")], State::Deleting);
        let warned = matches!(news[0].type_, EventType::Warning);
        assert_eq!(warned, warns, "{type_} {reason}");
    }
}

#[test]
fn each_correction_is_told_once() {
    let operation = |operation, secs| Operation {
        time: Time(Timestamp::from_second(secs).unwrap()),
        operation,
        from: None,
        to: None,
        revision: Some(1),
        outcome: Outcome::Succeeded,
        message: "changed by others: ConfigMap a (data.x)".to_owned(),
    };
    let status = |history: Vec<Operation>| GpuModuleStatus {
        history,
        ..crate::status::unreadable("", 1, None, Timestamp::UNIX_EPOCH)
    };
    let install = status(vec![operation(OperationKind::Install, 1)]);
    let corrected = status(vec![
        operation(OperationKind::Reapply, 2),
        operation(OperationKind::Install, 1),
    ]);
    let again = status(vec![
        operation(OperationKind::Reapply, 3),
        operation(OperationKind::Install, 1),
    ]);
    assert!(correction(None, &install).is_none());
    let event = correction(Some(&install), &corrected).unwrap();
    assert_eq!(event.note.unwrap(), "changed by others: ConfigMap a (data.x)");
    assert!(correction(Some(&corrected), &corrected).is_none());
    assert!(correction(Some(&corrected), &again).is_some());
    let pruned = status(vec![operation(OperationKind::Prune, 4)]);
    assert_eq!(
        correction(Some(&again), &pruned).unwrap().reason,
        "LeftoversDeleted"
    );
}

#[test]
fn the_last_words_speak_of_a_removal_only_where_something_was_taken_away() {
    let stays = vec!["the CRDs".to_owned()];
    let removed = last_words(&Farewell::Removed { stays });
    assert!(
        removed.starts_with("the module is removed; what stays in the cluster: the CRDs; on nodes "),
        "{removed}"
    );
    let untouched = last_words(&Farewell::Untouched);
    assert!(untouched.ends_with("nothing of it was touched"), "{untouched}");
    assert!(!untouched.contains("removed"), "{untouched}");
}
