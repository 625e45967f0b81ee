//! GPU nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A node with an NVIDIA GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Gardener worker pool (label `worker.gardener.cloud/pool`).
    pub pool: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// It takes new Pods (`spec.unschedulable` is not set).
    pub schedulable: bool,
    /// GPUs that Pods can ask for now: allocatable `nvidia.com/gpu`, shared ones and MIG devices.
    pub allocatable: u64,
}

impl NodeFacts {
    /// True where a Pod can get a GPU on this node now.
    pub const fn is_usable(&self) -> bool {
        self.ready && self.schedulable && self.allocatable > 0
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

/// True where the instance type is one of those with NVIDIA GPUs.
pub fn instance_type_matches(instance_type: &str, prefixes: &[String]) -> bool {
    prefixes
        .iter()
        .any(|prefix| instance_type.starts_with(prefix.as_str()))
}
