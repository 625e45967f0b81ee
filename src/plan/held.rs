//! The last step with drivers held or not: which of the two is wanted, which of them runs, and what keeps one from becoming the other.

use super::release::compared;
use super::work::{self, Running, Verdict, Waiting};
use super::{Plan, Situation, Wait};
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{ReleaseFacts, Revision};
use crate::helm::RevisionStatus;

/// True for the revision that is wanted, with drivers held or not. Labels of a revision that others made are copies; only the
/// comparison counts.
pub fn is_wanted(s: &Situation<'_>, revision: &Revision, desired: &Desired, drivers: DriverUpgrades) -> bool {
    let (values_digest, fingerprint) = match (drivers, &desired.held) {
        (DriverUpgrades::AsConfigured, _) => (&desired.values_digest, &desired.fingerprint),
        (DriverUpgrades::Held, Some(held)) => (&held.values_digest, &held.fingerprint),
        (DriverUpgrades::Held, None) => return false,
    };
    let by_labels = revision.fingerprint.as_deref() == Some(fingerprint.as_str());
    match compared(s, revision).and_then(|found| found.content.as_ref()) {
        None => by_labels,
        Some(found) => {
            found.chart_version == desired.chart.version
                && found.values_digest == *values_digest
                && (by_labels || !revision.made_by_module())
        }
    }
}

/// The step that may be taken: with drivers held where they may not be replaced now. The error is what comes before it.
pub fn may_go(s: &Situation<'_>, desired: &Desired, running: Running<'_>, next: Step) -> Result<Step, Plan> {
    // On the way drivers are held; but where their Pods come or go with their object, the first step would do it.
    if next != desired.step && !running.changes_mode(desired) {
        return Ok(next);
    }
    match work::judge(s, desired, running) {
        Verdict::Now => Ok(next),
        Verdict::Ask(reading) => Err(Plan::Read(reading)),
        Verdict::Compare => Err(Plan::Compare),
        Verdict::Later(wait) if wait.whole => Err(Plan::Wait {
            until: wait.recheck(s.now),
            why: Wait::Drivers,
        }),
        Verdict::Later(_) => Ok(desired.held_step()),
    }
}

/// The last step as the release has it that is kept: with drivers held or not.
pub fn as_it_runs(s: &Situation<'_>, desired: &Desired) -> Step {
    let held =
        running_revision(s).is_some_and(|revision| is_wanted(s, revision, desired, DriverUpgrades::Held));
    if held {
        desired.held_step()
    } else {
        desired.step.clone()
    }
}

/// The driver of a revision that runs.
pub fn driver_of<'a>(s: &Situation<'a>, revision: &'a Revision) -> Running<'a> {
    let newest = s.observed.release.latest();
    let content = compared(s, revision).and_then(|found| found.content.as_ref());
    // Helm is asked for the newest revision only.
    let is_newest = newest.is_some_and(|newest| newest.uid == revision.uid);
    let running = Running::of(revision, content, is_newest);
    match s.desired {
        Ok(desired) if is_wanted(s, revision, desired, DriverUpgrades::Held) => {
            running.held_as_wanted(revision.changed)
        }
        _ => running,
    }
}

/// The driver of what runs; `None` where nothing runs.
pub fn running<'a>(s: &Situation<'a>) -> Option<Running<'a>> {
    Some(driver_of(s, running_revision(s)?))
}

/// What runs: the newest revision, or after a failure the last one that worked.
fn running_revision<'a>(s: &Situation<'a>) -> Option<&'a Revision> {
    let ReleaseFacts::Read(history) = &s.observed.release else {
        return None;
    };
    let latest = history.latest()?;
    match latest.status {
        RevisionStatus::Deployed => Some(latest),
        RevisionStatus::Failed | RevisionStatus::Superseded => history.last_good(),
        _ => None,
    }
}

/// The driver change that waits, if one does.
pub fn waiting(s: &Situation<'_>, desired: &Desired) -> Waiting {
    let Some(revision) = running_revision(s) else {
        return Waiting::Unknown;
    };
    if is_wanted(s, revision, desired, DriverUpgrades::AsConfigured) {
        return Waiting::Nothing;
    }
    match work::judge(s, desired, driver_of(s, revision)) {
        Verdict::Now => Waiting::Nothing,
        Verdict::Later(wait) => Waiting::Driver(wait),
        Verdict::Ask(_) | Verdict::Compare => Waiting::Unknown,
    }
}
