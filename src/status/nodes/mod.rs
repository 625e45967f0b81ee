//! GPU nodes by what is expected of them.
//!
//! `judge` finds what is missing on each; here that is measured against the time that it may take, and all nodes together become
//! one verdict. What of it a user is told of each worker pool is in `pools`.

mod judge;
mod pools;
mod reason;
mod words;

use jiff::{SignedDuration, Timestamp};

use super::Report;
use super::operands::{Operands, STARTING_LIMIT};
use crate::api::{DriverMode, State};
use crate::desired::Desired;
use crate::facts::{DriverChange, NodeFacts, OperandPods};
use crate::nodes::Support;
use judge::{Finding, Stack};

pub use reason::{Affair, NodeReason};

#[cfg(test)]
mod tests;

/// How long a driver change may take at most, however many nodes there are.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(24);

/// What is expected of a node now.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// Pods can get its GPUs.
    Usable,
    /// Its machine is being removed: it counts no more.
    Leaving,
    /// Somebody wants it to take no part: it does not count.
    Excluded,
    /// Not usable, but younger than the release and within its time: it does not count yet.
    Starting { until: Timestamp },
    /// Not usable, and within its time.
    Rolling { until: Timestamp, why: Finding },
    /// Its driver is being replaced: neither late nor for a user to uncordon.
    Changing,
    /// Not usable, and waiting changes nothing, or its time is up.
    Lost(Finding),
}

/// A node with all that is known of it.
struct Judged<'a> {
    node: &'a NodeFacts,
    standing: Standing,
    support: Support,
    /// Its driver is being replaced or will be, also where the old one still works.
    is_changing: bool,
}

/// GPU nodes by what is expected of them.
pub struct Nodes<'a> {
    all: Vec<Judged<'a>>,
    desired: Option<&'a Desired>,
    pods: Option<&'a OperandPods>,
    is_installed: bool,
}

