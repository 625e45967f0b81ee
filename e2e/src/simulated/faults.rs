//! What can be told to go wrong, while the simulated operator runs.
//!
//! Every fault is one that a real cluster shows: the Pods, nodes and statuses then look as NVIDIA's
//! stack and a kubelet leave them. Taking a fault back heals what it broke.

use std::collections::BTreeSet;

/// Where a fault strikes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Where {
    /// On no node.
    #[default]
    Nowhere,
    /// On every node.
    Everywhere,
    /// On the named nodes.
    Nodes(BTreeSet<String>),
}

impl Where {
    /// The named nodes.
    pub fn nodes<const N: usize>(names: [&str; N]) -> Self {
        Self::Nodes(names.into_iter().map(str::to_owned).collect())
    }

    /// Whether the fault strikes on this node.
    pub fn strikes(&self, node: &str) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Everywhere => true,
            Self::Nodes(names) => names.contains(node),
        }
    }
}

/// The faults in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Driver images that the registry lacks: any whose reference contains one of these texts, such
    /// as a kernel (`6.18.50-cloud-amd64`) or branch and kernel (`:570-6.18.50`).
    pub missing_images: BTreeSet<String>,
    /// The driver container exits again and again.
    pub driver_crash_loop: Where,
    /// The toolkit's Pod runs and never becomes ready.
    pub toolkit_not_ready: Where,
    /// The device plugin's Pod runs and never becomes ready.
    pub device_plugin_not_ready: Where,
    /// All Pods are ready, yet the kubelet announces no GPU.
    pub gpus_not_allocatable: Where,
    /// NVIDIA's controller does nothing any more; what it made goes on working.
    pub operator_dead: bool,
    /// The API server refuses privileged DaemonSets.
    pub privileged_refused: bool,
    /// ClusterPolicy never gets a status.
    pub no_cluster_policy_status: bool,
}

impl Faults {
    /// Whether the registry lacks this driver image.
    ///
    /// The Garden Linux repository holds images for Garden Linux only, so a tag that names another
    /// system is missing there without any fault.
    pub fn lacks_image(&self, image: &str) -> bool {
        let foreign = image.contains("gardenlinux-nvidia-installer") && !image.ends_with("-gardenlinux0");
        foreign
            || self
                .missing_images
                .iter()
                .any(|text| image.contains(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_where_it_is_told_to() {
        assert!(!Where::Nowhere.strikes("gpu-0"));
        assert!(Where::Everywhere.strikes("gpu-0"));
        assert!(Where::nodes(["gpu-0"]).strikes("gpu-0"));
        assert!(!Where::nodes(["gpu-0"]).strikes("gpu-1"));
    }

    #[test]
    fn an_image_for_another_system_is_missing_without_a_fault() {
        let repository = "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver";
        let faults = Faults::default();
        assert!(faults.lacks_image(&format!("{repository}:590-6.12.47-cloud-amd64-ubuntu24.04")));
        assert!(!faults.lacks_image(&format!("{repository}:590-6.12.47-cloud-amd64-gardenlinux0")));
    }

    #[test]
    fn a_missing_kernel_hits_its_own_images_only() {
        let faults = Faults {
            missing_images: BTreeSet::from(["6.18.50-cloud-amd64".to_owned()]),
            ..Faults::default()
        };
        assert!(faults.lacks_image("r/driver:580-6.18.50-cloud-amd64-gardenlinux0"));
        assert!(!faults.lacks_image("r/driver:580-6.12.47-cloud-amd64-gardenlinux0"));
    }
}
