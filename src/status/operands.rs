//! Condition `OperandsReady`: whether NVIDIA's operands work on the GPU nodes.
//!
//! ClusterPolicy saying `ready` is not enough: it says so without any GPU and while a node is cordoned for a new driver. A
//! node counts by what it offers to Pods.

use jiff::{SignedDuration, Timestamp};

use super::Report;
use super::conditions::Verdict;
use crate::api::State;
use crate::facts::{NodeFacts, PolicyFacts, ReleaseFacts, Revision};
use crate::plan::{Foreign, Hold, Plan};

/// How long a node, new or with a new release, may take until its GPUs can be used: NVIDIA's startup probe of the driver
/// alone allows about 21 minutes.
pub const STARTING_LIMIT: SignedDuration = SignedDuration::from_mins(25);

/// How long NVIDIA's controller may take until it reports.
const CONTROLLER_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// The verdict, the state that it leads to, and when it changes by itself.
pub struct Operands {
    pub verdict: Verdict,
    pub state: State,
    pub recheck: Option<Timestamp>,
}

impl Operands {
    fn ready(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::yes(reason, message),
            state: State::Ready,
            recheck: None,
        }
    }

    fn not(state: State, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::no(reason, message),
            state,
            recheck: None,
        }
    }

    /// Processing until `deadline`, afterwards `then`.
    fn until(self, now: Timestamp, deadline: Timestamp, then: State) -> Self {
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

pub fn judge(report: &Report<'_>) -> Operands {
    if let Plan::Hold(Hold::Foreign(Foreign::Release | Foreign::Object { .. })) = report.plan {
        return Operands {
            verdict: Verdict::unknown("ForeignRelease", "the operands belong to somebody else's release"),
            state: State::Warning,
            recheck: None,
        };
    }
    if !report.observed.forbidden.is_empty() {
        let kinds = report.observed.forbidden.join(", ");
        let message = format!("the operator may not read {kinds}, apply the module's ClusterRoles again");
        return Operands {
            verdict: Verdict::unknown("Forbidden", message),
            state: State::Error,
            recheck: None,
        };
    }
    let latest = match &report.observed.release {
        ReleaseFacts::Read(history) => history.latest(),
        ReleaseFacts::Unreadable => None,
    };
    match latest {
        None => Operands::not(
            State::Processing,
            "NotInstalled",
            "NVIDIA's gpu-operator is not installed",
        ),
        Some(latest) => judge_stack(report, latest),
    }
}

fn judge_stack(report: &Report<'_>, latest: &Revision) -> Operands {
    let now = report.now;
    let since = latest.changed;
    let policy = report.observed.policies.iter().find(|policy| {
        policy
            .owner
            .as_ref()
            .is_some_and(crate::facts::HelmOwner::is_module_release)
    });
    let Some(PolicyFacts {
        state: Some(policy_state),
        error,
        ..
    }) = policy
    else {
        let message = "NVIDIA's gpu-operator has not reported on its ClusterPolicy; look at the Pods in namespace gpu-operator";
        return Operands::not(State::Processing, "OperatorNotReporting", message).until(
            now,
            since + CONTROLLER_LIMIT,
            State::Error,
        );
    };
    let nodes = Nodes::sort(report, since);
    if let Some(judged) = nodes.judge(now, since) {
        return judged;
    }
    if policy_state == "ready" || !nodes.starting.is_empty() {
        return nodes.good();
    }
    let told = error
        .as_ref()
        .map_or("no reason is given", |(_, message)| message.as_str());
    let message = format!("NVIDIA's gpu-operator says that not all of its parts are ready: {told}");
    Operands::not(State::Processing, "OperandsNotReady", message).until(
        now,
        not_ready_since(report, since) + STARTING_LIMIT,
        State::Warning,
    )
}

/// Since when the operands are not ready: the release itself, or the last time that they were.
fn not_ready_since(report: &Report<'_>, since: Timestamp) -> Timestamp {
    let old = report
        .previous
        .and_then(|previous| crate::api::condition(previous, crate::api::ConditionType::OperandsReady));
    match old {
        Some(old) if old.status == "False" => since.max(old.last_transition_time.0),
        _ => report.now,
    }
}

/// GPU nodes by what is expected of them.
struct Nodes<'a> {
    total: usize,
    usable: usize,
    /// Not usable, but younger than the release and within their time: they do not count yet.
    starting: Vec<&'a NodeFacts>,
    /// Not usable, there when the release was made, and within their time.
    rolling: Vec<&'a NodeFacts>,
    /// Not usable, and their time is up.
    overdue: Vec<&'a NodeFacts>,
}

impl<'a> Nodes<'a> {
    fn sort(report: &Report<'a>, since: Timestamp) -> Self {
        let all = &report.observed.gpu_nodes;
        let mut nodes = Self {
            total: all.len(),
            usable: 0,
            starting: vec![],
            rolling: vec![],
            overdue: vec![],
        };
        for node in all {
            if node.is_usable() {
                nodes.usable += 1;
            } else if report.now >= node.created.max(since) + STARTING_LIMIT {
                nodes.overdue.push(node);
            } else if node.created > since {
                nodes.starting.push(node);
            } else {
                nodes.rolling.push(node);
            }
        }
        nodes
    }

    fn judge(&self, now: Timestamp, since: Timestamp) -> Option<Operands> {
        if !self.overdue.is_empty() {
            return Some(self.bad());
        }
        if !self.rolling.is_empty() {
            let message = format!(
                "{} of {} GPU nodes can be used, the others are being set up",
                self.usable, self.total
            );
            // The limit is only a recheck here: afterwards the nodes are overdue.
            return Some(Operands::not(State::Processing, "RollingOut", message).until(
                now,
                since + STARTING_LIMIT,
                State::Error,
            ));
        }
        None
    }

    fn bad(&self) -> Operands {
        let names = names(&self.overdue);
        let cordoned = self.overdue.iter().all(|node| node.ready && !node.schedulable);
        let offline = self.overdue.iter().all(|node| !node.ready);
        let todo = if cordoned {
            "uncordon them"
        } else if offline {
            "they are not ready, look at the nodes"
        } else {
            "look at the Pods of these nodes in namespace gpu-operator"
        };
        let message = format!(
            "{} of {} GPU nodes cannot be used ({names}), {todo}",
            self.overdue.len(),
            self.total
        );
        let state = if self.usable > 0 || cordoned {
            State::Warning
        } else {
            State::Error
        };
        Operands::not(state, "NodesNotUsable", message)
    }

    fn good(&self) -> Operands {
        let recheck = self
            .starting
            .iter()
            .map(|node| node.created + STARTING_LIMIT)
            .min();
        let ready = if self.total == 0 {
            Operands::ready(
                "NoGpuNodes",
                "there is no GPU node; the next one that joins is set up by itself",
            )
        } else if self.starting.is_empty() {
            Operands::ready("Ready", format!("all {} GPU nodes can be used", self.total))
        } else {
            let message = format!(
                "{} of {} GPU nodes can be used, the others have just joined",
                self.usable, self.total
            );
            Operands::ready("NodesStarting", message)
        };
        Operands { recheck, ..ready }
    }
}

fn names(nodes: &[&NodeFacts]) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let names = names.join(", ");
    if more > 0 {
        format!("{names} and {more} more")
    } else {
        names
    }
}
