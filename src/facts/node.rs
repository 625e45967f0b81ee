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
    /// Where NVIDIA's operator stands with replacing the driver on the node; `None`: it does not.
    pub driver_change: Option<DriverChange>,
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
        match labels.get("nvidia.com/gpu-driver-upgrade-state")?.as_str() {
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

impl NodeFacts {
    /// True where a Pod can get a GPU on this node now.
    pub const fn is_usable(&self) -> bool {
        self.ready && self.schedulable && self.allocatable > 0
    }

    /// True where its GPUs work and only a cordon keeps Pods away.
    pub const fn is_only_cordoned(&self) -> bool {
        self.ready && !self.schedulable && self.allocatable > 0
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
