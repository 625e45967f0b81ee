//! What to do about the release while it is wanted: one row per status of its newest revision.

use jiff::SignedDuration;
use semver::Version;

use super::work::{self, Running, Verdict, Waiting};
use super::{Action, Cause, FOREIGN_OPERATION_LIMIT, Hold, Plan, Situation, Wait, route};
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{Comparison, History, ReleaseFacts, Revision, SurroundingNamespace};
use crate::helm::RevisionStatus;

/// How soon a step on the way is looked at again, besides by its events.
const STEP_LOOK: SignedDuration = SignedDuration::from_secs(5);

/// The next step towards `desired`.
pub fn step(s: &Situation<'_>, desired: &Desired) -> Plan {
    let terminating = s
        .observed
        .surroundings
        .as_ref()
        .is_some_and(|a| a.namespace == SurroundingNamespace::Terminating);
    if terminating {
        return Plan::Wait {
            until: s.now + SignedDuration::from_secs(5),
            why: Wait::NamespaceTerminating,
        };
    }
    let history = match &s.observed.release {
        ReleaseFacts::Unreadable => return install(s, desired, Plan::Act(Action::OpenNamespace)),
        ReleaseFacts::Read(history) => history,
    };
    let Some(latest) = history.latest() else {
        return install(s, desired, upgrade_to(desired.step.clone(), Cause::Install));
    };
    match latest.status {
        RevisionStatus::Deployed => deployed(s, desired, latest),
        RevisionStatus::Failed => failed(s, desired, history),
        RevisionStatus::PendingInstall | RevisionStatus::PendingUpgrade | RevisionStatus::PendingRollback => {
            unfinished(s, history, latest, latest.made_by_module())
        }
        // Helm only changes the status of the revision, so nothing says whose uninstall it is.
        RevisionStatus::Uninstalling => unfinished(s, history, latest, false),
        // Nothing of these runs; `helm upgrade --install` starts over.
        RevisionStatus::Uninstalled | RevisionStatus::Superseded | RevisionStatus::Unknown => {
            install(s, desired, upgrade_to(desired.step.clone(), Cause::Retry))
        }
    }
}

fn deployed(s: &Situation<'_>, desired: &Desired, latest: &Revision) -> Plan {
    if s.comparison_due {
        return Plan::Compare;
    }
    let compared = comparison(s, latest);
    let accepted = latest.made_by_module()
        || s.recorded
            .is_some_and(|known| known.revision == i64::from(latest.number));
    let Some(installed) = installed_chart(s, latest).filter(|_| accepted || compared.is_some()) else {
        return Plan::Compare;
    };
    if is_wanted(s, latest, desired, DriverUpgrades::AsConfigured) {
        return Plan::Keep;
    }
    let held = is_wanted(s, latest, desired, DriverUpgrades::Held);
    let cause = match compared {
        _ if held => Cause::DriversLetGo,
        Some(_) if !accepted => Cause::ForeignChange,
        _ => Cause::Changed,
    };
    let layout = route::layout_of(s, latest, &installed);
    let on_the_way =
        latest.made_by_module() && recorded_chart(s).is_some_and(|recorded| recorded < installed);
    if on_the_way && !route::is_done(s, latest, layout) {
        return Plan::Wait {
            until: s.now + STEP_LOOK,
            why: Wait::Step { at: installed },
        };
    }
    match upgrade(s, desired, latest, &installed, cause) {
        Plan::Act(Action::Upgrade { to, .. }) if held && to == desired.held_step() => Plan::Keep,
        plan => plan,
    }
}

/// True for the revision that is wanted, with drivers held or not. Labels of a revision that others made are copies; only the
/// comparison counts.
fn is_wanted(s: &Situation<'_>, revision: &Revision, desired: &Desired, drivers: DriverUpgrades) -> bool {
    let (values_digest, fingerprint) = match (drivers, &desired.held) {
        (DriverUpgrades::AsConfigured, _) => (&desired.values_digest, &desired.fingerprint),
        (DriverUpgrades::Held, Some(held)) => (&held.values_digest, &held.fingerprint),
        (DriverUpgrades::Held, None) => return false,
    };
    let by_labels = revision.fingerprint.as_deref() == Some(fingerprint.as_str());
    match comparison(s, revision) {
        None => by_labels,
        Some(found) => {
            found.chart_version == desired.chart.version
                && found.values_digest == *values_digest
                && (by_labels || !revision.made_by_module())
        }
    }
}

/// What runs: the newest revision, or after a failure the last one that worked.
fn running_revision<'a>(s: &Situation<'a>) -> Option<&'a Revision> {
    let ReleaseFacts::Read(history) = &s.observed.release else {
        return None;
    };
    match history.latest()?.status {
        RevisionStatus::Failed => history.last_good(),
        _ => history
            .latest()
            .filter(|latest| latest.status == RevisionStatus::Deployed),
    }
}

