//! One node: how far it has come on the way from a bare machine to GPUs that Pods can ask for, and what the first missing link is.
//!
//! Only what is observed now counts. That NVIDIA's ClusterPolicy is `ready` says nothing of a node: it is so without any GPU, while
//! a node is cordoned for its driver, and after the driver was switched off.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::NodeReason;
use crate::facts::{
    DaemonSetFacts, DriverChange, FeatureLabels, NodeFacts, OperandPod, OperandPods, Part, PodState,
};
use crate::nodes::{Impossible, KeptOut};
use crate::status::operands::STARTING_LIMIT;

/// How long a pull may fail while it is not known that there is no such image.
const PULL_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// How long a node may be away, for example to start anew.
const AWAY_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// From so many restarts on waiting changes nothing: with the kubelet's pauses they take some minutes.
const RESTARTS_LIMIT: u32 = 4;

/// NVIDIA's DaemonSets by the part that they are. Drivers have one for each kernel.
const SETS: [(&str, Part); 3] = [
    ("nvidia-container-toolkit-daemonset", Part::Toolkit),
    ("nvidia-device-plugin-daemonset", Part::DevicePlugin),
    ("nvidia-operator-validator", Part::Validator),
];

/// What the stack consists of, and where it runs.
#[derive(Debug)]
pub struct Stack<'a> {
    pods: &'a OperandPods,
    sets: &'a [DaemonSetFacts],
    /// NVIDIA's operator brings the driver onto the nodes.
    driver_is_managed: bool,
    has_driver_sets: bool,
}

/// Why a node cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The first missing link.
    pub reason: NodeReason,
    /// The image that cannot be pulled, where that is why.
    pub image: Option<Arc<str>>,
    /// Since when, as far as the objects tell.
    pub since: Option<Timestamp>,
    /// How long it may stay so; `None`: waiting changes nothing.
    pub limit: Option<SignedDuration>,
}

impl Finding {
    /// A reason that may pass within the time that a start takes.
    const fn passing(reason: NodeReason, since: Option<Timestamp>) -> Self {
        Self {
            reason,
            image: None,
            since,
            limit: Some(STARTING_LIMIT),
        }
    }

    /// A reason that no waiting ends.
    const fn lasting(reason: NodeReason) -> Self {
        Self {
            reason,
            image: None,
            since: None,
            limit: None,
        }
    }
}

impl<'a> Stack<'a> {
    /// `driver_is_managed`: NVIDIA's operator is told to bring the driver onto the nodes.
    pub fn of(sets: &'a [DaemonSetFacts], pods: &'a OperandPods, driver_is_managed: bool) -> Self {
        Self {
            pods,
            sets,
            driver_is_managed,
            has_driver_sets: sets.iter().any(|set| set.driver.is_some()),
        }
    }

    /// Why Pods cannot get the GPUs of a node; `None`: they can.
    pub fn find(&self, node: &NodeFacts, kept_out: Option<&KeptOut>) -> Option<Finding> {
        if let Some(why) = kept_out {
            return Some(Finding::lasting(out(why)));
        }
        if !node.ready {
            return Some(Finding {
                limit: Some(AWAY_LIMIT),
                ..Finding::passing(NodeReason::NodeNotReady, Some(node.ready_since))
            });
        }
        let missing = self.missing(node);
        // The labels outlive the driver that they speak of.
        match node.driver_change.filter(|_| self.driver_is_managed) {
            // NVIDIA's operator waits for ever for an image that is not there.
            _ if missing
                .as_ref()
                .is_some_and(|found| found.reason == NodeReason::DriverImageMissing) =>
            {
                missing
            }
            Some(DriverChange::Failed) => Some(Finding::lasting(NodeReason::UpgradeFailed)),
            Some(DriverChange::UnderWay | DriverChange::Waiting)
                if missing.as_ref().is_some_and(|found| found.limit.is_some()) =>
            {
                Some(Finding::passing(NodeReason::UpgradeInProgress, None))
            }
            Some(DriverChange::UnderWay) if missing.is_none() && !node.schedulable => {
                Some(Finding::passing(NodeReason::UpgradeInProgress, None))
            }
            _ => missing.or_else(|| {
                // A cordon outlives any time: nothing that runs there ends it.
                (!node.schedulable).then(|| Finding::lasting(NodeReason::Cordoned))
            }),
        }
    }

