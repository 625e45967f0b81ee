//! GPU nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::catalogue::InstanceTypes;

/// A node, with an NVIDIA GPU unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each of them is a fact of its own")]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Gardener worker pool (label `worker.gardener.cloud/pool`).
    pub pool: Option<String>,
    /// Instance type (label `node.kubernetes.io/instance-type`).
    pub instance_type: Option<String>,
    /// A label or a resource tells of an NVIDIA GPU. Without, only its instance type can.
    pub shows_gpu: bool,
    /// What it runs.
    pub system: SystemFacts,
    /// What Node Feature Discovery has said of it.
    pub features: FeatureLabels,
    /// What GPU Feature Discovery has said of it.
    pub gpu: GpuLabels,
    /// Label [`OPERANDS_LABEL`], where it has one.
    pub operands: Option<OperandsLabel>,
    /// When it was created.
    pub created: Timestamp,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// Since when that condition is as it is.
    pub ready_since: Timestamp,
    /// It is about to go: being deleted, or drained for its removal by Gardener or the cluster autoscaler.
    pub leaving: bool,
    /// It takes new Pods (`spec.unschedulable` is not set).
    pub schedulable: bool,
    /// GPUs that its device plugin has announced: capacity, of the same resources.
    pub capacity: u64,
    /// GPUs that Pods can ask for now: allocatable `nvidia.com/gpu`, shared ones and MIG devices.
    pub allocatable: u64,
    /// Where NVIDIA's operator stands with replacing the driver on the node; `None`: it does not.
    pub driver_change: Option<DriverChange>,
    /// NVIDIA's operator brings no driver there: label `nvidia.com/gpu.deploy.driver` is `false`, or `pre-installed` where its driver
    /// manager has found one.
    pub has_own_driver: bool,
    /// Where Gardener stands with updating the machine in place; `None`: it does not.
    pub machine_update: Option<MachineUpdate>,
}

/// What a node runs (`status.nodeInfo`). The kernel may change in place on the same Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemFacts {
    /// Operating system with its version, for example `Garden Linux 2150.9.0`.
    pub os_image: String,
    /// Kernel release, for example `6.18.41-cloud-amd64`.
    pub kernel: String,
    /// Architecture as Go names it: `amd64` or `arm64`.
    pub architecture: String,
}

/// What `os_image` of a node with Garden Linux begins with; its version follows.
const GARDEN_LINUX: &str = "Garden Linux";

impl SystemFacts {
    /// Version of Garden Linux; `None` for another operating system.
    pub fn garden_linux(&self) -> Option<&str> {
        self.os_image.trim().strip_prefix(GARDEN_LINUX).map(str::trim)
    }

    /// True where it runs Garden Linux.
    pub fn is_garden_linux(&self) -> bool {
        self.garden_linux().is_some()
    }
}

/// The labels of Node Feature Discovery, without which NVIDIA's operator does nothing on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureLabels {
    /// Others are missing, too.
    #[default]
    Absent,
    /// Only `system-os_release.VERSION_ID` is missing: NVIDIA's operator refuses the node.
    NoVersion,
    /// Those that NVIDIA's operator needs are there.
    Complete,
}

/// The labels of GPU Feature Discovery; they tell what was really loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuLabels {
    /// Product, for example `NVIDIA-A100-SXM4-40GB` (label `nvidia.com/gpu.product`); shared GPUs end in `-SHARED`.
    pub product: Option<String>,
    /// Version of the loaded driver (label `nvidia.com/cuda.driver-version.full`).
    pub driver_version: Option<String>,
    /// Newest CUDA version that the driver supports (label `nvidia.com/cuda.runtime-version.full`).
    pub cuda_version: Option<String>,
    /// How GPUs are shared: `none`, `time-slicing` or `mps` (label `nvidia.com/gpu.sharing-strategy`).
    pub sharing_strategy: Option<String>,
    /// How many Pods share one GPU (label `nvidia.com/gpu.replicas`).
    pub replicas: Option<u32>,
}

/// Label by which NVIDIA's operator keeps off a node.
pub const OPERANDS_LABEL: &str = "nvidia.com/gpu.deploy.operands";

/// The value of [`OPERANDS_LABEL`] that does.
pub const OPERANDS_OFF: &str = "false";

/// Label by which NVIDIA's operator notes how far it has come with replacing the driver on a node.
pub const DRIVER_CHANGE_LABEL: &str = "nvidia.com/gpu-driver-upgrade-state";

/// A node's label [`OPERANDS_LABEL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandsLabel {
    /// Its value.
    pub value: String,
    /// The module set it, as the node's `managedFields` say, and nobody else did.
    pub is_ours: bool,
}

