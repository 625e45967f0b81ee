//! Condition `Installed`: whether the Helm release is deployed as wanted.

use jiff::Timestamp;
use semver::Version;

use super::conditions::{Verdict, whole_seconds};
use super::sightings::Sighted;
use super::{Report, namespace, step};
use crate::api::RELEASE_NAMESPACE;
use crate::desired::Desired;
use crate::facts::{Leavings, first_few};
use crate::helm::RevisionStatus;
use crate::plan::{Action, Cause, Plan, Wait};

/// What to do about a Pod that does not end.
const STUCK_POD: &str = "the Pods of a node that is gone or does not answer never end by themselves: replace the node, or delete such a \
     Pod with kubectl delete pod --force --grace-period=0";

/// The verdict, and whether its time is up.
pub struct Installed {
    pub verdict: Verdict,
    pub overdue: bool,
    pub recheck: Option<Timestamp>,
    /// Since when the step is under way that is waited for.
    pub waits_since: Option<Timestamp>,
}

pub fn judge(report: &Report<'_>, sighted: &mut Sighted<'_>) -> Installed {
    let mut verdict = verdict(report);
    let waits_since = sighted.step(report);
    let late = waits_since.and_then(|since| step::late(report.plan, since));
    let overdue = late.is_some_and(|late| report.now >= late);
    if let (true, Plan::AwaitRemoval { what, .. }) = (overdue, report.plan)
        && *what == Leavings::Pods
    {
        verdict.message = format!("{}; {STUCK_POD}", verdict.message);
    }
    Installed {
        verdict,
        overdue,
        recheck: late,
        waits_since,
    }
}

fn verdict(report: &Report<'_>) -> Verdict {
    if let Some(failure) = report.failure {
        return Verdict::no(failure.reason, &failure.message);
    }
    let release = Desired::release_path();
    match report.plan {
        Plan::Act(
            Action::Upgrade {
                cause: Cause::Install,
                ..
            }
            | Action::AddFinalizer
            | Action::OpenNamespace,
        ) if report.deleting.is_none() => {
            Verdict::unknown("Installing", format!("Helm release {release} is being installed"))
        }
        Plan::Act(Action::Upgrade { to, .. }) => Verdict::unknown(
            "Upgrading",
            format!(
                "Helm release {release} is being brought to what is wanted{}",
                way(report, &to.chart)
            ),
        ),
        Plan::Act(Action::Rollback { found, .. }) => Verdict::unknown(
            "Recovering",
            format!("Helm release {release} was left {found} and is being freed"),
        ),
        Plan::Act(Action::Discard { revision, why }) => Verdict::unknown(
            "Recovering",
            format!(
                "revision {revision} of Helm release {release} is in Helm's way and its Secret is being deleted: {}",
                why.why()
            ),
        ),
        Plan::Act(
            Action::AddFinalizer
            | Action::RemoveFinalizer
            | Action::BeginRemoval { .. }
            | Action::Clear { .. }
            | Action::OpenNamespace
            | Action::Uninstall { .. },
        ) => Verdict::no(
            "Uninstalling",
            format!("Helm release {release} is being uninstalled"),
        ),
        Plan::AwaitRemoval { what, names } => {
            let held = match what {
                Leavings::Namespace => namespace::held(report),
                _ => String::new(),
            };
            Verdict::no("Uninstalling", format!("{}{held}", removal(&release, names)))
        }
        Plan::Wait {
            why: Wait::Refused { names, why, .. },
            ..
        } => Verdict::no("Uninstalling", refused(names, why)),
        Plan::Hold(hold) if hold.is_about_others_stack() => {
            Verdict::no("NotInstalled", "no Helm release of the module's is there")
        }
        Plan::Wait {
            why: Wait::ForeignOperation(found),
            until,
        } => foreign_operation(&release, *found, *until),
        Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        } => namespace_terminating(report),
        Plan::Wait {
            why: Wait::Step { at },
            ..
        } => Verdict::unknown(
            "Upgrading",
            format!(
                "NVIDIA's gpu-operator {at} has to run before the next step{}",
                way(report, at)
            ),
        ),
        Plan::Keep
        | Plan::Hold(_)
        | Plan::Look
        | Plan::Read(_)
        | Plan::Compare
        | Plan::ReadExisting { .. }
        | Plan::ReadManifest { .. }
        | Plan::FindOrphans(_)
        | Plan::Inspect(_)
        | Plan::Act(
            Action::RestoreCrds { .. }
            | Action::Reapply { .. }
            | Action::Prune { .. }
            | Action::LabelNodes { .. },
        )
        | Plan::Wait {
            why: Wait::Backoff | Wait::Drivers | Wait::Work,
            ..
        } => as_observed(report, &release),
    }
}

fn foreign_operation(release: &str, found: RevisionStatus, until: Timestamp) -> Verdict {
    Verdict::unknown(
        "ForeignOperation",
        format!(
            "somebody else's Helm left release {release} {found}; it is freed if that does not end by {}",
            whole_seconds(until)
        ),
    )
}

/// Says that a chart is only a step on the way.
fn way(report: &Report<'_>, chart: &Version) -> String {
    match report.desired {
        Ok(desired) if *chart != desired.chart.version => {
            format!(", on the way from chart {chart} to {}", desired.chart.version)
        }
        _ => String::new(),
    }
}

fn removal(release: &str, left: &[String]) -> String {
    let names = first_few(left.iter());
    format!("Helm release {release} is uninstalled, Kubernetes is still removing {names}")
}

fn namespace_terminating(report: &Report<'_>) -> Verdict {
    let held = namespace::held(report);
    if report.deleting.is_some() {
        let message = format!("Kubernetes is still removing namespace {RELEASE_NAMESPACE}{held}");
        return Verdict::no("Uninstalling", message);
    }
    Verdict::unknown(
        "NamespaceTerminating",
        format!(
            "nothing can be installed until namespace {RELEASE_NAMESPACE}, which is being deleted, is gone{held}"
        ),
    )
}

fn refused(names: &[String], why: &str) -> String {
    let names = first_few(names.iter());
    format!(
        "{names} cannot be taken away: {why}; it is tried again, change what is in the way, an admission policy for example"
    )
}

fn as_observed(report: &Report<'_>, release: &str) -> Verdict {
    match report.observed.release.latest() {
        None => Verdict::no("NotInstalled", format!("there is no Helm release {release}")),
        Some(latest) if latest.status == RevisionStatus::Deployed => {
            Verdict::yes("Installed", format!("Helm release {release} is deployed"))
        }
        Some(latest) => Verdict::no(
            "NotDeployed",
            format!("Helm release {release} is {}", latest.status),
        ),
    }
}