    /// The first link that is missing on a node that is there.
    fn missing(&self, node: &NodeFacts) -> Option<Finding> {
        let pods = self.pods.on(&node.name);
        let driver = || self.driver(node, pods);
        let others = || {
            let mut others = SETS.iter().filter(|(name, _)| self.has(name));
            others.find_map(|(_, part)| {
                let pods = pods.iter().filter(|pod| pod.part == *part);
                unready(*part, &pods, not_ready(*part))
            })
        };
        // The device plugin may have been ready for days: a kubelet that starts anew announces none until it has registered again.
        let nothing_announced =
            || (node.allocatable == 0).then(|| Finding::passing(NodeReason::NoAllocatableGpu, None));
        let found = driver().or_else(others).or_else(nothing_announced)?;
        // Without labels NVIDIA's operator puts no Pod there, so they are what is missing first.
        if pods.iter().any(|pod| pod.part != Part::NodeFeatureDiscovery) {
            return Some(found);
        }
        match node.features {
            FeatureLabels::Complete => Some(found),
            FeatureLabels::NoVersion => Some(Finding::passing(NodeReason::MissingVersionLabel, None)),
            FeatureLabels::Absent => {
                let workers = pods.iter();
                unready(Part::NodeFeatureDiscovery, &workers, NodeReason::WaitingForNFD)
            }
        }
    }

    fn driver(&self, node: &NodeFacts, pods: &[OperandPod]) -> Option<Finding> {
        // Where there is no DaemonSet of a driver, GPUs that are announced have one of their own.
        if !self.driver_is_managed || (!self.has_driver_sets && node.allocatable > 0) {
            return None;
        }
        let drivers = pods.iter().filter(|pod| pod.part == Part::Driver);
        let for_kernel = drivers.filter(|pod| is_for_kernel(pod, &node.system.kernel));
        unready(Part::Driver, &for_kernel, NodeReason::DriverNotReady)
    }

    fn has(&self, set: &str) -> bool {
        self.sets.iter().any(|found| found.name == set)
    }
}

const fn out(why: &KeptOut) -> NodeReason {
    match why {
        KeptOut::BySomebody | KeptOut::BySpec => NodeReason::Excluded,
        KeptOut::Impossible(Impossible::ForeignOperatingSystem { .. }) => NodeReason::ForeignOperatingSystem,
        KeptOut::Impossible(Impossible::UnsupportedArchitecture { .. }) => {
            NodeReason::UnsupportedArchitecture
        }
        KeptOut::Impossible(Impossible::ExcludedDriver { .. }) => NodeReason::ExcludedDriver,
    }
}

const fn not_ready(part: Part) -> NodeReason {
    match part {
        Part::NodeFeatureDiscovery => NodeReason::WaitingForNFD,
        Part::Driver => NodeReason::DriverNotReady,
        Part::Toolkit => NodeReason::ToolkitNotReady,
        Part::DevicePlugin => NodeReason::DevicePluginNotReady,
        Part::Validator => NodeReason::ValidatorNotReady,
    }
}

/// True for a driver that can be loaded into that kernel. The kernel of a node may change while its Pod still is of the one before.
fn is_for_kernel(pod: &OperandPod, kernel: &str) -> bool {
    let of_pod = pod.driver.as_ref().and_then(|driver| driver.kernel.as_deref());
    of_pod.is_none_or(|of_pod| of_pod == kernel)
}

/// What keeps a part from being ready, by the Pods of it that are on the node; `None`: one is ready. While drivers are held there are
/// two: the one that runs, and a newer one that waits.
fn unready<'p>(
    part: Part,
    pods: &(impl Iterator<Item = &'p OperandPod> + Clone),
    reason: NodeReason,
) -> Option<Finding> {
    if pods.clone().any(|pod| pod.state == PodState::Ready) {
        return None;
    }
    let troubled = pods.clone().find(|pod| pod.state.is_trouble());
    let Some(pod) = troubled.or_else(|| pods.clone().max_by_key(|pod| pod.since)) else {
        return Some(Finding::passing(reason, None));
    };
    let passing = Finding::passing(reason, Some(pod.since));
    let is_driver = part == Part::Driver;
    Some(match &pod.state {
        PodState::ImageMissing { image, is_absent } => Finding {
            reason: if is_driver {
                NodeReason::DriverImageMissing
            } else {
                reason
            },
            image: Some(Arc::clone(image)),
            limit: (!is_absent).then_some(PULL_LIMIT),
            ..passing
        },
        PodState::CrashLoop { restarts } => Finding {
            reason: if is_driver {
                NodeReason::DriverCrashLoop
            } else {
                reason
            },
            limit: (*restarts < RESTARTS_LIMIT).then_some(STARTING_LIMIT),
            ..passing
        },
        PodState::Ready | PodState::Starting | PodState::Leaving | PodState::Unschedulable => passing,
    })
}
