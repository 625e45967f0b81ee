//! GPU nodes by what is expected of them.
//!
//! `judge` finds what is missing on each; here that is measured against the time that it may take, and all nodes together become
//! one verdict. What of it a user is told of each worker pool is in `pools`.

mod cause;
mod judge;
mod pools;
mod reason;
mod standing;
mod words;

use jiff::{SignedDuration, Timestamp};

use super::Report;
use super::operands::{Operands, STARTING_LIMIT};
use super::sightings::Sighted;
use crate::api::{DriverMode, State};
use crate::desired::Desired;
use crate::facts::{DriverChange, NodeFacts, OperandPods};
use crate::nodes::Support;
use judge::Stack;
use standing::{Standing, Times, standing};

pub use reason::{Affair, NodeReason};

#[cfg(test)]
mod tests;

/// How long a driver change may take at most, however many nodes there are.
const LONGEST_CHANGE: SignedDuration = SignedDuration::from_hours(24);

/// How long NVIDIA's operator may take to say of itself that all is ready once a node that has joined is.
const CATCH_UP: SignedDuration = SignedDuration::from_mins(1);

/// A node with all that is known of it.
struct Judged<'a> {
    node: &'a NodeFacts,
    standing: Standing,
    support: Support,
    /// What NVIDIA's operator says of replacing its driver, where it has one from there.
    change: Option<DriverChange>,
    /// Its driver is being replaced or will be, also where the old one still works.
    is_changing: bool,
    /// It has joined and become usable so lately that NVIDIA's operator may not have noticed until then.
    settles: Option<Timestamp>,
}

/// GPU nodes by what is expected of them.
pub struct Nodes<'a> {
    all: Vec<Judged<'a>>,
    desired: Option<&'a Desired>,
    pods: Option<&'a OperandPods>,
    is_installed: bool,
}

impl<'a> Nodes<'a> {
    /// Judges every GPU node.
    pub fn sort(report: &Report<'a>, sighted: &mut Sighted<'_>) -> Self {
        let observed = report.observed;
        let times = Times::of(report);
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
        let missing = observed.missing_pull_secrets.as_ref();
        let stack = stack.with_missing_secret(missing.and_then(|names| names.first()).map(String::as_str));
        let mut judged = |node: &'a NodeFacts| {
            let verdict = report.rules.judge(node);
            let change = node.driver_change.filter(|_| managed);
            let standing = match stack.find(node, verdict.kept_out.as_ref()) {
                _ if node.leaving => Standing::Leaving,
                Some(found) if matches!(found.cause.reason, NodeReason::Excluded | NodeReason::Rejoining) => {
                    Standing::Excluded(found.cause.reason)
                }
                None => Standing::Usable,
                Some(found) => standing(node, found, times, sighted),
            };
            let pods = observed.operand_pods.as_ref().map(|pods| pods.on(&node.name));
            let settled = pods.into_iter().flatten().map(|pod| pod.since + CATCH_UP).max();
            let has_joined = standing == Standing::Usable && node.created > times.installed;
            Judged {
                node,
                support: verdict.support,
                settles: settled.filter(|settled| has_joined && report.now < *settled),
                change,
                is_changing: !matches!(standing, Standing::Leaving | Standing::Excluded(_))
                    && node.ready
                    && matches!(change, Some(DriverChange::Waiting | DriverChange::UnderWay)),
                standing,
            }
        };
        Self {
            all: observed.gpu_nodes.iter().map(&mut judged).collect(),
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
        self.count(Standing::counts)
    }

    /// Those of them whose GPUs Pods can get.
    pub fn usable(&self) -> usize {
        self.count(|standing| *standing == Standing::Usable)
    }

    /// Those of them for which there can be a driver.
    fn with_driver(&self) -> usize {
        self.total()
            - self
                .count(|standing| matches!(standing, Standing::Lost(why) if why.cause.reason.is_impossible()))
    }

    /// Nodes whose driver is being replaced or will be.
    fn changes(&self) -> impl Iterator<Item = &Judged<'a>> {
        self.all.iter().filter(|judged| judged.is_changing)
    }

    /// The verdict where nodes alone decide it. `since`: when the release last changed.
    pub fn judge(&self, now: Timestamp, since: Timestamp, sighted: &mut Sighted<'_>) -> Option<Operands> {
        let judged = if self.count(|standing| matches!(standing, Standing::Lost(_))) > 0 {
            self.lost()
        } else if self.changes().next().is_some() {
            self.changing(now, since, sighted)
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
                Standing::Lost(found) => Some(&found.cause),
                _ => None,
            })
        };
        let mut reasons = lost().map(|cause| cause.reason);
        let first = reasons
            .next()
            .filter(|first| reasons.all(|other| other == *first));
        let is_technical = lost().all(|cause| cause.affair() == Affair::Technical);
        let hopeful = |standing: &Standing| {
            !matches!(
                standing,
                Standing::Leaving | Standing::Excluded(_) | Standing::Lost(_)
            )
        };
        let state = if self.count(hopeful) == 0 && is_technical {
            State::Error
        } else {
            State::Warning
        };
        let reason = first.map_or("NodesNotUsable", NodeReason::as_str);
        let mut words = self.lost_words();
        if self.changes().next().is_some() {
            words = format!("{words}; {}", self.changing_words());
        }
        Operands::not(state, reason, words)
    }

    fn changing(&self, now: Timestamp, since: Timestamp, sighted: &mut Sighted<'_>) -> Operands {
        let reason = NodeReason::UpgradeInProgress.as_str();
        let begun = self
            .changes()
            .map(|judged| sighted.since(&judged.node.uid, reason))
            .min();
        let nodes = i32::try_from(self.with_driver()).unwrap_or(i32::MAX);
        let limit = STARTING_LIMIT.saturating_mul(nodes).min(LONGEST_CHANGE);
        Operands::not(State::Processing, "DriverRollingOut", self.changing_words()).until(
            now,
            begun.map_or(since, |begun| begun.max(since)) + limit,
            State::Warning,
        )
    }

    /// True where a node has joined so lately that NVIDIA's operands may be unready for it.
    pub fn are_starting(&self) -> bool {
        self.all
            .iter()
            .any(|judged| judged.settles.is_some() || matches!(judged.standing, Standing::Starting { .. }))
    }

    /// The verdict where nothing is wrong.
    pub fn good(&self) -> Operands {
        let (usable, total) = (self.usable(), self.total());
        let ready = if total == 0 && self.count(|standing| matches!(standing, Standing::Excluded(_))) > 0 {
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
            let message = if total == 1 {
                "the one GPU node can be used".to_owned()
            } else {
                format!("all {total} GPU nodes can be used")
            };
            Operands::ready("Ready", message)
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
            _ => judged.settles,
        });
        Operands {
            recheck: times.chain(operands.recheck).min(),
            ..operands
        }
    }
}
