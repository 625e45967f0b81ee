//! Step 5, pure: what was decided, done and observed becomes the [`GpuModuleStatus`].
//!
//! The whole status is computed anew in each pass; of the previous one only transition times and what the module has
//! recorded are kept. So nothing in it can be stale, and an unchanged world gives an equal status.

mod adoption;
mod conditions;
mod deleted;
mod drifted;
mod driver_change;
mod history;
mod installed;
mod left_out;
mod namespace;
mod nodes;
mod operands;
mod sightings;
mod step;
mod summary;
mod unreadable;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{
    ConditionType, DeletionCrds, DriftMode, DriverStatus, GpuModuleStatus, GpuNodesStatus, RELEASE_NAME,
    RELEASE_NAMESPACE, ReleaseStatus, State,
};
use crate::desired::{Desired, Refusal};
use crate::drift::ObjectRef;
use crate::facts::{Observed, ReleaseFacts};
use crate::nodes::NodeRules;
use crate::plan::{DriftState, Failure, Hold, Labelled, Plan, Protection, Waiting};
use conditions::{Verdict, whole_seconds};
use nodes::Nodes;
use sightings::Sighted;

pub use deleted::is_held;
pub use history::Ended;
pub use operands::STARTING_LIMIT;
pub use sightings::Sightings;
pub use unreadable::unreadable;

#[cfg(test)]
mod tests;

/// Most characters of the annotation that are kept.
pub const MAX_ANNOTATION: usize = 256;

/// Everything that the status depends on.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The time of this pass.
    pub now: Timestamp,
    /// Generation of the GpuModule that the plan was made for.
    pub generation: i64,
    /// The GpuModule has a deletion timestamp.
    pub deleting: Option<Timestamp>,
    /// When the removal began, after whatever held it.
    pub removal_began: Option<Timestamp>,
    /// `spec.adoptExistingRelease`.
    pub adopt: bool,
    /// The status before.
    pub previous: Option<&'a GpuModuleStatus>,
    /// The wanted release, or why there is none.
    pub desired: Result<&'a Desired, &'a Refusal>,
    /// What was observed.
    pub observed: &'a Observed,
    /// The step that is about to be taken, or that ends the pass.
    pub plan: &'a Plan,
    /// Whether a driver change waits.
    pub waiting: &'a Waiting,
    /// `spec.deletion.crds`.
    pub deletion_crds: DeletionCrds,
    /// Whether a deletion is held.
    pub protection: Protection<'a>,
    /// The failure that stopped the pass, or that its pause is for.
    pub failure: Option<&'a Failure>,
    /// What has been done to the release since the status before, oldest first.
    pub ended: &'a [Ended],
    /// When the next try is, after a failure.
    pub next_attempt: Option<Timestamp>,
    /// `spec.drift.mode`.
    pub drift_mode: DriftMode,
    /// What is known of the release's objects.
    pub drift: &'a DriftState,
    /// What was left behind beside them and cannot be deleted, each with the reason.
    pub undeleted: &'a [(ObjectRef, String)],
    /// By what nodes are judged.
    pub rules: NodeRules<'a>,
    /// What was wrong or under way when the status was last computed.
    pub sightings: &'a Sightings,
    /// Labels that were set on nodes or taken off lately.
    pub labelled: &'a Labelled,
    /// The last value of annotation `reconcile-at` that was acted upon.
    pub handled_reconcile_at: Option<&'a str>,
}

/// A status and when it may change without any event.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The status.
    pub status: GpuModuleStatus,
    /// When a deadline passes that the status depends on.
    pub recheck: Option<Timestamp>,
    /// Since when the step is under way that is waited for.
    pub waits_since: Option<Timestamp>,
    /// What is wrong or under way, to be remembered for the next one.
    pub sightings: Sightings,
}

