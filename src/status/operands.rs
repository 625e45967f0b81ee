//! Condition `OperandsReady`: whether NVIDIA's operands work on the GPU nodes.
//!
//! ClusterPolicy saying `ready` is not enough: it says so without any GPU and while a node is cordoned for a new driver. A
//! node counts by what it offers to Pods.

use jiff::{SignedDuration, Timestamp};

use super::Report;
use super::conditions::Verdict;
use super::driver_change::is_held;
use super::left_out;
use super::nodes::Nodes;
use super::sightings::Sighted;
use crate::api::State;
use crate::facts::{DriverFacts, PolicyFacts, Revision, told};
use crate::plan::Plan;

/// How long a node, new or with a new release, may take until its GPUs can be used: NVIDIA's startup probe of the driver
/// alone allows about 21 minutes.
pub const STARTING_LIMIT: SignedDuration = SignedDuration::from_mins(25);

/// How long NVIDIA's controller may take until it reports.
const CONTROLLER_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// Reason of NVIDIA's condition `Error` where its controller cannot go on (`internal/conditions` of gpu-operator v26.7.0); all others
/// say that a part is not ready yet.
const RECONCILE_FAILED: &str = "ReconcileFailed";

/// The verdict, the state that it leads to, and when it changes by itself.
pub struct Operands {
    pub verdict: Verdict,
    pub state: State,
    pub recheck: Option<Timestamp>,
}

impl Operands {
    pub(super) fn ready(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::yes(reason, message),
            state: State::Ready,
            recheck: None,
        }
    }

    pub(super) fn not(state: State, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::no(reason, message),
            state,
            recheck: None,
        }
    }

    /// Processing until `deadline`, afterwards `then`.
    pub(super) fn until(self, now: Timestamp, deadline: Timestamp, then: State) -> Self {
        if now < deadline {
            Self {
                state: State::Processing,
                recheck: Some(deadline),
                ..self
            }
        } else {
            Self { state: then, ..self }
        }
    }
}

pub fn judge(report: &Report<'_>, nodes: &Nodes<'_>, sighted: &mut Sighted<'_>) -> Operands {
    if let Plan::Hold(hold) = report.plan
        && hold.is_about_others_stack()
    {
        return Operands {
            verdict: Verdict::unknown("ForeignRelease", "the operands belong to somebody else's release"),
            state: State::Warning,
            recheck: None,
        };
    }
    if !report.observed.unread.is_empty() {
        let kinds = report.observed.unread.join(", ");
        let message = format!("the operator may not read {kinds}, apply the module's ClusterRoles again");
        return Operands {
            verdict: Verdict::unknown("Forbidden", message),
            state: State::Error,
            recheck: None,
        };
    }
    match report.observed.release.latest() {
        None => Operands::not(
            State::Processing,
            "NotInstalled",
            "NVIDIA's gpu-operator is not installed",
        ),
        // The RoleBinding that lets the operator see them is as young as the release.
        Some(latest) if report.observed.operand_pods.is_none() => {
            let message = "the operator may not read Pods in namespace gpu-operator, apply the module's ClusterRoles again";
            let operands = Operands {
                verdict: Verdict::unknown("Forbidden", message),
                state: State::Processing,
                recheck: None,
            };
            operands.until(report.now, latest.changed + CONTROLLER_LIMIT, State::Error)
        }
        Some(latest) => judge_stack(report, nodes, latest, sighted),
    }
}

