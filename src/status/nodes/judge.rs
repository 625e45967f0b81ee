//! One node: how far it has come on the way from a bare machine to GPUs that Pods can ask for, and what the first missing link is.
//!
//! Only what is observed now counts. That NVIDIA's ClusterPolicy is `ready` says nothing of a node: it is so without any GPU, while
//! a node is cordoned for its driver, and after the driver was switched off.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::NodeReason;
use super::cause::{Cause, Image, ImageTrouble};
use crate::facts::{
    DaemonSetFacts, DriverChange, FeatureLabels, MachineUpdate, NodeFacts, OperandPod, OperandPods, Part,
    PodState,
};
use crate::nodes::{IMAGE_SUFFIX, Impossible, KeptOut};
use crate::status::operands::STARTING_LIMIT;

/// How long a pull may fail while it is not known that there is no such image.
const PULL_LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// How long a node may be away, for example to start anew.
const AWAY_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// How long Gardener may take to update a machine in place: it drains the node first, for two hours if Pods refuse to go.
const UPDATE_LIMIT: SignedDuration = SignedDuration::from_hours(3);

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
    /// The first pull Secret that is not there.
    missing_secret: Option<&'a str>,
    /// NVIDIA's operator brings the driver onto the nodes.
    driver_is_managed: bool,
}

/// Why a node cannot be used, and how long that may be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Why.
    pub cause: Cause,
    /// Since when, as far as the objects tell.
    pub since: Option<Timestamp>,
    /// How long it may stay so; `None`: waiting changes nothing.
    pub limit: Option<SignedDuration>,
}

impl Finding {
    /// A reason that may pass within the time that a start takes.
    fn passing(reason: NodeReason, since: Option<Timestamp>) -> Self {
        Self {
            cause: reason.into(),
            since,
            limit: Some(STARTING_LIMIT),
        }
    }

    /// A reason that no waiting ends.
    fn lasting(reason: NodeReason) -> Self {
        Self {
            cause: reason.into(),
            since: None,
            limit: None,
        }
    }

    const fn passes(&self) -> bool {
        self.limit.is_some()
    }
}

impl<'a> Stack<'a> {
    /// `driver_is_managed`: NVIDIA's operator is told to bring the driver onto the nodes.
    pub fn of(sets: &'a [DaemonSetFacts], pods: &'a OperandPods, driver_is_managed: bool) -> Self {
        Self {
            pods,
            sets,
            missing_secret: None,
            driver_is_managed,
        }
    }

    /// With what is known of the Secrets with which its images are pulled.
    pub fn with_missing_secret(self, missing_secret: Option<&'a str>) -> Self {
        Self {
            missing_secret,
            ..self
        }
    }

    /// Why Pods cannot get the GPUs of a node; `None`: they can.
    pub fn find(&self, node: &NodeFacts, kept_out: Option<&KeptOut>) -> Option<Finding> {
        if let Some(reason) = left_out(node, kept_out) {
            return Some(Finding::lasting(reason));
        }
        let missing = node.ready.then(|| self.missing(node)).flatten();
        // NVIDIA's operator and Gardener wait for ever for what does not come.
        let lasting = missing.as_ref().is_some_and(|found| !found.passes());
        let away = !node.ready || !node.schedulable;
        match node.machine_update.filter(|_| away && !lasting) {
            Some(MachineUpdate::UnderWay) => {
                return Some(Finding {
                    limit: Some(UPDATE_LIMIT),
                    ..Finding::passing(NodeReason::NodeUpdateInProgress, None)
                });
            }
            Some(MachineUpdate::Failed) => return Some(Finding::lasting(NodeReason::NodeUpdateFailed)),
            None => {}
        }
        if !node.ready {
            return Some(Finding {
                limit: Some(AWAY_LIMIT),
                ..Finding::passing(NodeReason::NodeNotReady, Some(node.ready_since))
            });
        }
        let works = missing.is_none() && node.schedulable;
        // The labels outlive the driver that they speak of.
        match node.driver_change.filter(|_| self.driver_is_managed) {
            Some(DriverChange::Failed) if !works && !lasting => {
                Some(Finding::lasting(NodeReason::UpgradeFailed))
            }
            Some(DriverChange::UnderWay) if !works && !lasting => {
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
                self.unready(*part, &pods, not_ready(*part), node)
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
                self.unready(
                    Part::NodeFeatureDiscovery,
                    &workers,
                    NodeReason::WaitingForNFD,
                    node,
                )
            }
        }
    }

