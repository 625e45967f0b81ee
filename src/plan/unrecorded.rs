//! No revision is left. Where objects of the release still stand, somebody deleted its Secrets: they are made the release's again, and
//! nothing of them is deleted.

use semver::Version;

use super::release::{install, recorded_chart, start, upgrade, upgrade_to};
use super::work::Running;
use super::{Cause, Plan, Situation, route};
use crate::catalogue::DriverLayout;
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{DriverFacts, Surroundings};

/// After how many failed tries to record a release anew its objects are deleted without Helm in a removal: the chart may not be there, or
/// somebody may forbid its Secrets.
pub const RECORDING_TRIES: u32 = 3;

/// True where the objects of the module's release stand, whatever became of its revisions. Read live, and gone with a helm uninstall
/// before the revisions are.
pub fn stands(s: &Situation<'_>) -> bool {
    let surroundings = s.observed.surroundings.as_ref();
    surroundings.is_some_and(Surroundings::has_role_of_module_release)
}

/// The next step where no revision is left.
pub fn step(s: &Situation<'_>, desired: &Desired) -> Plan {
    match recorded_chart(s).filter(|_| stands(s)) {
        None => over_what_stands(s, desired),
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

/// Nothing is recorded either. Where a ClusterPolicy of the release stands, the chart that made it, by its label, is installed again
/// with the driver where it is, so that nothing is changed over several lines at once.
fn over_what_stands(s: &Situation<'_>, desired: &Desired) -> Plan {
    let mut policies = s.observed.policies.iter();
    let standing = policies.find(|policy| policy.is_of_module_release());
    let Some(chart) = standing.and_then(|policy| policy.chart.clone()) else {
        return start(s, desired, Cause::Install);
    };
    if chart >= desired.chart.version || s.catalogue.chart(&chart).is_none() {
        let layout = standing_layout(s);
        return upgrade(s, desired, (layout, Running::UNKNOWN), &chart, Cause::RecordLost);
    }
    install(s, desired, upgrade_to(as_it_stands(s, chart), Cause::RecordLost))
}

/// That chart once more, with the driver where it is.
fn as_it_stands(s: &Situation<'_>, chart: Version) -> Step {
    Step {
        chart,
        layout: standing_layout(s),
        drivers: DriverUpgrades::Held,
    }
}

/// Which object of the release's describes the driver.
fn standing_layout(s: &Situation<'_>) -> DriverLayout {
    if s.observed.drivers.iter().any(DriverFacts::is_of_module_release) {
        DriverLayout::NvidiaDriver
    } else {
        DriverLayout::ClusterPolicy
    }
}

/// The chart that was recorded is installed again over its objects, so that Helm knows them all; what is wanted follows from there.
/// A later chart would leave behind what only the earlier one has.
pub fn record_anew(s: &Situation<'_>, desired: &Desired) -> Plan {
    let known = recorded_chart(s).filter(|chart| s.catalogue.chart(chart).is_some());
    let again = known.filter(|chart| *chart != desired.chart.version);
    let step = again.map_or_else(|| desired.step.clone(), |chart| as_it_stands(s, chart));
    upgrade_to(step, Cause::RecordLost)
}
