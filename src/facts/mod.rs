//! What the operator knows of the cluster: small plain structs, reduced from the objects that it watches.
//!
//! Facts hold only what a decision or the status needs, so an object's heartbeat leaves them equal and causes no
//! reconcile. No I/O and no clock here.

mod existing;
mod few;
#[cfg(test)]
pub(crate) mod fixtures;
mod left;
mod neighbour;
mod node;
mod pod;
mod release;
mod removal;
mod stack;
mod time;
mod window;
mod work;

pub use existing::{ExistingContent, ExistingRelease};
pub use few::{first, first_few};
pub use left::{AllLeft, InstanceKind, Leavings, Left, Leftover, Remedy};
pub use neighbour::{DaemonSetRole, Neighbour, NeighbourKind};
pub use node::{
    DRIVER_CHANGE_LABEL, DriverChange, FeatureLabels, GpuLabels, MachineUpdate, NodeFacts, OPERANDS_LABEL,
    OPERANDS_OFF, OperandsLabel, SystemFacts, is_gpu_resource, labels_tell_gpu, labels_tell_own_driver,
};
pub use pod::{DriverPod, OperandPod, OperandPods, Part, PodState};
pub use release::{History, Revision};
pub use removal::{MOST_NOTED, NodeIds, Removal};
pub use stack::{
    CrdFacts, DaemonSetFacts, Departure, DriverFacts, DriverImage, HelmOwner, HoldCause, NamespaceHold,
    PolicyFacts, SurroundingNamespace, Surroundings,
};
pub use time::told;
pub use window::{MaintenanceWindow, WindowError, WindowFacts};
pub use work::{GpuPod, PodList, WorkFacts};

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use semver::Version;

use crate::catalogue::MinorVersion;
use crate::desired::DriverId;
use crate::drift::{Mark, ObjectRef};

/// What is known of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseFacts {
    /// The operator may not read release Secrets yet: the RoleBinding in the release's namespace is missing.
    Unreadable,
    /// Every revision that Helm has of the release.
    Read(History),
}

impl ReleaseFacts {
    /// The newest revision, where there is one that may be read.
    pub fn latest(&self) -> Option<&Revision> {
        match self {
            Self::Unreadable => None,
            Self::Read(history) => history.latest(),
        }
    }
}

/// What a real comparison through Helm found out about a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// UID of the Secret of the revision that was read.
    pub uid: String,
    /// What is in it; `None` where its Secret is there and Helm cannot decode it.
    pub content: Option<RevisionContent>,
}

/// What Helm has stored of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionContent {
    /// Its chart version.
    pub chart_version: Version,
    /// SHA-256 of its values, comparable to [`crate::desired::Desired::values_digest`].
    pub values_digest: String,
    /// What it makes of the driver.
    pub driver: DriverId,
    /// Whether its values keep NVIDIA's operator from replacing running drivers.
    pub holds_drivers: bool,
}

/// Objects that failed upgrades have left behind beside a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphans {
    /// UID of the Secret of the revision that runs.
    pub of: String,
    /// What it does not have.
    pub objects: Vec<Orphan>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The object.
    pub object: ObjectRef,
    /// Its UID when it was found.
    pub uid: String,
}

/// What a watch sees of an object of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is none, or it has lost the marks by which Helm knows it.
    Absent,
    /// It is there.
    Marked(Mark),
}

/// Everything observed in one pass.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Kinds that the operator cannot read: nothing that is said of them could be true, and nothing may be done on its grounds.
    pub unread: Vec<&'static str>,
    /// The release.
    pub release: ReleaseFacts,
    /// The last comparison through Helm, whatever revision it was of.
    pub comparison: Option<Comparison>,
    /// A release that the module did not make, where a decision asked for it.
    pub existing: Option<Arc<ExistingRelease>>,
    /// Live reads around the release; only there when a decision asked for them.
    pub surroundings: Option<Surroundings>,
    /// Pods that use GPUs; only there when a decision asked for them.
    pub gpu_work: Option<WorkFacts>,
    /// Nodes whose driver is being replaced; only there when a decision asked for them.
    pub driver_upgrades: Option<NodeIds>,
    /// Whether there is a GPUCluster; only there when a decision asked for it.
    pub gpu_clusters: Option<bool>,
    /// What is left to be taken away; only there of what a decision asked for.
    pub left: AllLeft,
    /// The maintenance window; only there when a decision asked for it.
    pub maintenance: Option<WindowFacts>,
    /// All nodes with an NVIDIA GPU.
    pub gpu_nodes: Vec<NodeFacts>,
    /// Worker pools that have nodes and no GPU node, and when the first of these nodes was created.
    pub pools_without_gpu: BTreeMap<String, Timestamp>,
    /// Nodes that count as such no longer and still have the module's label.
    pub former_gpu_nodes: Vec<NodeFacts>,
    /// Pods of NVIDIA's stack in the release's namespace; `None` while the operator has no right to see them.
    pub operand_pods: Option<OperandPods>,
    /// Which of the Secrets that `spec.images.pullSecrets` names are not there; only there where images may not be pulled.
    pub missing_pull_secrets: Option<Vec<String>>,
    /// All ClusterPolicies.
    pub policies: Vec<PolicyFacts>,
    /// All NVIDIADrivers.
    pub drivers: Vec<DriverFacts>,
    /// DaemonSets of NVIDIA's operator and of NFD in the release's namespace.
    pub daemon_sets: Vec<DaemonSetFacts>,
    /// What others run in the cluster that does the work of a part of the release.
    pub neighbours: Vec<Neighbour>,
    /// NVIDIA's controller: all of its Pods are of the newest spec and available.
    pub controller_runs: bool,
    /// Every CRD of the cluster by name.
    pub crds: BTreeMap<String, CrdFacts>,
    /// Objects of the release by what a watch of their metadata sees; those that no watch has told of yet are left out.
    pub objects: BTreeMap<ObjectRef, Seen>,
    /// Version of the API server.
    pub kubernetes: MinorVersion,
}

impl Observed {
    /// What nothing was left of. Of all else it has to be read again whether it has gone.
    pub fn take_cleared(&mut self) -> AllLeft {
        let mut left = std::mem::take(&mut self.left);
        left.retain(|_, left| left.objects.is_empty());
        left
    }

    /// True where the stack lacks an image that may be there. Of NVIDIA's controller nobody sees why it does not run.
    pub fn may_lack_images(&self) -> bool {
        let mut pods = self.operand_pods.iter().flat_map(OperandPods::iter);
        let is_installed = self.release.latest().is_some();
        is_installed && (!self.controller_runs || pods.any(|pod| pod.state.is_refused_image()))
    }

    /// True where it is known which nodes there are.
    pub fn nodes_are_read(&self) -> bool {
        !self.unread.contains(&"Nodes")
    }

    /// GPU nodes that NVIDIA's operator is not told to keep off: those on which a change of the driver interrupts what runs.
    pub fn nodes_in_reach(&self) -> impl Iterator<Item = &NodeFacts> {
        self.gpu_nodes.iter().filter(|node| !node.is_kept_off())
    }
}
