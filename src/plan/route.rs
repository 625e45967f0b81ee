//! The way from what runs to what is wanted: which step comes next, and when it may.
//!
//! Chart lines are never skipped. The move of the driver from ClusterPolicy into a NVIDIADriver takes three steps, since with one
//! the old controller, which still runs, deletes all of its driver Pods at once when it is told to (seen with 26.3.3): first the new
//! chart with the old layout, then the new layout with drivers held, then the rest. Drivers roll in the last step only.

use jiff::SignedDuration;
use semver::Version;

use super::{Cause, Plan, Situation, Wait, drift, foreign, held, release};
use crate::api::CLUSTER_POLICY_NAME;
use crate::catalogue::{DriverLayout, MinorVersion};
use crate::desired::{Desired, DriverUpgrades, Step};
use crate::facts::{ExistingContent, Revision};

/// How soon a step on the way is looked at again, besides by its events.
const STEP_LOOK: SignedDuration = SignedDuration::from_secs(5);

/// How long a step may take to come to its end until it is taken again.
const STEP_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// How long the old controller may outlive its Deployment's new Pod: the Pod's grace period and its Lease.
const OLD_CONTROLLER_LIMIT: SignedDuration = SignedDuration::from_secs(30);

/// The next step from the installed chart and layout. The error is the line that the catalogue has no chart of.
pub fn next(
    s: &Situation<'_>,
    desired: &Desired,
    installed: &Version,
    layout: DriverLayout,
) -> Result<Step, MinorVersion> {
    let last = desired.step.clone();
    let chart = s.catalogue.next_step(installed, &desired.chart)?;
    if chart.version != last.chart {
        return Ok(Step {
            chart: chart.version.clone(),
            layout: chart.driver_layout,
            drivers: DriverUpgrades::Held,
        });
    }
    let moves = layout == DriverLayout::ClusterPolicy && last.layout == DriverLayout::NvidiaDriver;
    if !moves || !desired.driver.is_managed() {
        return Ok(last);
    }
    let layout = if *installed == last.chart {
        last.layout
    } else {
        layout
    };
    Ok(Step {
        chart: last.chart,
        layout,
        drivers: DriverUpgrades::Held,
    })
}

/// Which object describes the driver in a revision: its label says so, or its values, or else what its chart usually has.
pub fn layout_of(s: &Situation<'_>, revision: &Revision, chart: &Version) -> DriverLayout {
    let by_values = || release::read(s, revision).map(ExistingContent::layout);
    revision
        .own_layout()
        .or_else(by_values)
        .unwrap_or_else(|| usual_layout(s, chart))
}

/// Which object describes the driver in releases of that chart.
pub fn usual_layout(s: &Situation<'_>, chart: &Version) -> DriverLayout {
    s.catalogue
        .chart(chart)
        .map_or(DriverLayout::ClusterPolicy, |chart| chart.driver_layout)
}

/// True for a step that others follow and that has not come to its end. Nothing is recorded while an adopted release goes its way, nor
/// where a process died over an installation, which is no step.
pub fn is_unfinished(
    s: &Situation<'_>,
    desired: &Desired,
    latest: &Revision,
    (at, layout): (&Version, DriverLayout),
) -> bool {
    let is_unrecorded = release::recorded_chart(s).is_none_or(|recorded| recorded < *at);
    let is_step = latest.holds_drivers() || *at != desired.chart.version;
    latest.made_by_module() && is_unrecorded && is_step && !is_done(s, latest, layout)
}

/// A step is waited for, and its objects are put right meanwhile. It is taken again if it does not come to its end: what keeps it from
/// that may be in the values, and the user may have changed them since.
pub fn finish(
    s: &Situation<'_>,
    desired: &Desired,
    latest: &Revision,
    (at, layout): (Version, DriverLayout),
) -> Plan {
    if s.now < latest.changed + STEP_LIMIT || s.catalogue.chart(&at).is_none() {
        let wait = Plan::Wait {
            until: s.now + STEP_LOOK,
            why: Wait::Step { at: at.clone() },
        };
        return meanwhile(s, desired, latest, &at, wait);
    }
    let again = Step {
        chart: at.clone(),
        layout,
        drivers: DriverUpgrades::Held,
    };
    match held::may_go(s, desired, held::driver_of(s, latest), again) {
        Ok(to) => release::install(s, desired, release::upgrade_to(to, Cause::Retry)),
        Err(wait @ Plan::Wait { .. }) => meanwhile(s, desired, latest, &at, wait),
        Err(plan) => plan,
    }
}

/// The objects of what runs are looked at while the next step waits.
pub fn meanwhile(s: &Situation<'_>, desired: &Desired, latest: &Revision, at: &Version, wait: Plan) -> Plan {
    let looked = if !foreign::is_ours(s) {
        Plan::Keep
    } else if *at == desired.chart.version {
        drift::step(s, desired, latest)
    } else {
        // Those of the wanted chart are not the CRDs of this one.
        drift::objects(s, latest)
    };
    match looked {
        Plan::Keep => wait,
        plan => plan,
    }
}

/// True where the step after this revision may follow: NVIDIA's controller of this chart runs alone and has judged the
/// ClusterPolicy, and after a move no driver is left to the ClusterPolicy. GPU nodes do not count: a pool that is broken or
/// empty never blocks an upgrade.
fn is_done(s: &Situation<'_>, revision: &Revision, layout: DriverLayout) -> bool {
    let runs_alone = s.observed.controller_runs && s.now >= revision.changed + OLD_CONTROLLER_LIMIT;
    let judged = s.observed.policies.iter().any(|policy| policy.state.is_some());
    let mut drivers = s
        .observed
        .daemon_sets
        .iter()
        .filter_map(|set| set.driver.as_ref());
    let moved =
        layout == DriverLayout::ClusterPolicy || !drivers.any(|driver| driver.owner == CLUSTER_POLICY_NAME);
    runs_alone && judged && moved
}
