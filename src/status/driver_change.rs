//! Condition `DriverChangePending`: which driver change waits, what for, and, by its transition time, since when.
//!
//! True is the unusual case. It changes no state: a cluster in which GPUs are used is not a broken one.

use super::Report;
use super::conditions::Verdict;
use crate::api::{ConditionType, condition};
use crate::facts::{PodList, Revision};
use crate::plan::{Blocker, DriverWait, Waiting};

/// Says whether a driver change waits.
pub fn judge(report: &Report<'_>) -> Verdict {
    match report.waiting {
        Waiting::Nothing => Verdict::no("NoDriverChange", "no driver change waits"),
        Waiting::Driver(wait) => Verdict::yes(reason(&wait.blocker), message(wait)),
        // Nobody has looked in this pass: what was said before still stands.
        Waiting::Unknown => before(report),
    }
}

/// True where NVIDIA's operator is kept from replacing drivers, so that it calls those that run outdated.
pub fn is_held(report: &Report<'_>) -> bool {
    let latest = report.observed.release.latest();
    latest.is_some_and(Revision::holds_drivers) || matches!(report.waiting, Waiting::Driver(_))
}

fn before(report: &Report<'_>) -> Verdict {
    let old = report
        .previous
        .and_then(|previous| condition(previous, ConditionType::DriverChangePending))
        .filter(|old| old.status == "True");
    let known = old.and_then(|old| Some((REASONS.into_iter().find(|reason| old.reason == *reason)?, old)));
    match known {
        Some((reason, old)) => Verdict::yes(reason, &old.message),
        None => Verdict::no("NoDriverChange", "no driver change waits"),
    }
}

const REASONS: [&str; 4] = [
    "WaitingForIdle",
    "WorkUnreadable",
    "WaitingForWindow",
    "WindowUnreadable",
];

const fn reason(blocker: &Blocker) -> &'static str {
    match blocker {
        Blocker::Work(_) => REASONS[0],
        Blocker::WorkUnreadable(_) => REASONS[1],
        Blocker::Window { .. } => REASONS[2],
        Blocker::WindowUnreadable(_) => REASONS[3],
    }
}

fn message(wait: &DriverWait) -> String {
    let what = format!("the change {}", wait.difference());
    let rest = if wait.whole {
        "; nothing else of the spec is applied before"
    } else {
        ""
    };
    let why = match &wait.blocker {
        Blocker::Work(pods) => format!("waits for {}", PodList(pods)),
        Blocker::WorkUnreadable(why) => format!("waits since it is not known whether Pods use GPUs: {why}"),
        Blocker::Window { window, next } => {
            format!("waits for the maintenance window ({window}), which opens next at {next}")
        }
        Blocker::WindowUnreadable(why) => {
            format!("waits since the maintenance window is not known: {why}; set spec.upgrade.policy")
        }
    };
    format!("{what} {why}{rest}")
}
