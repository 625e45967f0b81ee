//! `status.history`.

use super::*;
use crate::api::Operation;

fn ended(failure: Option<&str>) -> Ended {
    Ended {
        action: upgrade(Cause::Changed),
        failure: failure.map(ToOwned::to_owned),
    }
}

fn told(history: &[Operation]) -> Vec<(OperationKind, Outcome, Option<i64>)> {
    history
        .iter()
        .map(|operation| (operation.operation, operation.outcome, operation.revision))
        .collect()
}

#[test]
fn history_keeps_the_last_ten_operations_newest_first_with_reasons() {
    let mut case = Case::deployed(vec![]);
    case.ended = vec![Ended {
        action: upgrade(Cause::Install),
        failure: None,
    }];
    let first = case.compute().status;
    assert_eq!(first.history[0].operation, OperationKind::Install);
    assert_eq!(
        (first.history[0].from.as_deref(), first.history[0].to.as_deref()),
        (None, Some("26.7.0"))
    );
    assert_eq!(first.history[0].message, "install");

    case.previous = Some(first);
    case.ended = vec![Ended {
        action: upgrade(Cause::Changed),
        failure: Some("helm says no".to_owned()),
    }];
    let second = case.compute().status;
    assert_eq!(second.history.len(), 2);
    assert_eq!(second.history[0].from.as_deref(), Some("26.7.0"));
    assert_eq!(
        (second.history[0].outcome, second.history[0].message.as_str()),
        (Outcome::Failed, "helm says no")
    );

    for number in 0..20 {
        case.ended[0].failure = Some(format!("helm says no for the {number}. time"));
        case.previous = Some(case.compute().status);
    }
    assert_eq!(case.compute().status.history.len(), 10);
    case.ended.clear();
    assert_eq!(
        case.compute().status.history,
        case.previous.as_ref().unwrap().history,
        "nothing new, nothing moved"
    );
}

#[test]
fn what_begins_is_told_and_becomes_what_it_came_to() {
    let mut case = Case::deployed(vec![]);
    case.plan = Plan::Act(Action::Rollback {
        to: 1,
        found: RevisionStatus::PendingUpgrade,
    });
    let begun = case.compute().status;
    let running = (OperationKind::Rollback, Outcome::Running, Some(2));
    assert_eq!(told(&begun.history), [running]);

    // The same process goes on with the next action.
    case.previous = Some(begun.clone());
    let Plan::Act(action) = std::mem::replace(&mut case.plan, Plan::Act(upgrade(Cause::Changed))) else {
        panic!("no action")
    };
    case.ended = vec![Ended {
        action,
        failure: None,
    }];
    let next = case.compute().status.history;
    let expected = [
        (OperationKind::Upgrade, Outcome::Running, Some(2)),
        (OperationKind::Rollback, Outcome::Succeeded, Some(1)),
    ];
    assert_eq!(told(&next), expected);

    // Another process finds it begun.
    case.ended.clear();
    case.plan = Plan::Keep;
    case.previous = Some(begun);
    let found = case.compute().status.history;
    assert_eq!(
        told(&found),
        [(OperationKind::Rollback, Outcome::Interrupted, Some(2))]
    );
}

#[test]
fn tries_that_fail_alike_are_one_entry() {
    let mut case = Case::deployed(vec![]);
    case.ended = vec![ended(None)];
    for failure in ["no", "no", "no", "never"] {
        case.previous = Some(case.compute().status);
        case.ended = vec![ended(Some(failure))];
    }
    let history = case.compute().status.history;
    let messages: Vec<_> = history
        .iter()
        .map(|operation| operation.message.as_str())
        .collect();
    assert_eq!(messages, ["never", "no", Cause::Changed.why()]);
}

#[test]
fn what_follows_an_upgrade_in_the_same_pass_does_not_hide_it() {
    let mut case = Case::deployed(vec![]);
    case.plan = Plan::Act(upgrade(Cause::Retry));
    let begun = case.compute().status;
    case.previous = Some(begun);
    case.plan = Plan::Keep;
    let prune = Ended {
        action: Action::Prune {
            objects: vec![],
            left_by: crate::plan::LeftBy::FailedUpgrade,
        },
        failure: None,
    };
    case.ended = vec![ended(None), prune.clone()];
    let pruned = (OperationKind::Prune, Outcome::Succeeded, Some(1));
    let upgraded = |outcome, revision| (OperationKind::Upgrade, outcome, Some(revision));
    let history = case.compute().status.history;
    assert_eq!(told(&history), [pruned, upgraded(Outcome::Succeeded, 1)]);

    // The process that upgraded is dead, and the next one has only cleared up.
    case.ended = vec![prune];
    let history = case.compute().status.history;
    assert_eq!(told(&history), [pruned, upgraded(Outcome::Interrupted, 2)]);
}

#[test]
fn a_message_that_is_too_long_is_cut_with_a_sign() {
    let mut case = Case::deployed(vec![]);
    let longest = "ü".repeat(256);
    for (failure, told) in [
        (longest.clone(), longest.clone()),
        (format!("{longest}!"), format!("{} ...", "ü".repeat(252))),
    ] {
        case.ended = vec![ended(Some(&failure))];
        assert_eq!(case.compute().status.history[0].message, told);
    }
}