/// Computes the status.
pub fn compute(report: &Report<'_>) -> Computed {
    let mut sighted = Sighted::new(report.sightings, report.now, operands::not_ready_since(report));
    let nodes = Nodes::sort(report, &mut sighted);
    let operands = operands::judge(report, &nodes, &mut sighted);
    let configured = configured(report);
    let installed = installed::judge(report, &mut sighted);
    let drifted = drifted::judge(report);
    let deleted = deleted::judge(report);
    let state = summary::state(report, &operands, &installed, &drifted, deleted.as_ref());
    let deciding = match &deleted {
        Some(deleted) if deleted.decides(state, report.plan) => &deleted.verdict,
        _ => summary::deciding(state, &configured, &installed.verdict, &operands, &drifted),
    };
    let driver_change = driver_change::judge(report);
    let description = summary::description(report, deciding, &driver_change);
    let ready = Verdict::new(state == State::Ready, deciding.reason, &description);

    let mut verdicts = vec![
        (ConditionType::Configured, configured),
        (ConditionType::Installed, installed.verdict),
        (ConditionType::OperandsReady, operands.verdict),
        (ConditionType::Drifted, drifted.verdict),
        (ConditionType::DriverChangePending, driver_change),
    ];
    verdicts.extend(deleted.map(|deleted| (ConditionType::Deleted, deleted.verdict)));
    verdicts.push((ConditionType::Ready, ready));
    let conditions = conditions::merge(report.previous, report.generation, report.now, &verdicts);
    let (worker_pools, more_worker_pools) = nodes.pools();
    let status = GpuModuleStatus {
        state,
        description,
        observed_generation: report.generation,
        conditions,
        release: recorded(report),
        adoption: adoption::status(report),
        driver: effective_driver(report),
        node_feature_discovery: match report.desired {
            Ok(desired) => Some(desired.node_feature_discovery),
            Err(_) => report
                .previous
                .and_then(|previous| previous.node_feature_discovery),
        },
        gpu_nodes: GpuNodesStatus::new(count(nodes.usable()), count(nodes.total())),
        worker_pools,
        more_worker_pools,
        history: history::append(report),
        next_attempt: report.next_attempt.map(|at| Time(whole_seconds(at))),
        last_handled_reconcile_at: report.handled_reconcile_at.map(ToOwned::to_owned),
    };
    let times = [operands.recheck, installed.recheck, report.drift.due(report.now)];
    let recheck = times.into_iter().flatten();
    let recheck = recheck.filter(|at| *at > report.now).min();
    let sees_all = report.observed.unread.is_empty() && report.observed.operand_pods.is_some();
    Computed {
        status,
        recheck,
        waits_since: installed.waits_since,
        sightings: sighted.remembered(sees_all),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The driver that NVIDIA's operator is told to bring: not yet that of the spec while all of it waits.
fn effective_driver(report: &Report<'_>) -> Option<DriverStatus> {
    match report.desired {
        Ok(desired) if !waits_whole(report) => Some(desired.driver.status()),
        _ => report.previous.and_then(|previous| previous.driver.clone()),
    }
}

/// True where not even the values of the wanted release are applied yet.
fn waits_whole(report: &Report<'_>) -> bool {
    matches!(report.waiting, Waiting::Driver(wait) if wait.whole)
}

/// What `status.release` says: the revision that is as wanted, or else what was recorded before.
fn recorded(report: &Report<'_>) -> Option<ReleaseStatus> {
    let previous = report.previous.and_then(|previous| previous.release.clone());
    let (Plan::Keep, Ok(desired), None) = (report.plan, report.desired, report.deleting) else {
        return previous;
    };
    let ReleaseFacts::Read(history) = &report.observed.release else {
        return previous;
    };
    let Some(latest) = history.latest() else {
        return previous;
    };
    Some(ReleaseStatus {
        name: RELEASE_NAME.to_owned(),
        namespace: RELEASE_NAMESPACE.to_owned(),
        chart_version: desired.chart.version.to_string(),
        app_version: desired.chart.app_version(),
        revision: i64::from(latest.number),
        values_digest: match (report.waiting, &desired.held) {
            (Waiting::Driver(_), Some(held)) => held.values_digest.clone(),
            _ => desired.values_digest.clone(),
        },
    })
}

fn configured(report: &Report<'_>) -> Verdict {
    match report.plan {
        Plan::Hold(hold @ Hold::Suspended) => Verdict::yes(hold.reason(), hold.to_string()),
        Plan::Hold(hold) => Verdict::no(hold.reason(), hold.to_string()),
        _ => Verdict::yes("Configured", "the spec is accepted"),
    }
}
