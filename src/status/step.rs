//! The step that the release, or its removal, is at, and since when: by that it is measured whether it takes too long.
//!
//! Each step has its own time. A step that goes on under another verb, for example something deleted, awaited and refused, is one. A
//! process that begins anew goes by what the cluster and the status tell.

use jiff::{SignedDuration, Timestamp};
use semver::Version;

use super::Report;
use crate::api::{Operation, OperationKind, Outcome};
use crate::catalogue::DriverLayout;
use crate::facts::{Leavings, told};
use crate::plan::{Action, Plan, Wait};

/// How long something that ends by itself may take before it is called an error.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A release of that chart, with the driver described there, comes to run.
    Release(Version, Option<DriverLayout>),
    /// Somebody else's Helm operation.
    ForeignOperation,
    /// The release is uninstalled.
    Uninstall,
    /// This is taken away.
    Removal(Leavings),
}

/// What was under way when the status was last computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It never was.
    #[default]
    Unknown,
    /// Nothing.
    Nothing,
    /// A step, since then.
    Step(Step, Timestamp),
}

impl Seen {
    /// Since when the step is under way.
    pub const fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Unknown | Self::Nothing => None,
            Self::Step(_, since) => Some(*since),
        }
    }
}

/// What is under way now.
pub fn see(report: &Report<'_>, before: &Seen) -> Seen {
    let backoff = matches!(
        report.plan,
        Plan::Wait {
            why: Wait::Backoff,
            ..
        }
    );
    // What fails on the way ends no step.
    if backoff || report.failure.is_some() {
        return before.clone();
    }
    let Some(step) = step(report) else {
        return Seen::Nothing;
    };
    let since = match before {
        _ if matches!(step, Step::Removal(Leavings::Namespace)) => gone_since(report),
        Seen::Step(known, since) if *known == step => Some(*since),
        Seen::Unknown if !matches!(report.plan, Plan::Act(_)) => earliest(report, &step),
        _ => None,
    };
    Seen::Step(step, since.unwrap_or(report.now))
}

fn step(report: &Report<'_>) -> Option<Step> {
    Some(match report.plan {
        Plan::Act(Action::Upgrade { to, .. }) => Step::Release(to.chart.clone(), Some(to.layout)),
        Plan::Wait {
            why: Wait::Step { at },
            ..
        } => {
            let latest = report.observed.release.latest();
            Step::Release(at.clone(), latest.and_then(|latest| latest.layout))
        }
        Plan::Wait {
            why: Wait::ForeignOperation(_),
            ..
        } => Step::ForeignOperation,
        Plan::Act(Action::Uninstall { .. }) => Step::Uninstall,
        Plan::Act(Action::Clear { what, .. })
        | Plan::AwaitRemoval { what, .. }
        | Plan::Wait {
            why: Wait::Refused { what, .. },
            ..
        } => Step::Removal(*what),
        Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        } => Step::Removal(Leavings::Namespace),
        _ => return None,
    })
}

/// When the step is late that `plan` waits for, if it began `since`; `None` where nothing only others can end is waited for.
pub fn late(plan: &Plan, since: Timestamp) -> Option<Timestamp> {
    let (limit, not_before) = match plan {
        Plan::Wait {
            why: Wait::ForeignOperation(_),
            until,
        } => (LIMIT.saturating_mul(2), *until),
        Plan::Wait {
            why:
                Wait::NamespaceTerminating
                | Wait::Step { .. }
                // Everything else is given up before.
                | Wait::Refused {
                    what: Leavings::Release | Leavings::Stack | Leavings::Pods,
                    ..
                },
            ..
        }
        | Plan::AwaitRemoval { .. } => (LIMIT, Timestamp::MIN),
        _ => return None,
    };
    let end = since.saturating_add(limit).unwrap_or(Timestamp::MAX);
    Some(end.max(not_before))
}

/// Since when the namespace goes, where it is not only about to.
fn gone_since(report: &Report<'_>) -> Option<Timestamp> {
    let around = report.observed.surroundings.as_ref();
    let departure = around.and_then(|around| around.departure.as_ref());
    departure.map(|departure| departure.since).max(asked(report))
}

/// Since when a step may be under way at the earliest that this process has not seen begin.
fn earliest(report: &Report<'_>, step: &Step) -> Option<Timestamp> {
    match step {
        Step::Release(..) | Step::ForeignOperation => {
            report.observed.release.latest().map(|latest| latest.changed)
        }
        Step::Uninstall => None,
        Step::Removal(_) => uninstalled(report).max(asked(report)),
    }
}

/// Since when the module is being removed.
fn asked(report: &Report<'_>) -> Option<Timestamp> {
    report.removal_began.or(report.deleting)
}

fn uninstalled(report: &Report<'_>) -> Option<Timestamp> {
    let mut done = report.previous?.history.iter();
    let is_uninstall = |entry: &&Operation| {
        entry.operation == OperationKind::Uninstall && entry.outcome == Outcome::Succeeded
    };
    Some(told(done.find(is_uninstall)?.time.0))
}
