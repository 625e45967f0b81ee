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

/// GPU nodes by what is expected of them.
pub struct Nodes<'a> {
    total: usize,
    usable: usize,
    /// Not usable, but younger than the release and within their time: they do not count yet.
    starting: Vec<&'a NodeFacts>,
    /// Not usable, there when the release was made, and within their time.
    rolling: Vec<&'a NodeFacts>,
    /// Not usable, and waiting changes nothing: cordoned, or their time is up.
    overdue: Vec<&'a NodeFacts>,
    /// Their driver is being replaced, or will be; some are usable.
    changing: usize,
    /// NVIDIA's operator gave up replacing their driver.
    failed: Vec<&'a NodeFacts>,
}

impl<'a> Nodes<'a> {
    pub fn sort(report: &Report<'a>, since: Timestamp) -> Self {
        let all = &report.observed.gpu_nodes;
        // The labels outlive the driver that they speak of.
        let driver_is_managed = report.desired.is_ok_and(|desired| desired.driver.is_managed());
        let mut nodes = Self {
            total: all.len(),
            usable: 0,
            starting: vec![],
            rolling: vec![],
            overdue: vec![],
            changing: 0,
            failed: vec![],
        };
        for node in all {
            let change = node.driver_change.filter(|_| driver_is_managed);
            let replaced =
                matches!(change, Some(DriverChange::Waiting | DriverChange::UnderWay)) && node.ready;
            nodes.changing += usize::from(replaced);
            if node.is_usable() {
                nodes.usable += 1;
            } else if change == Some(DriverChange::Failed) {
                nodes.failed.push(node);
            } else if replaced {
                // Cordoned by NVIDIA's operator: neither late nor for a user to uncordon.
            } else if node.is_only_cordoned() || report.now >= node.created.max(since) + STARTING_LIMIT {
                // A cordon outlives any time: nothing that runs there ends it.
                nodes.overdue.push(node);
            } else if node.created > since {
                nodes.starting.push(node);
            } else {
                nodes.rolling.push(node);
            }
        }
        nodes
    }

    /// The verdict where nodes alone decide it.
    pub fn judge(&self, now: Timestamp, since: Timestamp, not_ready_since: Timestamp) -> Option<Operands> {
        if !self.failed.is_empty() {
            return Some(self.stuck());
        }
        if !self.overdue.is_empty() {
            return Some(self.bad());
        }
        if self.changing > 0 {
            let message = format!(
                "the driver is being replaced node by node, {} to go; {} of {} GPU nodes can be used",
                self.changing, self.usable, self.total
            );
            let nodes = i32::try_from(self.total).unwrap_or(i32::MAX);
            let limit = not_ready_since + STARTING_LIMIT.saturating_mul(nodes).min(LONGEST_CHANGE);
            return Some(
                Operands::not(State::Processing, "DriverRollingOut", message).until(
                    now,
                    limit,
                    State::Warning,
                ),
            );
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

    fn stuck(&self) -> Operands {
        let message = format!(
            "the driver could not be replaced on {}, look at the driver Pods and the Pods that use GPUs there",
            names(&self.failed)
        );
        Operands::not(self.state_of_some_unusable(), "DriverChangeFailed", message)
    }

    fn state_of_some_unusable(&self) -> State {
        if self.usable > 0 {
            State::Warning
        } else {
            State::Error
        }
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
        let state = if cordoned {
            State::Warning
        } else {
            self.state_of_some_unusable()
        };
        Operands::not(state, "NodesNotUsable", message)
    }

    /// True where a node has joined so lately that NVIDIA's operands may be unready for it.
    pub fn are_starting(&self) -> bool {
        !self.starting.is_empty()
    }

    /// The verdict where nothing is wrong.
    pub fn good(&self) -> Operands {
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
    let mut names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    first_few(names.iter())
}
