//! GPU nodes by what is expected of them.
//!
//! A node counts by what it offers to Pods. One that offers nothing is starting, rolling, having its driver replaced, or
//! its time is up; which of these decides what a user is told.

use jiff::{SignedDuration, Timestamp};

use super::Report;
use super::operands::{Operands, STARTING_LIMIT};
use crate::api::State;
use crate::facts::{DriverChange, NodeFacts, first_few};

/// How long a driver change may take at most, however many nodes there are.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(24);

/// What is expected of a node now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Pods can get its GPUs.
    Usable,
    /// Not usable, but younger than the release and within its time: it does not count yet.
    Starting,
    /// Not usable, there when the release was made, and within its time.
    Rolling,
    /// Not usable, and waiting changes nothing: cordoned, or its time is up.
    Overdue,
    /// Its driver is being replaced: neither late nor for a user to uncordon.
    Changing,
    /// NVIDIA's operator gave up replacing its driver.
    Failed,
}

/// GPU nodes by what is expected of them.
pub struct Nodes<'a> {
    all: Vec<(&'a NodeFacts, Standing)>,
    /// Their driver is being replaced, or will be; some are usable.
    changing: usize,
}

impl<'a> Nodes<'a> {
    pub fn sort(report: &Report<'a>, since: Timestamp) -> Self {
        // The labels outlive the driver that they speak of.
        let driver_is_managed = report.desired.is_ok_and(|desired| desired.driver.is_managed());
        let change = |node: &NodeFacts| node.driver_change.filter(|_| driver_is_managed);
        let nodes = report.observed.gpu_nodes.iter();
        Self {
            all: nodes
                .clone()
                .map(|node| (node, standing(node, change(node), report.now, since)))
                .collect(),
            changing: nodes.filter(|node| is_replaced(node, change(node))).count(),
        }
    }

    fn of(&self, standing: Standing) -> Vec<&'a NodeFacts> {
        let nodes = self.all.iter().filter(|(_, found)| *found == standing);
        nodes.map(|(node, _)| *node).collect()
    }

    fn total(&self) -> usize {
        self.all.len()
    }

    fn usable(&self) -> usize {
        self.of(Standing::Usable).len()
    }

    /// The verdict where nodes alone decide it.
    pub fn judge(&self, now: Timestamp, since: Timestamp, not_ready_since: Timestamp) -> Option<Operands> {
        let (failed, overdue) = (self.of(Standing::Failed), self.of(Standing::Overdue));
        if !failed.is_empty() {
            return Some(self.stuck(&failed));
        }
        if !overdue.is_empty() {
            return Some(self.bad(&overdue));
        }
        let (usable, total) = (self.usable(), self.total());
        if self.changing > 0 {
            let message = format!(
                "the driver is being replaced node by node, {} to go; {usable} of {total} GPU nodes can be used",
                self.changing
            );
            let nodes = i32::try_from(total).unwrap_or(i32::MAX);
            let limit = not_ready_since + STARTING_LIMIT.saturating_mul(nodes).min(LONGEST_CHANGE);
            return Some(
                Operands::not(State::Processing, "DriverRollingOut", message).until(
                    now,
                    limit,
                    State::Warning,
                ),
            );
        }
        if !self.of(Standing::Rolling).is_empty() {
            let message = format!("{usable} of {total} GPU nodes can be used, the others are being set up");
            // The limit is only a recheck here: afterwards the nodes are overdue.
            return Some(Operands::not(State::Processing, "RollingOut", message).until(
                now,
                since + STARTING_LIMIT,
                State::Error,
            ));
        }
        None
    }

    fn stuck(&self, failed: &[&NodeFacts]) -> Operands {
        let message = format!(
            "the driver could not be replaced on {}, look at the driver Pods and the Pods that use GPUs there",
            names(failed)
        );
        Operands::not(self.state_of_some_unusable(), "DriverChangeFailed", message)
    }

    fn state_of_some_unusable(&self) -> State {
        if self.usable() > 0 {
            State::Warning
        } else {
            State::Error
        }
    }

    fn bad(&self, overdue: &[&NodeFacts]) -> Operands {
        let names = names(overdue);
        let cordoned = overdue.iter().all(|node| node.ready && !node.schedulable);
        let offline = overdue.iter().all(|node| !node.ready);
        let todo = if cordoned {
            "uncordon them"
        } else if offline {
            "they are not ready, look at the nodes"
        } else {
            "look at the Pods of these nodes in namespace gpu-operator"
        };
        let message = format!(
            "{} of {} GPU nodes cannot be used ({names}), {todo}",
            overdue.len(),
            self.total()
        );
        let state = if cordoned {
            State::Warning
        } else {
            self.state_of_some_unusable()
        };
        Operands::not(state, "NodesNotUsable", message)
    }

    /// True where a node has joined so lately that NVIDIA's operands may be unready for it.
    pub fn are_starting(&self) -> bool {
        !self.of(Standing::Starting).is_empty()
    }

    /// The verdict where nothing is wrong.
    pub fn good(&self) -> Operands {
        let starting = self.of(Standing::Starting);
        let recheck = starting.iter().map(|node| node.created + STARTING_LIMIT).min();
        let (usable, total) = (self.usable(), self.total());
        let ready = if total == 0 {
            Operands::ready(
                "NoGpuNodes",
                "there is no GPU node; the next one that joins is set up by itself",
            )
        } else if starting.is_empty() {
            Operands::ready("Ready", format!("all {total} GPU nodes can be used"))
        } else {
            let message = format!("{usable} of {total} GPU nodes can be used, the others have just joined");
            Operands::ready("NodesStarting", message)
        };
        Operands { recheck, ..ready }
    }
}

/// True where the driver of the node is being replaced, or will be.
fn is_replaced(node: &NodeFacts, change: Option<DriverChange>) -> bool {
    matches!(change, Some(DriverChange::Waiting | DriverChange::UnderWay)) && node.ready
}

fn standing(node: &NodeFacts, change: Option<DriverChange>, now: Timestamp, since: Timestamp) -> Standing {
    if node.is_usable() {
        Standing::Usable
    } else if change == Some(DriverChange::Failed) {
        Standing::Failed
    } else if is_replaced(node, change) {
        Standing::Changing
    } else if node.is_only_cordoned() || now >= node.created.max(since) + STARTING_LIMIT {
        // A cordon outlives any time: nothing that runs there ends it.
        Standing::Overdue
    } else if node.created > since {
        Standing::Starting
    } else {
        Standing::Rolling
    }
}

fn names(nodes: &[&NodeFacts]) -> String {
    let mut names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    first_few(names.iter())
}
