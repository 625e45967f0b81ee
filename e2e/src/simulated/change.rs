//! What the simulated operator wants done to the cluster.
//!
//! A [`Change`] is a difference: an object that is as it should be yields none, so an idle cluster
//! gets no writes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

/// Kinds that the simulated operator writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `node.k8s.io/v1`
    RuntimeClass,
    /// `v1`
    ServiceAccount,
    /// `rbac.authorization.k8s.io/v1`
    Role,
    /// `rbac.authorization.k8s.io/v1`
    RoleBinding,
    /// `rbac.authorization.k8s.io/v1`
    ClusterRole,
    /// `rbac.authorization.k8s.io/v1`
    ClusterRoleBinding,
    /// `v1`
    ConfigMap,
    /// `v1`
    Service,
    /// `apps/v1`
    DaemonSet,
    /// `nvidia.com/v1`
    ClusterPolicy,
    /// `nvidia.com/v1alpha1`
    NvidiaDriver,
}

impl Kind {
    /// Group and version, as `apiVersion` spells them.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::RuntimeClass => "node.k8s.io/v1",
            Self::ServiceAccount | Self::ConfigMap | Self::Service => "v1",
            Self::Role | Self::RoleBinding | Self::ClusterRole | Self::ClusterRoleBinding => {
                "rbac.authorization.k8s.io/v1"
            }
            Self::DaemonSet => "apps/v1",
            Self::ClusterPolicy => "nvidia.com/v1",
            Self::NvidiaDriver => "nvidia.com/v1alpha1",
        }
    }

    /// The kind, as objects spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RuntimeClass => "RuntimeClass",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRole => "ClusterRole",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::DaemonSet => "DaemonSet",
            Self::ClusterPolicy => "ClusterPolicy",
            Self::NvidiaDriver => "NVIDIADriver",
        }
    }

    /// Whether objects of the kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        matches!(
            self,
            Self::ServiceAccount
                | Self::Role
                | Self::RoleBinding
                | Self::ConfigMap
                | Self::Service
                | Self::DaemonSet
        )
    }

    /// What a dynamic client needs to know of the kind.
    pub fn api_resource(self) -> ApiResource {
        let api_version = self.api_version();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let plural = match self {
            Self::RuntimeClass => "runtimeclasses".to_owned(),
            Self::ClusterPolicy => "clusterpolicies".to_owned(),
            other => format!("{}s", other.name().to_lowercase()),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.name()), &plural)
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make the object exist with this content.
    Apply {
        /// What it is.
        kind: Kind,
        /// The whole object.
        object: Value,
    },
    /// Remove an object of the operator's namespace.
    Delete {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: String,
        /// Leave its Pods behind without an owner.
        orphan: bool,
    },
    /// Remove a Pod, so that its DaemonSet makes a new one.
    DeletePod {
        /// Its name.
        name: String,
    },
    /// Merge-patch a node's metadata and spec.
    Node {
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Merge-patch a node's status, as its kubelet does.
    NodeStatus {
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Merge-patch a Pod's status, as its kubelet does.
    PodStatus {
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
    },
    /// Merge-patch the status of a custom resource.
    Status {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: String,
        /// The patch.
        patch: Value,
    },
}

/// The merge patch that turns one node's labels, annotations and cordon into another's.
pub fn node_difference(before: &Node, after: &Node) -> Option<Change> {
    let mut metadata = Map::new();
    for (field, old, new) in [
        ("labels", before.labels(), after.labels()),
        ("annotations", before.annotations(), after.annotations()),
    ] {
        let difference = map_difference(old, new);
        if !difference.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(difference));
        }
    }
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if is_cordoned(before) != is_cordoned(after) {
        let unschedulable = if is_cordoned(after) {
            Value::Bool(true)
        } else {
            Value::Null
        };
        patch.insert("spec".to_owned(), json!({ "unschedulable": unschedulable }));
    }
    (!patch.is_empty()).then(|| Change::Node {
        name: before.name_any(),
        patch: Value::Object(patch),
    })
}

/// Whether the node takes no new Pods.
pub fn is_cordoned(node: &Node) -> bool {
    node.spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or_default()
}

fn map_difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let set = after
        .iter()
        .filter(|(key, value)| before.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), Value::String(value.clone())));
    gone.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn equal_nodes_need_no_write() {
        let one = node(json!({"metadata": {"name": "a", "labels": {"x": "1"}}}));
        assert_eq!(node_difference(&one, &one), None);
    }

    #[test]
    fn only_differences_are_sent() {
        let before = node(json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "1", "z": "1"}}}));
        let after = node(
            json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "annotations": {"n": "1"}},
                   "spec": {"unschedulable": true}}),
        );
        assert_eq!(
            node_difference(&before, &after),
            Some(Change::Node {
                name: "a".to_owned(),
                patch: json!({
                    "metadata": {"labels": {"y": "2", "z": null}, "annotations": {"n": "1"}},
                    "spec": {"unschedulable": true},
                }),
            })
        );
    }

    #[test]
    fn plurals_are_those_of_the_api() {
        for (kind, plural) in [
            (Kind::RuntimeClass, "runtimeclasses"),
            (Kind::ClusterPolicy, "clusterpolicies"),
            (Kind::NvidiaDriver, "nvidiadrivers"),
            (Kind::RoleBinding, "rolebindings"),
        ] {
            assert_eq!(kind.api_resource().plural, plural);
        }
        assert_eq!(Kind::Service.api_resource().group, "");
    }
}