    fn driver(&self, node: &NodeFacts, pods: &[OperandPod]) -> Option<Finding> {
        if !self.driver_is_managed || node.has_own_driver {
            return None;
        }
        let drivers = pods.iter().filter(|pod| pod.part == Part::Driver);
        let for_kernel = drivers.filter(|pod| is_for_kernel(pod, &node.system.kernel));
        self.unready(Part::Driver, &for_kernel, NodeReason::DriverNotReady, node)
    }

    /// What keeps a part from being ready, by the Pods of it that are on the node; `None`: one is ready. While drivers are held there are
    /// two: the one that runs, and a newer one that waits.
    fn unready<'p>(
        &self,
        part: Part,
        pods: &(impl Iterator<Item = &'p OperandPod> + Clone),
        reason: NodeReason,
        node: &NodeFacts,
    ) -> Option<Finding> {
        if pods.clone().any(|pod| pod.state == PodState::Ready) {
            return None;
        }
        let troubled = pods.clone().find(|pod| pod.state.is_trouble());
        let Some(pod) = troubled.or_else(|| pods.clone().max_by_key(|pod| pod.since)) else {
            return Some(Finding::passing(reason, None));
        };
        let passing = Finding::passing(reason, Some(pod.since));
        Some(match &pod.state {
            PodState::ImageMissing { image, is_absent } => {
                let drivers = pod.driver.as_ref().filter(|driver| driver.image == *image);
                let trouble = if !is_absent {
                    self.missing_secret.map_or(ImageTrouble::Refused, |name| {
                        ImageTrouble::WithoutSecret(name.into())
                    })
                } else if drivers.is_some() && node.system.is_garden_linux() && !image.ends_with(IMAGE_SUFFIX)
                {
                    ImageTrouble::OfOtherSystem
                } else {
                    ImageTrouble::Absent
                };
                Finding {
                    cause: Cause {
                        reason: drivers.map_or(reason, |_| NodeReason::DriverImageMissing),
                        image: Some(Image {
                            name: Arc::clone(image),
                            trouble,
                        }),
                    },
                    limit: (!is_absent).then_some(PULL_LIMIT),
                    ..passing
                }
            }
            PodState::CrashLoop { restarts } => Finding {
                cause: if part == Part::Driver {
                    NodeReason::DriverCrashLoop.into()
                } else {
                    reason.into()
                },
                limit: (*restarts < RESTARTS_LIMIT).then_some(STARTING_LIMIT),
                ..passing
            },
            PodState::Ready | PodState::Starting | PodState::Leaving | PodState::Unschedulable => passing,
        })
    }

    fn has(&self, set: &str) -> bool {
        self.sets.iter().any(|found| found.name == set)
    }
}

/// Why NVIDIA's operator keeps off the node, or has nothing to do there.
fn left_out(node: &NodeFacts, kept_out: Option<&KeptOut>) -> Option<NodeReason> {
    match kept_out {
        Some(KeptOut::BySomebody | KeptOut::BySpec) => Some(NodeReason::Excluded),
        // A driver change that waits lets what runs go on, also where the next driver has nothing for it.
        Some(KeptOut::Impossible(_)) if node.allocatable > 0 && !node.is_kept_off() => None,
        Some(KeptOut::Impossible(why)) => Some(impossible(*why)),
        // The module's own label, which it takes off once nothing else is left to do.
        None => node.is_kept_off().then_some(NodeReason::Rejoining),
    }
}

const fn impossible(why: Impossible) -> NodeReason {
    match why {
        Impossible::ForeignOperatingSystem => NodeReason::ForeignOperatingSystem,
        Impossible::UnsupportedArchitecture => NodeReason::UnsupportedArchitecture,
        Impossible::ExcludedDriver => NodeReason::ExcludedDriver,
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
