use super::*;
use crate::drift::{Finding, Kind, Manifest, ObjectRef, Repair, refused};

fn conf() -> ObjectRef {
    ObjectRef {
        kind: Kind::new("v1", "ConfigMap"),
        namespace: None,
        name: "conf".to_owned(),
    }
}

fn changed() -> Finding {
    Finding {
        fields: vec!["data.x".to_owned()],
        managers: vec!["kubectl-edit".to_owned()],
        repair: Repair::Apply,
    }
}

fn compared() -> Case {
    let mut case = Case::deployed(vec![node("a", 1)]);
    let documents = "{apiVersion: v1, kind: ConfigMap, metadata: {name: conf}}";
    case.drift.begin(Manifest::parse(1, "uid", documents).unwrap());
    for crd in &case.desired.as_ref().unwrap().chart.crds {
        case.observed.crds.insert(crd.clone(), fixtures::crd(Some("d")));
    }
    case
}

fn found(case: &mut Case, finding: Finding) {
    case.drift.note(conf(), None, Some(finding), NOW, 0.0);
}

#[test]
fn without_changes_all_is_well() {
    let case = compared();
    assert_eq!(case.reason(ConditionType::Drifted), "InSync");
    assert_eq!(case.status_of(ConditionType::Drifted), "False");
    assert_eq!(case.state(), State::Ready);
    let uncompared = Case::deployed(vec![node("a", 1)]);
    assert_eq!(uncompared.reason(ConditionType::Drifted), "NotCompared");
    assert_eq!(uncompared.state(), State::Ready);
    let mut ignored = compared();
    found(&mut ignored, changed());
    ignored.drift_mode = DriftMode::Ignore;
    assert_eq!(ignored.status_of(ConditionType::Drifted), "Unknown");
    assert_eq!(ignored.state(), State::Ready);
}

#[test]
fn what_is_left_as_it_is_needs_a_person() {
    let mut case = compared();
    case.drift_mode = DriftMode::Report;
    found(&mut case, changed());
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert!(
        status
            .description
            .contains("ConfigMap conf (data.x, by kubectl-edit)"),
        "{}",
        status.description
    );
    assert_eq!(case.reason(ConditionType::Ready), "DriftFound");
    let mut crd = compared();
    crd.drift_mode = DriftMode::Report;
    crd.observed.crds.remove("nvidiadrivers.nvidia.com");
    let description = crd.compute().status.description;
    assert!(
        description.contains("CustomResourceDefinition nvidiadrivers.nvidia.com (missing)"),
        "{description}"
    );
    // On the way to another chart its CRDs are not there yet.
    crd.plan = Plan::Act(upgrade(Cause::Changed));
    assert_eq!(crd.reason(ConditionType::Drifted), "InSync");
}

#[test]
fn what_is_about_to_be_put_right_is_nobodys_business_yet() {
    let mut case = compared();
    found(&mut case, changed());
    assert_eq!(case.reason(ConditionType::Drifted), "Correcting");
    assert_eq!(case.state(), State::Ready);
}

#[test]
fn what_comes_back_names_who_writes_it_until_it_is_forgotten() {
    let mut case = compared();
    for _ in 0..3 {
        assert_eq!(case.state(), State::Ready);
        found(&mut case, changed());
        case.drift.corrected(&conf(), NOW, 0.0);
    }
    assert_eq!(case.state(), State::Warning);
    let computed = case.compute();
    assert!(
        computed.status.description.contains("by kubectl-edit"),
        "{computed:?}"
    );
    assert_eq!(case.reason(ConditionType::Drifted), "DriftReturns");
    // The status changes without any event.
    let later = case.drift.due(computed.recheck.unwrap()).unwrap();
    case.drift.fade(later);
    assert_eq!(case.reason(ConditionType::Drifted), "InSync");
}

#[test]
fn what_cannot_be_put_right_says_why() {
    let mut case = compared();
    for _ in 0..3 {
        found(&mut case, refused("roleRef is immutable"));
    }
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert!(
        status.description.contains("roleRef is immutable"),
        "{}",
        status.description
    );
}

