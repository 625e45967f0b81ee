//! What to do about the release while it is wanted: one row per status of its newest revision.

use jiff::SignedDuration;
use semver::Version;

use super::held::{driver_of, is_wanted, may_go};
use super::unrecorded::{self, stands};
use super::work::Running;
use super::{Action, Cause, Hold, Plan, Situation, Wait, drift, foreign, recovery, route};
use crate::catalogue::DriverLayout;
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{Comparison, ExistingContent, History, ReleaseFacts, Revision, SurroundingNamespace};
use crate::helm::RevisionStatus;

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
        return unrecorded::step(s, desired);
    };
    if let Some(plan) = recovery::undecodable(s, latest) {
        return plan;
    }
    match latest.status {
        RevisionStatus::Deployed => deployed(s, desired, latest),
        // Superseded: what came after it is gone, for example because nobody could decode it.
        RevisionStatus::Failed | RevisionStatus::Superseded => failed(s, desired, history),
        RevisionStatus::PendingInstall
        | RevisionStatus::PendingUpgrade
        | RevisionStatus::PendingRollback
        | RevisionStatus::Uninstalling
        // Helm upgrades from none of these, and rolls back from all.
        | RevisionStatus::Unknown => recovery::unfinished(s, desired, history, latest),
        // Nothing of it runs; `helm upgrade --install` starts over.
        RevisionStatus::Uninstalled => start(s, desired, Cause::Retry),
    }
}

/// What was read of that revision through Helm.
pub fn compared<'a>(s: &Situation<'a>, revision: &Revision) -> Option<&'a Comparison> {
    let comparison = s.observed.comparison.as_ref();
    comparison.filter(|comparison| comparison.uid == revision.uid)
}

fn deployed(s: &Situation<'_>, desired: &Desired, latest: &Revision) -> Plan {
    let compared = compared(s, latest).and_then(|comparison| comparison.content.as_ref());
    let accepted = latest.made_by_module()
        || s.recorded
            .is_some_and(|known| known.revision == i64::from(latest.number));
    let Some(installed) = installed_chart(s, latest).filter(|_| accepted || compared.is_some()) else {
        return Plan::Compare;
    };
    if is_wanted(s, latest, desired, DriverUpgrades::AsConfigured) {
        return keep(s, desired, latest);
    }
    let held = is_wanted(s, latest, desired, DriverUpgrades::Held);
    let cause = match compared {
        _ if held => Cause::DriversLetGo,
        Some(_) if !accepted => Cause::ForeignChange,
        _ => Cause::Changed,
    };
    let layout = route::layout_of(s, latest, &installed);
    if route::is_unfinished(s, desired, latest, (&installed, layout)) {
        return route::finish(s, desired, latest, (installed, layout));
    }
    match upgrade(s, desired, (layout, driver_of(s, latest)), &installed, cause) {
        Plan::Act(Action::Upgrade { to, .. }) if held && to == desired.held_step() => {
            keep(s, desired, latest)
        }
        wait @ Plan::Wait { .. } => route::meanwhile(s, desired, latest, &installed, wait),
        plan => plan,
    }
}

/// The release stays, and its objects are looked at.
fn keep(s: &Situation<'_>, desired: &Desired, latest: &Revision) -> Plan {
    if foreign::is_ours(s) {
        drift::step(s, desired, latest)
    } else {
        // `adoption` makes it the module's before.
        Plan::Keep
    }
}

/// Installs what is wanted, since nothing is known of what may have run before. Where objects stand, somebody may use their driver.
pub fn start(s: &Situation<'_>, desired: &Desired, cause: Cause) -> Plan {
    if stands(s) {
        at_once(s, desired, Running::UNKNOWN, cause)
    } else {
        install(s, desired, upgrade_to(desired.step.clone(), cause))
    }
}

/// What is wanted in one step, since nobody knows the way.
fn at_once(s: &Situation<'_>, desired: &Desired, running: Running<'_>, cause: Cause) -> Plan {
    match may_go(s, desired, running, desired.step.clone()) {
        Ok(to) => install(s, desired, upgrade_to(to, cause)),
        Err(plan) => plan,
    }
}

/// The last try failed. What counts for the way is what last worked, not what was tried; where nothing ever did, any chart may be
/// tried.
fn failed(s: &Situation<'_>, desired: &Desired, history: &History) -> Plan {
    let Some(good) = history.last_good() else {
        return start(s, desired, Cause::Install);
    };
    match chart_of(s, good) {
        Ok(chart) => {
            let layout = route::layout_of(s, good, &chart);
            upgrade(s, desired, (layout, driver_of(s, good)), &chart, Cause::Retry)
        }
        Err(Unknown::NotRead) => Plan::ReadExisting {
            revision: good.number,
        },
        Err(Unknown::Undecodable) => at_once(s, desired, driver_of(s, good), Cause::Retry),
    }
}

/// Why the chart of a revision is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// It is somebody else's and was not read.
    NotRead,
    /// It is somebody else's and Helm cannot decode it.
    Undecodable,
}

/// The chart of a revision that worked. Before a release was adopted in full, nothing is recorded of it.
pub fn chart_of(s: &Situation<'_>, good: &Revision) -> Result<Version, Unknown> {
    let read_chart = || Some(read(s, good)?.chart_version.clone());
    let known = good.own_chart().cloned().or_else(read_chart);
    if let Some(chart) = known.or_else(|| recorded_chart(s)) {
        return Ok(chart);
    }
    let mut existing = s.observed.existing.iter();
    Err(if existing.any(|existing| existing.uid == good.uid) {
        Unknown::Undecodable
    } else {
        Unknown::NotRead
    })
}

/// What was read of a revision that the module did not make.
pub fn read<'a>(s: &Situation<'a>, revision: &Revision) -> Option<&'a ExistingContent> {
    let existing = s.observed.existing.as_ref()?;
    let content = existing.content.as_ref()?;
    (existing.uid == revision.uid && !revision.made_by_module()).then_some(content)
}

/// The chart that runs, as far as it is known without asking Helm.
fn installed_chart(s: &Situation<'_>, latest: &Revision) -> Option<Version> {
    let compared = compared(s, latest).and_then(|comparison| comparison.content.as_ref());
    match (compared, latest.own_chart()) {
        (Some(compared), _) => Some(compared.chart_version.clone()),
        (None, Some(own)) => Some(own.clone()),
        (None, None) => recorded_chart(s),
    }
}

/// The chart that the module last left running in full.
pub fn recorded_chart(s: &Situation<'_>) -> Option<Version> {
    Version::parse(&s.recorded?.chart_version).ok()
}

pub fn install(s: &Situation<'_>, desired: &Desired, plan: Plan) -> Plan {
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

pub fn upgrade(
    s: &Situation<'_>,
    desired: &Desired,
    (layout, running): (DriverLayout, Running<'_>),
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
    let next = match route::next(s, desired, installed, layout) {
        Ok(next) => next,
        Err(via) => {
            return Plan::Hold(Hold::SkipsLine {
                installed: installed.clone(),
                wanted: wanted.clone(),
                via,
            });
        }
    };
    let to = match may_go(s, desired, running, next) {
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

pub fn upgrade_to(to: Step, cause: Cause) -> Plan {
    Plan::Act(Action::Upgrade { to, cause })
}