impl OperandsLabel {
    /// True where it keeps NVIDIA's operator off the node; every other value means nothing to it.
    pub fn keeps_off(&self) -> bool {
        self.value == OPERANDS_OFF
    }
}

/// A step of a driver change on one node. NVIDIA's operator changes one node after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChange {
    /// Its turn has not come; the old driver works.
    Waiting,
    /// The node is cordoned while its driver is replaced.
    UnderWay,
    /// It stopped, and the node stays cordoned until somebody helps.
    Failed,
}

impl DriverChange {
    /// Reads NVIDIA's labels.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        match labels.get(DRIVER_CHANGE_LABEL)?.as_str() {
            "" | "upgrade-done" => None,
            // A node that is kept out of driver changes waits for ever.
            "upgrade-required" => (labels
                .get("nvidia.com/gpu-driver-upgrade.skip")
                .map(String::as_str)
                != Some("true"))
            .then_some(Self::Waiting),
            "upgrade-failed" => Some(Self::Failed),
            _ => Some(Self::UnderWay),
        }
    }
}

/// An update in place by Gardener: its machine-controller-manager cordons and drains the node, and uncordons it in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineUpdate {
    /// The node is chosen for it.
    UnderWay,
    /// It did not work.
    Failed,
}

impl MachineUpdate {
    /// Reads the labels of machine-controller-manager (`pkg/apis/machine/v1alpha1`).
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Self> {
        labels.get("node.machine.sapcloud.io/selected-for-update")?;
        let result = labels.get("node.machine.sapcloud.io/update-result");
        Some(if result.is_some_and(|result| result == "failed") {
            Self::Failed
        } else {
            Self::UnderWay
        })
    }
}

/// True where the labels say that NVIDIA's operator brings no driver.
pub fn labels_tell_own_driver(labels: &BTreeMap<String, String>) -> bool {
    let label = labels.get("nvidia.com/gpu.deploy.driver").map(String::as_str);
    matches!(label, Some("false" | "pre-installed"))
}

impl NodeFacts {
    /// True for a node with an NVIDIA GPU. `more` are instance types besides those of the catalogue.
    pub fn has_gpu(&self, known: &InstanceTypes, more: &[String]) -> bool {
        let of_type = |instance_type: &String| known.contain(instance_type, more);
        self.shows_gpu || self.instance_type.as_ref().is_some_and(of_type)
    }

    /// True where NVIDIA's operator is told to keep off.
    pub fn is_kept_off(&self) -> bool {
        self.operands.as_ref().is_some_and(OperandsLabel::keeps_off)
    }

    /// True where the module has set [`OPERANDS_LABEL`].
    pub fn has_own_label(&self) -> bool {
        self.operands.as_ref().is_some_and(|label| label.is_ours)
    }
}

/// True for a resource name that stands for a GPU or a part of one.
pub fn is_gpu_resource(name: &str) -> bool {
    name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || name.starts_with("nvidia.com/mig-")
}

/// True where the labels say that the node has an NVIDIA GPU: NFD's PCI labels or NVIDIA's own.
pub fn labels_tell_gpu(labels: &BTreeMap<String, String>) -> bool {
    // The labels by which NVIDIA's operator finds GPU nodes, and the one that it sets itself.
    const LABELS: [&str; 4] = [
        "feature.node.kubernetes.io/pci-10de.present",
        "feature.node.kubernetes.io/pci-0302_10de.present",
        "feature.node.kubernetes.io/pci-0300_10de.present",
        "nvidia.com/gpu.present",
    ];
    LABELS
        .iter()
        .any(|label| labels.get(*label).is_some_and(|value| value == "true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(labels: &[(&str, &str)]) -> Option<DriverChange> {
        let owned = |(key, value): &(&str, &str)| (format!("nvidia.com/{key}"), (*value).to_owned());
        DriverChange::of(&labels.iter().map(owned).collect())
    }

    #[test]
    fn a_driver_change_is_read_from_nvidias_labels() {
        let state = |value| change(&[("gpu-driver-upgrade-state", value)]);
        assert_eq!(change(&[]), None);
        assert_eq!(state(""), None);
        assert_eq!(state("upgrade-done"), None);
        assert_eq!(state("upgrade-required"), Some(DriverChange::Waiting));
        assert_eq!(state("pod-restart-required"), Some(DriverChange::UnderWay));
        assert_eq!(state("validation-required"), Some(DriverChange::UnderWay));
        assert_eq!(state("upgrade-failed"), Some(DriverChange::Failed));
        let skipped = [
            ("gpu-driver-upgrade-state", "upgrade-required"),
            ("gpu-driver-upgrade.skip", "true"),
        ];
        assert_eq!(change(&skipped), None);
    }
}