fn judge_stack(
    report: &Report<'_>,
    nodes: &Nodes<'_>,
    latest: &Revision,
    sighted: &mut Sighted<'_>,
) -> Operands {
    let now = report.now;
    let since = latest.changed;
    let policy = report
        .observed
        .policies
        .iter()
        .find(|policy| policy.is_of_module_release());
    let driver = report
        .observed
        .drivers
        .iter()
        .find(|driver| driver.is_of_module_release());
    let Some(PolicyFacts {
        state: Some(policy_state),
        error,
        ..
    }) = policy
    else {
        return silent(report, "ClusterPolicy", since);
    };
    if driver.is_some_and(|driver| driver.state.is_none()) {
        return silent(report, "NVIDIADriver", since);
    }

    if let Some(mut judged) = nodes.judge(now, since, sighted) {
        // What keeps NVIDIA's operator from going on may be why the nodes are not ready.
        let errors = [
            policy.and_then(|policy| policy.error.as_ref()),
            driver.and_then(|driver| driver.error.as_ref()),
        ];
        if let Some((_, message)) = errors
            .into_iter()
            .flatten()
            .find(|(reason, _)| reason == RECONCILE_FAILED)
        {
            judged.verdict.message = format!(
                "{}; NVIDIA's gpu-operator says: {message}",
                judged.verdict.message
            );
        }
        return judged;
    }
    let mut limit = |reason| since.max(sighted.since("", reason)) + STARTING_LIMIT;
    let held = is_held(report);
    if let Some(image) = outdated_driver(report).filter(|_| !held) {
        let message = format!("NVIDIA's gpu-operator still runs driver {image} and is about to replace it");
        return Operands::not(State::Processing, "DriverRollingOut", message).until(
            now,
            limit("DriverRollingOut"),
            State::Warning,
        );
    }
    let told = [
        (policy_state != "ready").then_some(error),
        driver.and_then(not_ready).map(|driver| &driver.error),
    ]
    .map(|told| told.filter(|told| !(held && is_of_held_drivers(told.as_ref()))));
    let Some(told) = told
        .into_iter()
        .flatten()
        .next()
        .filter(|_| !nodes.are_starting())
    else {
        return left_out::judge(report, nodes.good());
    };
    let told = told
        .as_ref()
        .map_or("no reason is given", |(_, message)| message.as_str());
    let message = format!("NVIDIA's gpu-operator says that not all of its parts are ready: {told}");
    Operands::not(State::Processing, "OperandsNotReady", message).until(
        now,
        limit("OperandsNotReady"),
        State::Warning,
    )
}

fn not_ready(driver: &DriverFacts) -> Option<&DriverFacts> {
    (driver.state.as_deref() != Some("ready")).then_some(driver)
}

/// True for what NVIDIA's operator says while it is kept from replacing drivers: they do not run the newest template.
fn is_of_held_drivers(error: Option<&(String, String)>) -> bool {
    error.is_some_and(|(reason, message)| reason == "DriverNotReady" || message.ends_with("[state-driver]"))
}

/// NVIDIA's controller has never looked at the object, so whatever else it said is older.
fn silent(report: &Report<'_>, kind: &str, since: Timestamp) -> Operands {
    let missing = report.observed.missing_pull_secrets.iter().flatten().next();
    let todo = missing.map_or_else(
        || "look at the Pods in namespace gpu-operator".to_owned(),
        |name| {
            format!("create Secret {name}, which spec.images.pullSecrets names, in namespace gpu-operator")
        },
    );
    let message = format!("NVIDIA's gpu-operator has not reported on its {kind}; {todo}");
    Operands::not(State::Processing, "OperatorNotReporting", message).until(
        report.now,
        since + CONTROLLER_LIMIT,
        State::Error,
    )
}

/// The image of a driver DaemonSet that is not the wanted one. NVIDIA's statuses name no generation, so right after a
/// change they still say `ready` of the driver before.
fn outdated_driver<'a>(report: &Report<'a>) -> Option<&'a str> {
    let (Plan::Keep, Ok(desired)) = (report.plan, report.desired) else {
        return None;
    };
    let prefix = desired.driver_image_prefix()?;
    let observed = report.observed;
    let policies = observed.policies.iter();
    let policies = policies.filter(|policy| policy.is_of_module_release());
    let drivers = observed.drivers.iter();
    let drivers = drivers.filter(|driver| driver.is_of_module_release());
    let ours: Vec<_> = policies
        .map(|policy| &policy.name)
        .chain(drivers.map(|driver| &driver.name))
        .collect();
    let sets = observed.daemon_sets.iter().filter(|set| set.desired > 0);
    sets.filter_map(|set| set.driver.as_ref())
        .filter(|driver| ours.contains(&&driver.owner))
        .map(|driver| driver.image.as_str())
        .find(|image| !image.starts_with(&prefix))
}

/// Since when the status says that the operands are not ready; now where it does not.
pub fn not_ready_since(report: &Report<'_>) -> Timestamp {
    let old = report
        .previous
        .and_then(|previous| crate::api::condition(previous, crate::api::ConditionType::OperandsReady));
    match old {
        Some(old) if old.status == "False" => told(old.last_transition_time.0),
        _ => report.now,
    }
}
