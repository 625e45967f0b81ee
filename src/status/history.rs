//! `status.history`: the last operations, so that nobody has to ask Helm or the log.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Report;
use super::conditions::whole_seconds;
use crate::api::{Operation, OperationKind, Outcome};
use crate::facts::ReleaseFacts;
use crate::plan::{Action, Cause};

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

/// The history before, with what has just ended.
pub fn append(report: &Report<'_>) -> Vec<Operation> {
    let before = report.previous.map_or(&[][..], |previous| &previous.history);
    let Some(new) = report.ended.and_then(|ended| operation(report, before, ended)) else {
        return before.to_vec();
    };
    keep(new, before)
}

/// The new operation, then the older ones. What is put right again and again takes one place, and all that was put right never
/// so many that nothing else can be seen.
fn keep(new: Operation, before: &[Operation]) -> Vec<Operation> {
    let is_reapply = |entry: &&Operation| entry.operation == OperationKind::Reapply;
    let run = before.iter().take_while(is_reapply).count();
    let mut kept = vec![new];
    for (at, earlier) in before.iter().enumerate() {
        let again = at < run && is_reapply(&&kept[0]) && kept[0].message == earlier.message;
        let too_many = is_reapply(&earlier) && kept.iter().filter(is_reapply).count() >= MOST_REAPPLIED;
        if !again && !too_many {
            kept.push(earlier.clone());
        }
    }
    kept.truncate(KEPT);
    kept
}

fn operation(report: &Report<'_>, before: &[Operation], ended: &Ended) -> Option<Operation> {
    let recorded = report.previous.and_then(|previous| previous.release.as_ref());
    // A step on the way to a chart is not recorded as the release; the history has it.
    let installed = before
        .iter()
        .find(|earlier| earlier.outcome == Outcome::Succeeded && earlier.to.is_some());
    let from = match installed {
        Some(earlier) => earlier.to.clone(),
        None => recorded.map(|release| release.chart_version.clone()),
    };
    let (operation, to, why) = match &ended.action {
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
        Action::Reapply { why, .. } => (OperationKind::Reapply, None, format!("changed by others: {why}")),
        Action::Uninstall { hooks: true } => (
            OperationKind::Uninstall,
            None,
            "the GpuModule is being deleted".to_owned(),
        ),
        Action::Uninstall { hooks: false } => (
            OperationKind::Uninstall,
            None,
            "the GpuModule is being deleted; hooks are left out".to_owned(),
        ),
        Action::AddFinalizer | Action::RemoveFinalizer | Action::OpenNamespace => return None,
    };
    let latest = match &report.observed.release {
        ReleaseFacts::Read(history) => history.latest(),
        ReleaseFacts::Unreadable => None,
    };
    let message = ended.failure.as_ref().unwrap_or(&why);
    Some(Operation {
        time: Time(whole_seconds(report.now)),
        operation,
        from,
        to,
        revision: latest.map(|latest| i64::from(latest.number)),
        outcome: if ended.failure.is_some() {
            Outcome::Failed
        } else {
            Outcome::Succeeded
        },
        message: message.chars().take(MAX_MESSAGE).collect(),
    })
}
