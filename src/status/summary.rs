//! All conditions together: the state, which of them explains it, and the one sentence that says so.

use super::conditions::{self, Verdict};
use super::deleted::Deleted;
use super::drifted::Drifted;
use super::installed::Installed;
use super::operands::Operands;
use super::{Report, left_out};
use crate::api::State;
use crate::plan::{Hold, Plan, Wait};

/// The state of the module.
pub fn state(
    report: &Report<'_>,
    operands: &Operands,
    installed: &Installed,
    drifted: &Drifted,
    deleted: Option<&Deleted>,
) -> State {
    let unread = matches!(report.plan, Plan::Hold(Hold::Unread(_)));
    if report.failure.is_some() || installed.overdue || unread {
        return State::Error;
    }
    if let Some(deleted) = deleted {
        return deleted.state();
    }
    match report.plan {
        Plan::Keep
        | Plan::Wait {
            why: Wait::Drivers, ..
        } if drifted.decides(operands.state) => State::Warning,
        Plan::Keep => operands.state,
        // What is suspended is as good as it was; what was never finished waits for a user.
        Plan::Hold(Hold::Suspended)
        | Plan::Wait {
            why: Wait::Drivers, ..
        } if installed.verdict.is_true() => operands.state,
        Plan::Hold(_) => State::Warning,
        Plan::Wait { .. }
        | Plan::Look
        | Plan::Read(_)
        | Plan::Compare
        | Plan::ReadExisting { .. }
        | Plan::ReadManifest { .. }
        | Plan::FindOrphans(_)
        | Plan::Inspect(_)
        | Plan::AwaitRemoval { .. }
        | Plan::Act(_) => State::Processing,
    }
}

/// The verdict that decides the state.
pub fn deciding<'a>(
    state: State,
    configured: &'a Verdict,
    installed: &'a Verdict,
    operands: &'a Operands,
    drifted: &'a Drifted,
) -> &'a Verdict {
    if state != State::Ready && !configured.is_true() {
        return configured;
    }
    if installed.is_true() && state == State::Warning && drifted.decides(operands.state) {
        &drifted.verdict
    } else if installed.is_true() {
        &operands.verdict
    } else {
        installed
    }
}

pub fn description(report: &Report<'_>, deciding: &Verdict, driver_change: &Verdict) -> String {
    let text = &deciding.message;
    let whole = match report.plan {
        Plan::Hold(hold @ Hold::Suspended) => format!("{text}; {hold}"),
        // The pause itself says nothing new: the failure is what counts.
        Plan::Wait {
            why: Wait::Backoff, ..
        } if report.failure.is_some() => format!("{text}; it is tried again"),
        _ if driver_change.is_true() => format!("{text}; {}", driver_change.message),
        _ => text.clone(),
    };
    let whole = [Some(whole), left_out::note(report)];
    let whole = whole.into_iter().flatten().collect::<Vec<_>>().join("; ");
    whole.chars().take(conditions::MAX_MESSAGE).collect()
}
