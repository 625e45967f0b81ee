//! What to do about the release while it is wanted: one row per status of its newest revision.

use jiff::SignedDuration;
use semver::Version;

use super::held::{driver_of, is_wanted, may_go};
use super::work::Running;
use super::{Action, Cause, Hold, Plan, Situation, Wait, drift, recovery, route};
use crate::catalogue::DriverLayout;
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{Comparison, HelmOwner, History, ReleaseFacts, Revision, SurroundingNamespace};
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
        return unrecorded(s, desired);
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
        // Nothing of it runs; `helm upgrade --install` starts over. What stands is of a later revision that is gone.
        RevisionStatus::Uninstalled if stands(s) => at_once(s, desired, Running::UNKNOWN, Cause::Retry),
        RevisionStatus::Uninstalled => {
            install(s, desired, upgrade_to(desired.step.clone(), Cause::Retry))
        }
    }
}

/// What was read of that revision through Helm.
pub fn compared<'a>(s: &Situation<'a>, revision: &Revision) -> Option<&'a Comparison> {
    let comparison = s.observed.comparison.as_ref();
    comparison.filter(|comparison| comparison.uid == revision.uid)
}

/// True where the objects of the module's release stand, whatever became of its revisions. Read live, and gone with a helm uninstall
/// before the revisions are.
pub fn stands(s: &Situation<'_>) -> bool {
    let surroundings = s.observed.surroundings.as_ref();
    let owner = surroundings.and_then(|around| around.cluster_role.as_ref());
    owner.is_some_and(|owner| is_ours(owner.as_ref()))
}

fn is_ours(owner: Option<&HelmOwner>) -> bool {
    owner.is_some_and(HelmOwner::is_module_release)
}

/// No revision is left. Where the objects of the release still stand, somebody deleted its Secrets.
fn unrecorded(s: &Situation<'_>, desired: &Desired) -> Plan {
    match recorded_chart(s).filter(|_| stands(s)) {
        None => install(s, desired, upgrade_to(desired.step.clone(), Cause::Install)),
        Some(chart) if s.catalogue.chart(&chart).is_some() && !changes_values(s, desired, &chart) => {
            install(s, desired, record_anew(s, desired))
        }
        Some(chart) => {
            let layout = route::usual_layout(s, &chart);
            upgrade(s, desired, (layout, Running::UNKNOWN), &chart, Cause::RecordLost)
        }
    }
}

/// True where recording the chart anew would not leave the values as they were recorded.
fn changes_values(s: &Situation<'_>, desired: &Desired, recorded: &Version) -> bool {
    let known = s.recorded.map(|known| known.values_digest.as_str());
    *recorded == desired.chart.version && known != Some(desired.values_digest.as_str())
}

/// The chart that was recorded is installed again over its objects, so that Helm knows them all; what is wanted follows from there.
/// A later chart would leave behind what only the earlier one has.
pub fn record_anew(s: &Situation<'_>, desired: &Desired) -> Plan {
    let known = recorded_chart(s).filter(|chart| s.catalogue.chart(chart).is_some());
    let again = known.filter(|chart| *chart != desired.chart.version);
    let step = again.map_or_else(
        || desired.step.clone(),
        |chart| {
            let by_object = s
                .observed
                .drivers
                .iter()
                .any(|driver| is_ours(driver.owner.as_ref()));
            Step {
                chart,
                layout: if by_object {
                    DriverLayout::NvidiaDriver
                } else {
                    DriverLayout::ClusterPolicy
                },
                drivers: DriverUpgrades::Held,
            }
        },
    );
    upgrade_to(step, Cause::RecordLost)
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
        return drift::step(s, desired, latest);
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
    match upgrade(s, desired, (layout, driver_of(s, latest)), &installed, cause) {
        Plan::Act(Action::Upgrade { to, .. }) if held && to == desired.held_step() => {
            drift::step(s, desired, latest)
        }
        plan => plan,
    }
}

/// The last try failed. What counts for the way is what last worked, not what was tried; where nothing ever did, any chart may be
/// tried.
fn failed(s: &Situation<'_>, desired: &Desired, history: &History) -> Plan {
    let worked = history.last_good();
    let chart = worked
        .and_then(|good| good.own_chart().cloned())
        .or_else(|| recorded_chart(s));
    match (worked, chart) {
        (Some(good), Some(chart)) => {
            let layout = route::layout_of(s, good, &chart);
            upgrade(s, desired, (layout, driver_of(s, good)), &chart, Cause::Retry)
        }
        // What stands may have worked before its Secrets were deleted.
        (None, _) if stands(s) => at_once(s, desired, Running::UNKNOWN, Cause::Install),
        (None, _) => install(s, desired, upgrade_to(desired.step.clone(), Cause::Install)),
        (Some(good), None) => at_once(s, desired, driver_of(s, good), Cause::Retry),
    }
}

/// What is wanted in one step, since nobody knows the way.
fn at_once(s: &Situation<'_>, desired: &Desired, running: Running<'_>, cause: Cause) -> Plan {
    match may_go(s, desired, running, desired.step.clone()) {
        Ok(to) => install(s, desired, upgrade_to(to, cause)),
        Err(plan) => plan,
    }
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

fn upgrade_to(to: Step, cause: Cause) -> Plan {
    Plan::Act(Action::Upgrade { to, cause })
}