impl<'a> Nodes<'a> {
    /// `since`: when the release last changed; `not_ready_since`: since when not all was ready.
    pub fn sort(report: &Report<'a>, since: Timestamp, not_ready_since: Timestamp) -> Self {
        let observed = report.observed;
        let none = OperandPods::default();
        let desired = report.desired.ok();
        // The labels outlive the driver that they speak of.
        let managed =
            super::effective_driver(report).is_some_and(|driver| driver.mode == DriverMode::Precompiled);
        // What the Pods would tell is not asked for where they cannot be seen.
        let stack = match &observed.operand_pods {
            Some(pods) => Stack::of(&observed.daemon_sets, pods, managed),
            None => Stack::of(&[], &none, managed),
        };
        let judged = |node: &'a NodeFacts| {
            let verdict = report.rules.judge(node);
            let change = node.driver_change.filter(|_| managed);
            let standing = match stack.find(node, verdict.kept_out.as_ref()) {
                _ if node.leaving => Standing::Leaving,
                Some(found) if found.reason == NodeReason::Excluded => Standing::Excluded,
                None => Standing::Usable,
                Some(found) => standing(node, found, report.now, since, not_ready_since),
            };
            Judged {
                node,
                support: verdict.support,
                is_changing: !matches!(standing, Standing::Leaving | Standing::Excluded)
                    && node.ready
                    && matches!(change, Some(DriverChange::Waiting | DriverChange::UnderWay)),
                standing,
            }
        };
        Self {
            all: observed.gpu_nodes.iter().map(judged).collect(),
            desired,
            pods: observed.operand_pods.as_ref(),
            is_installed: observed.release.latest().is_some(),
        }
    }

    fn count(&self, counts: impl Fn(&Standing) -> bool) -> usize {
        self.all.iter().filter(|judged| counts(&judged.standing)).count()
    }

    /// Nodes that are there to stay and take part.
    pub fn total(&self) -> usize {
        self.count(|standing| !matches!(standing, Standing::Leaving | Standing::Excluded))
    }

    /// Those of them whose GPUs Pods can get.
    pub fn usable(&self) -> usize {
        self.count(|standing| *standing == Standing::Usable)
    }

    /// The verdict where nodes alone decide it.
    pub fn judge(&self, now: Timestamp, not_ready_since: Timestamp) -> Option<Operands> {
        let judged = if self.count(|standing| matches!(standing, Standing::Lost(_))) > 0 {
            self.lost()
        } else if self.all.iter().any(|judged| judged.is_changing) {
            self.changing(now, not_ready_since)
        } else if self.count(|standing| matches!(standing, Standing::Rolling { .. })) > 0 {
            let message = self.rolling_words();
            Operands::not(State::Processing, "RollingOut", message)
        } else {
            return None;
        };
        Some(self.rechecked(judged))
    }

    fn lost(&self) -> Operands {
        let lost = || {
            self.all.iter().filter_map(|judged| match &judged.standing {
                Standing::Lost(found) => Some(found.reason),
                _ => None,
            })
        };
        let mut reasons = lost();
        let first = reasons
            .next()
            .filter(|first| reasons.all(|other| other == *first));
        let is_technical = lost().all(|reason| reason.affair() == Affair::Technical);
        let state = if self.usable() == 0 && is_technical {
            State::Error
        } else {
            State::Warning
        };
        let reason = first.map_or("NodesNotUsable", NodeReason::as_str);
        Operands::not(state, reason, self.lost_words())
    }

    fn changing(&self, now: Timestamp, not_ready_since: Timestamp) -> Operands {
        let nodes = i32::try_from(self.total()).unwrap_or(i32::MAX);
        let limit = not_ready_since + STARTING_LIMIT.saturating_mul(nodes).min(LONGEST_CHANGE);
        Operands::not(State::Processing, "DriverRollingOut", self.changing_words()).until(
            now,
            limit,
            State::Warning,
        )
    }

    /// True where a node has joined so lately that NVIDIA's operands may be unready for it.
    pub fn are_starting(&self) -> bool {
        self.count(|standing| matches!(standing, Standing::Starting { .. })) > 0
    }

    /// The verdict where nothing is wrong.
    pub fn good(&self) -> Operands {
        let (usable, total) = (self.usable(), self.total());
        let ready = if total == 0 && self.count(|standing| *standing == Standing::Excluded) > 0 {
            Operands::ready(
                "NoGpuNodes",
                "all GPU nodes are left out by spec.nodes or by their labels",
            )
        } else if total == 0 {
            Operands::ready(
                "NoGpuNodes",
                "there is no GPU node; the next one that joins is set up by itself",
            )
        } else if usable == total {
            Operands::ready("Ready", format!("all {total} GPU nodes can be used"))
        } else {
            let message = format!("{usable} of {total} GPU nodes can be used, the others have just joined");
            Operands::ready("NodesStarting", message)
        };
        self.rechecked(ready)
    }

    /// The verdict with the next time at which a node's is up.
    fn rechecked(&self, operands: Operands) -> Operands {
        let times = self.all.iter().filter_map(|judged| match judged.standing {
            Standing::Starting { until } | Standing::Rolling { until, .. } => Some(until),
            _ => None,
        });
        Operands {
            recheck: times.chain(operands.recheck).min(),
            ..operands
        }
    }
}

fn standing(
    node: &NodeFacts,
    found: Finding,
    now: Timestamp,
    since: Timestamp,
    not_ready_since: Timestamp,
) -> Standing {
    if found.reason == NodeReason::UpgradeInProgress {
        return Standing::Changing;
    }
    let Some(limit) = found.limit else {
        return Standing::Lost(found);
    };
    let start = node.created + STARTING_LIMIT;
    if node.created > since && now < start {
        return Standing::Starting { until: start };
    }
    // A node that has announced GPUs was usable before, and of what is missing altogether nothing tells since when.
    let lost = found
        .since
        .or_else(|| (node.capacity > 0).then_some(not_ready_since));
    let begin = node.created.max(since);
    let until = lost.map_or(begin, |lost| lost.max(begin)) + limit;
    if now < until {
        Standing::Rolling { until, why: found }
    } else {
        Standing::Lost(found)
    }
}
