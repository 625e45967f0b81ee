//! What to do about the release while it is wanted: one row per status of its newest revision.

use jiff::SignedDuration;
use semver::Version;

use super::{Action, Cause, FOREIGN_OPERATION_LIMIT, Hold, Plan, Situation, Wait, drift, route};
use crate::desired::{Desired, Step};
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
    let compared = s
        .observed
        .comparison
        .as_ref()
        .filter(|comparison| comparison.revision == latest.number);
    let accepted = latest.made_by_module()
        || s.recorded
            .is_some_and(|known| known.revision == i64::from(latest.number));
    let Some(installed) = installed_chart(s, latest).filter(|_| accepted || compared.is_some()) else {
        return Plan::Compare;
    };
    let cause = match compared {
        Some(compared) if !matches_wanted(compared, desired) && !accepted => Cause::ForeignChange,
        Some(compared) if !matches_wanted(compared, desired) => Cause::Changed,
        // Labels of a revision that others made are copies; only the comparison counts.
        Some(_) if !latest.made_by_module() => return drift::step(s, desired, latest),
        _ if latest.fingerprint.as_deref() == Some(desired.fingerprint.as_str()) => {
            return drift::step(s, desired, latest);
        }
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
    upgrade(s, desired, latest, &installed, cause)
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

fn matches_wanted(found: &Comparison, desired: &Desired) -> bool {
    found.chart_version == desired.chart.version && found.values_digest == desired.values_digest
}

/// The chart that runs, as far as it is known without asking Helm.
fn installed_chart(s: &Situation<'_>, latest: &Revision) -> Option<Version> {
    let compared = s
        .observed
        .comparison
        .as_ref()
        .filter(|comparison| comparison.revision == latest.number);
    match (compared, latest.own_chart()) {
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
    match route::next(s, desired, installed, route::layout_of(s, running, installed)) {
        Ok(next) => install(s, desired, upgrade_to(next, cause)),
        Err(via) => Plan::Hold(Hold::SkipsLine {
            installed: installed.clone(),
            wanted: wanted.clone(),
            via,
        }),
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
