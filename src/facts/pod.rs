//! Pods of NVIDIA's stack, each reduced to what tells how far a GPU node has come.

use std::sync::Arc;

use jiff::Timestamp;

/// A part of the stack that a GPU node needs before Pods can ask for its GPUs, in the order in which they depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Labels the node by its hardware.
    NodeFeatureDiscovery,
    /// Loads the driver.
    Driver,
    /// Gives the container runtime access to GPUs.
    Toolkit,
    /// Announces the GPUs to the kubelet.
    DevicePlugin,
    /// Proves that a container can use a GPU.
    Validator,
}

/// A Pod of one of these parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandPod {
    /// The node that it runs on or is meant for.
    pub node: Arc<str>,
    /// The part that it is of.
    pub part: Part,
    /// How far it has come.
    pub state: PodState,
    /// Since when it is ready, or is not.
    pub since: Timestamp,
    /// The driver that it loads; `None` for other parts.
    pub driver: Option<DriverPod>,
}

/// What a driver's Pod loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverPod {
    /// Reference of its image.
    pub image: Arc<str>,
    /// The kernel that the image is for; `None` where it builds the driver for any.
    pub kernel: Option<Arc<str>>,
}

/// How far a Pod has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// Its containers are ready.
    Ready,
    /// Its containers start, or wait for another part.
    Starting,
    /// It is being deleted.
    Leaving,
    /// An image cannot be pulled.
    ImageMissing {
        /// Its reference.
        image: Arc<str>,
        /// The registry says that there is no such image; otherwise another try may succeed.
        is_absent: bool,
    },
    /// A container ends again and again.
    CrashLoop {
        /// Restarts so far, rounded down to a power of two: facts that change with each restart would wake the operator with each.
        restarts: u32,
    },
    /// The scheduler finds no place for it on its node.
    Unschedulable,
}

impl PodState {
    /// True where waiting alone does not help.
    pub const fn is_trouble(&self) -> bool {
        matches!(
            self,
            Self::ImageMissing { .. } | Self::CrashLoop { .. } | Self::Unschedulable
        )
    }

    /// True where an image cannot be pulled that may be there.
    pub const fn is_refused_image(&self) -> bool {
        matches!(self, Self::ImageMissing { is_absent: false, .. })
    }
}

/// The Pods of the stack, found by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperandPods(Vec<OperandPod>);

impl OperandPods {
    /// Pods in any order.
    pub fn new(mut pods: Vec<OperandPod>) -> Self {
        pods.sort_by(|a, b| a.node.cmp(&b.node).then(a.part.cmp(&b.part)));
        Self(pods)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &OperandPod> {
        self.0.iter()
    }

    /// Those of one node, in the order of their parts.
    pub fn on(&self, node: &str) -> &[OperandPod] {
        let begin = self.0.partition_point(|pod| &*pod.node < node);
        let end = self.0.partition_point(|pod| &*pod.node <= node);
        &self.0[begin..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_by_node_in_the_order_of_parts() {
        let pod = |node: &str, part| OperandPod {
            node: node.into(),
            part,
            state: PodState::Ready,
            since: Timestamp::UNIX_EPOCH,
            driver: None,
        };
        let pods = OperandPods::new(vec![
            pod("b", Part::Validator),
            pod("a", Part::Toolkit),
            pod("b", Part::Driver),
            pod("bb", Part::Driver),
        ]);
        let parts = |node| pods.on(node).iter().map(|pod| pod.part).collect::<Vec<_>>();
        assert_eq!(parts("a"), [Part::Toolkit]);
        assert_eq!(parts("b"), [Part::Driver, Part::Validator]);
        assert_eq!(parts("c"), []);
    }
}
