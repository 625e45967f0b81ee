//! What the simulated operator sees: one consistent copy of the cluster's objects.
//!
//! Everything that it decides is a function of a [`View`]; nothing here talks to a server.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use super::names;

/// The objects that matter, each list sorted by name as the API server lists them.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Pods of the operator's namespace.
    pub pods: Vec<Pod>,
    /// DaemonSets of the operator's namespace.
    pub daemon_sets: Vec<DaemonSet>,
    /// Revisions of those DaemonSets.
    pub revisions: Vec<ControllerRevision>,
    /// Deployments of the operator's namespace.
    pub deployments: Vec<Deployment>,
    /// ConfigMaps of the operator's namespace.
    pub config_maps: Vec<ConfigMap>,
    /// Pods of Node Feature Discovery charts in all namespaces.
    pub nfd_pods: Vec<Pod>,
    /// NFD's rules.
    pub node_feature_rules: Vec<DynamicObject>,
    /// ClusterPolicies.
    pub cluster_policies: Vec<DynamicObject>,
    /// NVIDIADrivers.
    pub nvidia_drivers: Vec<DynamicObject>,
    /// Names of the CRDs.
    pub crds: BTreeSet<String>,
}

impl View {
    /// The Deployment, when at least one of its Pods is available.
    pub fn available_deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments
            .iter()
            .find(|deployment| deployment.name_any() == name)
            .filter(|deployment| {
                deployment
                    .status
                    .as_ref()
                    .and_then(|status| status.available_replicas)
                    .unwrap_or_default()
                    > 0
            })
    }

    /// The DaemonSet of this name.
    pub fn daemon_set(&self, name: &str) -> Option<&DaemonSet> {
        self.daemon_sets
            .iter()
            .find(|daemon_set| daemon_set.name_any() == name)
    }

    /// Pods on a node that carry a label, those being deleted left out.
    pub fn pods_on<'a>(&'a self, node: &str, key: &str, value: &str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| {
            node_of(pod) == Some(node)
                && label(*pod, key) == Some(value)
                && pod.metadata.deletion_timestamp.is_none()
        })
    }

    /// Whether a ready Pod with this `app` label runs on the node.
    pub fn app_ready_on(&self, node: &str, app: &str) -> bool {
        self.pods_on(node, "app", app).any(is_ready)
    }

    /// A ready driver Pod on the node, whichever layout made it.
    pub fn ready_driver_on<'a>(&'a self, node: &str) -> Option<&'a Pod> {
        self.pods_on(node, names::COMPONENT, names::DRIVER_COMPONENT)
            .find(|pod| is_ready(pod))
    }

    /// Whether the Pod was made from its DaemonSet's newest template. `None` for an orphan.
    pub fn is_current(&self, pod: &Pod) -> Option<bool> {
        let owner = pod.metadata.owner_references.as_ref()?.first()?;
        let newest = self
            .revisions
            .iter()
            .filter(|revision| {
                revision
                    .owner_references()
                    .iter()
                    .any(|reference| reference.uid == owner.uid)
            })
            .max_by_key(|revision| revision.revision)?;
        Some(label(pod, REVISION_HASH) == label(newest, REVISION_HASH))
    }
}

/// Label by which the DaemonSet controller ties a Pod to a revision.
pub const REVISION_HASH: &str = "controller-revision-hash";

/// A label's value.
pub fn label<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    object.meta().labels.as_ref()?.get(key).map(String::as_str)
}

/// An annotation's value.
pub fn annotation<'a>(object: &'a impl kube::Resource, key: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(key).map(String::as_str)
}

/// The node that a Pod is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Whether the Pod's condition `Ready` is true.
pub fn is_ready(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the controller counts the node as a GPU node.
pub fn has_gpu_label(node: &Node) -> bool {
    label(node, names::GPU_PRESENT) == Some("true")
}

/// Number of GPUs in the node's hardware, as its annotation says.
pub fn hardware_gpus(node: &Node) -> u32 {
    annotation(node, names::GPUS)
        .and_then(|count| count.parse().ok())
        .unwrap_or_default()
}
