//! `status.history`: the last operations, so that nobody has to ask Helm or the log.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Report;
use super::conditions::whole_seconds;
use crate::api::{Operation, OperationKind, Outcome};
use crate::facts::ReleaseFacts;
use crate::plan::{Action, Cause, Plan};

/// Operations that are kept.
const KEPT: usize = 10;

/// Of them, most that put objects right.
const MOST_REAPPLIED: usize = 5;

/// Most characters of a message.
const MAX_MESSAGE: usize = 256;

/// An operation that has just ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What was done.
    pub action: Action,
    /// Why it failed, if so.
    pub failure: Option<String>,
}

/// The history before, with what has just ended and what is about to begin.
///
/// What is begun is in the status before it is: the next process then knows whose an unfinished operation is, also where Helm
/// notes nothing of it.
pub fn append(report: &Report<'_>) -> Vec<Operation> {
    let before = report.previous.map_or(&[][..], |previous| &previous.history);
    let (begun, earlier) = match before.split_first() {
        Some((first, earlier)) if first.outcome == Outcome::Running => (Some(first), earlier),
        _ => (None, before),
    };
    let mut kept = earlier.to_vec();
    // Only what is told before it begins can be what has begun.
    let has_ended = report.ended.iter().any(|ended| ended.action.changes_release());
    if let Some(begun) = begun.filter(|_| !has_ended) {
        let interrupted = Operation {
            outcome: Outcome::Interrupted,
            ..begun.clone()
        };
        kept = keep(interrupted, &kept);
    }
    for ended in report.ended {
        if let Some(closed) = operation(report, &kept, ended) {
            kept = keep(closed, &kept);
        }
    }
    let opened = match report.plan {
        Plan::Act(action) if action.changes_release() => begin(report, &kept, action),
        _ => None,
    };
    opened.into_iter().chain(kept).take(KEPT).collect()
}

/// The new operation, then the older ones. What is put right again and again takes one place, as do tries that fail alike, and all that
/// was put right never so many that nothing else can be seen.
fn keep(new: Operation, before: &[Operation]) -> Vec<Operation> {
    let is_reapply = |entry: &&Operation| entry.operation == OperationKind::Reapply;
    let run = before.iter().take_while(is_reapply).count();
    let mut kept = vec![new];
    for (at, earlier) in before.iter().enumerate() {
        let again = at < run && is_reapply(&&kept[0]) && kept[0].message == earlier.message;
        let failed_alike = at == 0 && kept[0].outcome != Outcome::Succeeded && is_alike(&kept[0], earlier);
        let too_many = is_reapply(&earlier) && kept.iter().filter(is_reapply).count() >= MOST_REAPPLIED;
        if !again && !failed_alike && !too_many {
            kept.push(earlier.clone());
        }
    }
    kept
}

/// The same operation with the same end, at another time.
fn is_alike(one: &Operation, other: &Operation) -> bool {
    let timeless = |operation: &Operation| Operation {
        time: Time(Timestamp::UNIX_EPOCH),
        revision: None,
        ..operation.clone()
    };
    timeless(one) == timeless(other)
}

/// An operation that is about to begin.
fn begin(report: &Report<'_>, earlier: &[Operation], action: &Action) -> Option<Operation> {
    let (operation, to, why) = describe(action)?;
    let makes_revision = matches!(action, Action::Upgrade { .. } | Action::Rollback { .. });
    let revision = match &report.observed.release {
        ReleaseFacts::Read(history) if makes_revision => Some(history.next_number()),
        release => release.latest().map(|latest| latest.number),
    };
    Some(Operation {
        time: Time(whole_seconds(report.now)),
        operation,
        from: installed(report, earlier),
        to,
        revision: revision.map(i64::from),
        outcome: Outcome::Running,
        message: cut(&why),
    })
}

fn operation(report: &Report<'_>, earlier: &[Operation], ended: &Ended) -> Option<Operation> {
    let (operation, to, why) = describe(&ended.action)?;
    let latest = report.observed.release.latest();
    Some(Operation {
        time: Time(whole_seconds(report.now)),
        operation,
        from: installed(report, earlier),
        to,
        revision: latest.map(|latest| i64::from(latest.number)),
        outcome: if ended.failure.is_some() {
            Outcome::Failed
        } else {
            Outcome::Succeeded
        },
        message: cut(ended.failure.as_ref().unwrap_or(&why)),
    })
}

/// The chart before. A step on the way to a chart is not recorded as the release; the history has it.
fn installed(report: &Report<'_>, earlier: &[Operation]) -> Option<String> {
    let last = earlier
        .iter()
        .find(|operation| operation.outcome == Outcome::Succeeded && operation.to.is_some());
    if let Some(last) = last {
        return last.to.clone();
    }
    let previous = report.previous?;
    let recorded = previous.release.as_ref().map(|release| &release.chart_version);
    let adopted = || previous.adoption.as_ref().map(|adoption| &adoption.chart_version);
    recorded.or_else(adopted).cloned()
}

/// The text, or the beginning of one that is too long, so that it can be seen that something is missing.
fn cut(text: &str) -> String {
    const GAP: &str = " ...";
    if text.chars().nth(MAX_MESSAGE).is_none() {
        return text.to_owned();
    }
    let head = text.chars().take(MAX_MESSAGE - GAP.len());
    head.chain(GAP.chars()).collect()
}

/// What an action is called, the chart that it brings, and why it is done; `None` for what does nothing to the release.
fn describe(action: &Action) -> Option<(OperationKind, Option<String>, String)> {
    let described = match action {
        Action::Upgrade { to, cause } => {
            let operation = if *cause == Cause::Install {
                OperationKind::Install
            } else {
                OperationKind::Upgrade
            };
            (operation, Some(to.chart.to_string()), cause.why().to_owned())
        }
        Action::Rollback { to, found } => (
            OperationKind::Rollback,
            None,
            format!("the release was left {found}, back to revision {to}"),
        ),
        Action::RestoreCrds { crds } => {
            let names: Vec<_> = crds.iter().map(|crd| crd.name.as_str()).collect();
            let why = format!("CRDs were gone or changed: {}", names.join(", "));
            (OperationKind::Reapply, None, why)
        }
        Action::Prune { objects, left_by } => {
            let names: Vec<_> = objects.iter().map(|orphan| orphan.object.to_string()).collect();
            let why = format!("{}: {}", left_by.why(), names.join(", "));
            (OperationKind::Prune, None, why)
        }
        Action::Reapply { why, .. } => (OperationKind::Reapply, None, format!("changed by others: {why}")),
        Action::Discard { revision, why } => (
            OperationKind::Discard,
            None,
            format!("revision {revision} was in the way: {}", why.why()),
        ),
        Action::Uninstall { hooks } => {
            let without = if *hooks { "" } else { "; hooks are left out" };
            (
                OperationKind::Uninstall,
                None,
                format!("the GpuModule is being deleted{without}"),
            )
        }
        Action::AddFinalizer
        | Action::RemoveFinalizer
        | Action::OpenNamespace
        | Action::BeginRemoval { .. }
        | Action::Clear { .. }
        | Action::LabelNodes { .. } => return None,
    };
    Some(described)
}
