//! Condition `Installed`: whether the Helm release is deployed as wanted.

use jiff::{SignedDuration, Timestamp};
use semver::Version;

use super::Report;
use super::conditions::{Verdict, whole_seconds};
use crate::api::{ConditionType, RELEASE_NAMESPACE, condition};
use crate::desired::Desired;
use crate::facts::{Leavings, OPERANDS_LABEL, first_few, told};
use crate::helm::RevisionStatus;
use crate::plan::{Action, Cause, Plan, Wait};

/// How long something that ends by itself may take before it is called an error.
const LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// What to do about a Pod that does not end.
const STUCK_POD: &str = "the Pods of a node that is gone or does not answer never end by themselves: replace the node, or delete such a \
     Pod with kubectl delete pod --force --grace-period=0";

/// The verdict, and whether its time is up.
pub struct Installed {
    pub verdict: Verdict,
    pub overdue: bool,
    pub recheck: Option<Timestamp>,
}

pub fn judge(report: &Report<'_>) -> Installed {
    let verdict = verdict(report);
    let mut judged = Installed {
        verdict,
        overdue: false,
        recheck: None,
    };
    // What only others can end.
    let (limit, not_before, began) = match report.plan {
        Plan::Wait {
            why: Wait::ForeignOperation(_),
            until,
        } => (LIMIT.saturating_mul(2), *until, None),
        Plan::Wait {
            why:
                Wait::NamespaceTerminating
                | Wait::Step { .. }
                // Everything else is given up before.
                | Wait::Refused {
                    what: Leavings::Stack | Leavings::Pods,
                    ..
                },
            ..
        }
        | Plan::AwaitRemoval { .. } => (LIMIT, report.now, report.removal_began),
        _ => return judged,
    };
    // It may have been like this long before.
    let asked = report.deleting.unwrap_or(Timestamp::MIN);
    let old = report
        .previous
        .and_then(|previous| condition(previous, ConditionType::Installed));
    let same = old.filter(|old| old.reason == judged.verdict.reason);
    let since =
        began.unwrap_or_else(|| same.map_or(report.now, |old| told(old.last_transition_time.0).max(asked)));
    let end = not_before.max(since + limit);
    judged.overdue = report.now >= end;
    judged.recheck = Some(end);
    if let (true, Plan::AwaitRemoval { what, .. }) = (judged.overdue, report.plan)
        && *what == Leavings::Pods
    {
        judged.verdict.message = format!("{}; {STUCK_POD}", judged.verdict.message);
    }
    judged
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
        Plan::AwaitRemoval { names, .. } => Verdict::no("Uninstalling", removal(&release, names)),
        Plan::Wait {
            why: Wait::Refused { names, why, .. },
            ..
        } => Verdict::no("Uninstalling", refused(names, why)),
        Plan::Wait {
            why: Wait::NodeLabels(nodes),
            ..
        } => Verdict::no("Uninstalling", labels(report, nodes)),
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
        } => namespace_terminating(report.deleting.is_some()),
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

fn namespace_terminating(deleting: bool) -> Verdict {
    if deleting {
        return Verdict::no(
            "Uninstalling",
            format!(
                "Kubernetes is still removing namespace {RELEASE_NAMESPACE}, see its conditions if it stays"
            ),
        );
    }
    Verdict::unknown(
        "NamespaceTerminating",
        format!("namespace {RELEASE_NAMESPACE} is being deleted, nothing can be installed until it is gone"),
    )
}

fn refused(names: &[String], why: &str) -> String {
    let names = first_few(names.iter());
    format!(
        "{names} cannot be removed, change what keeps that from happening, an admission policy for example; it is tried again: {why}"
    )
}

/// Says why the module cannot go yet. It goes without them after some tries.
fn labels(report: &Report<'_>, nodes: &[String]) -> String {
    let mut tried = report.labelled.more_than(0);
    let error = tried.find_map(|(_, error)| error.as_ref());
    let error = error.map(|error| format!(": {error}")).unwrap_or_default();
    let names = first_few(nodes.iter());
    format!("label {OPERANDS_LABEL} is still on nodes {names}, take it off if it stays{error}")
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
