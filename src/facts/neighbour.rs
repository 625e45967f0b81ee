//! DaemonSets that others run and that do the work of a part of the release.

use std::fmt;

use super::DaemonSetFacts;

/// What a DaemonSet is to the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonSetRole {
    /// A part of the release, or of what NVIDIA's operator made for it.
    OfRelease(DaemonSetFacts),
    /// Somebody else's that does the same work.
    Beside(Neighbour),
}

/// Somebody else's DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The work that it does.
    pub kind: NeighbourKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pods that are ready.
    pub ready: i32,
}

/// The work that a [`Neighbour`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourKind {
    /// Tells the kubelets of NVIDIA's GPUs.
    DevicePlugin,
    /// A part of the earlier Kyma module `gpu-driver`: installs a driver, or tells the kubelets of the GPUs.
    GpuDriver,
    /// The worker of Node Feature Discovery: labels nodes by their hardware.
    NodeFeatureDiscovery,
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DaemonSet {}/{}", self.namespace, self.name)
    }
}