#[test]
fn something_worse_comes_first() {
    let mut case = compared();
    case.drift_mode = DriftMode::Report;
    found(&mut case, changed());
    case.failure = Some(Failure {
        reason: "ApiCallFailed",
        message: "no answer".to_owned(),
    });
    case.plan = Plan::Wait {
        until: NOW + LATER,
        why: Wait::Backoff,
    };
    assert_eq!(case.state(), State::Error);
    let mut suspended = compared();
    found(&mut suspended, changed());
    suspended.plan = Plan::Hold(Hold::Suspended);
    assert_eq!(suspended.state(), State::Ready, "as good as it was");
    let reason = suspended.reason(ConditionType::Drifted);
    assert_eq!(reason, "DriftFound", "nothing is about to be put right");
}

fn reapply(case: &mut Case, why: &str) {
    case.ended = vec![Ended {
        action: Action::Reapply {
            objects: vec![conf()],
            why: why.to_owned(),
        },
        failure: None,
    }];
    case.previous = Some(case.compute().status);
}

#[test]
fn corrections_never_push_everything_else_out_of_the_history() {
    let mut case = compared();
    for _ in 0..4 {
        case.ended = vec![Ended {
            action: upgrade(Cause::Changed),
            failure: None,
        }];
        case.previous = Some(case.compute().status);
    }
    let operations = |case: &Case| {
        let history = &case.previous.as_ref().unwrap().history;
        history
            .iter()
            .map(|entry| (entry.operation, entry.message.clone()))
            .collect::<Vec<_>>()
    };
    for _ in 0..20 {
        reapply(&mut case, "a");
    }
    let history = operations(&case);
    assert_eq!(history.len(), 5);
    assert_eq!(
        history[0],
        (OperationKind::Reapply, "changed by others: a".to_owned())
    );
    for round in 0..20 {
        reapply(&mut case, &format!("{round}"));
    }
    let history = operations(&case);
    let of = |kind| history.iter().filter(|(operation, _)| *operation == kind).count();
    assert_eq!((of(OperationKind::Reapply), of(OperationKind::Upgrade)), (5, 4));
    assert_eq!(history[0].1, "changed by others: 19");
}

#[test]
fn what_cannot_be_compared_is_not_said_to_be_changed() {
    let mut case = compared();
    for tries in 1..=3 {
        case.drift.unread(&conf(), None, "a webhook says 500", NOW, 0.0);
        assert_eq!(case.status_of(ConditionType::Drifted), "Unknown");
        let (reason, state) = match tries {
            3 => ("DriftNotCorrected", State::Warning),
            _ => ("NotCompared", State::Ready),
        };
        assert_eq!(
            (case.reason(ConditionType::Drifted), case.state()),
            (reason.to_owned(), state)
        );
    }
    let description = case.compute().status.description;
    assert!(
        description.contains("compared: ConfigMap conf (a webhook says 500)"),
        "{description}"
    );
    // Something else that is changed goes before what may be.
    let mut fresh = compared();
    fresh.drift.unread(&conf(), None, "a webhook says 500", NOW, 0.0);
    let other = ObjectRef {
        name: "other".to_owned(),
        ..conf()
    };
    fresh.drift.note(other, None, Some(changed()), NOW, 0.0);
    assert_eq!(fresh.reason(ConditionType::Drifted), "Correcting");
}

#[test]
fn what_was_left_behind_and_stays_is_told_whatever_the_mode() {
    for mode in [DriftMode::Correct, DriftMode::Report, DriftMode::Ignore] {
        let mut case = compared();
        case.drift_mode = mode;
        case.undeleted = vec![(conf(), "a policy says no".to_owned())];
        assert_eq!(case.reason(ConditionType::Ready), "DriftNotCorrected");
        assert_eq!(case.state(), State::Warning);
        let description = case.compute().status.description;
        assert!(
            description.contains("left behind") && description.contains("ConfigMap conf (a policy says no)"),
            "{description}"
        );
    }
}