/// The driver of what runs; `None` where nothing runs.
pub fn running<'a>(s: &Situation<'a>) -> Option<Running<'a>> {
    let revision = running_revision(s)?;
    Some(driver_of(s, revision))
}

fn driver_of<'a>(s: &Situation<'a>, revision: &'a Revision) -> Running<'a> {
    let newest = match &s.observed.release {
        ReleaseFacts::Read(history) => history.latest(),
        ReleaseFacts::Unreadable => None,
    };
    let is_newest = newest.is_some_and(|newest| newest.number == revision.number);
    Running::of(revision, comparison(s, revision), is_newest)
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

/// The comparison of that revision, if it was made.
fn comparison<'a>(s: &Situation<'a>, revision: &Revision) -> Option<&'a Comparison> {
    let found = s.observed.comparison.as_ref();
    found.filter(|comparison| comparison.revision == revision.number)
}

/// The last try failed. What counts for the way is what last worked, not what was tried; where nothing ever did, any chart may be
/// tried.
fn failed(s: &Situation<'_>, desired: &Desired, history: &History) -> Plan {
    let worked = history.last_good();
    let chart = worked
        .and_then(|good| good.own_chart().cloned())
        .or_else(|| recorded_chart(s));
    match (worked, chart) {
        (Some(good), Some(chart)) => upgrade(s, desired, good, &chart, Cause::Retry),
        (None, _) => install(s, desired, upgrade_to(desired.step.clone(), Cause::Install)),
        (Some(_), None) => install(s, desired, upgrade_to(desired.step.clone(), Cause::Retry)),
    }
}

/// The chart that runs, as far as it is known without asking Helm.
fn installed_chart(s: &Situation<'_>, latest: &Revision) -> Option<Version> {
    match (comparison(s, latest), latest.own_chart()) {
        (Some(compared), _) => Some(compared.chart_version.clone()),
        (None, Some(own)) => Some(own.clone()),
        (None, None) => recorded_chart(s),
    }
}

/// The chart that the module last left running in full.
fn recorded_chart(s: &Situation<'_>) -> Option<Version> {
    Version::parse(&s.recorded?.chart_version).ok()
}

fn install(s: &Situation<'_>, desired: &Desired, plan: Plan) -> Plan {
    let (have, need) = (s.observed.kubernetes, desired.chart.minimum_kubernetes);
    if have < need {
        return Plan::Hold(Hold::UnsupportedKubernetes {
            have,
            need,
            chart: desired.chart.version.clone(),
        });
    }
    plan
}

fn upgrade(
    s: &Situation<'_>,
    desired: &Desired,
    running: &Revision,
    installed: &Version,
    cause: Cause,
) -> Plan {
    let wanted = &desired.chart.version;
    if wanted < installed {
        return Plan::Hold(Hold::Downgrade {
            installed: installed.clone(),
            wanted: wanted.clone(),
        });
    }
    let next = match route::next(s, desired, installed, route::layout_of(s, running, installed)) {
        Ok(next) => next,
        Err(via) => {
            return Plan::Hold(Hold::SkipsLine {
                installed: installed.clone(),
                wanted: wanted.clone(),
                via,
            });
        }
    };
    let to = match let_go(s, desired, running, next) {
        Ok(to) => to,
        Err(plan) => return plan,
    };
    // Nothing is let go on the way or while drivers stay held.
    let cause = match (cause, to.drivers) {
        (Cause::DriversLetGo, DriverUpgrades::Held) => Cause::Changed,
        _ => cause,
    };
    install(s, desired, upgrade_to(to, cause))
}

/// The step with drivers held where they may not be replaced now, or what comes before it.
fn let_go(s: &Situation<'_>, desired: &Desired, running: &Revision, next: Step) -> Result<Step, Plan> {
    let driver = driver_of(s, running);
    // On the way drivers are held; but where their Pods come or go with their object, the first step would do it.
    if next != desired.step && !driver.changes_mode(desired) {
        return Ok(next);
    }
    match work::judge(s, desired, driver) {
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

fn upgrade_to(to: Step, cause: Cause) -> Plan {
    Plan::Act(Action::Upgrade { to, cause })
}

/// An operation that has not ended.
///
/// One that the module began is dead by now: a single operator acts at a time and runs one Helm at a time, and a child that
/// outlived its operator is waited for before the next one starts. Somebody else's gets a deadline.
fn unfinished(s: &Situation<'_>, history: &History, latest: &Revision, own: bool) -> Plan {
    let deadline = latest.changed + FOREIGN_OPERATION_LIMIT;
    if own || s.now >= deadline {
        return rollback(history, latest);
    }
    Plan::Wait {
        until: deadline,
        why: Wait::ForeignOperation(latest.status),
    }
}

/// Frees a locked release without deleting anything: back to what last worked, or else to the locked revision itself.
fn rollback(history: &History, latest: &Revision) -> Plan {
    let to = history.last_good().unwrap_or(latest).number;
    Plan::Act(Action::Rollback {
        to,
        found: latest.status,
    })
}
