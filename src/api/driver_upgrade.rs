//! `spec.driver.upgrade`: how NVIDIA's operator replaces drivers, node by node.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How NVIDIA's operator replaces drivers once it may; when it may is said by spec.upgrade.policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverUpgradeSpec {
    /// Nodes whose driver is replaced at the same time. Empty: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_parallel: Option<u32>,

    /// GPU nodes that may be out of service while drivers are replaced, as a number or a percentage. Empty: 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percentage")]
    pub max_unavailable: Option<IntOrString>,

    /// How Pods that use a GPU are deleted before their node's driver is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_deletion: Option<PodDeletionSpec>,

    /// Whether a node is drained, other Pods included, where deleting Pods that use a GPU was not enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSpec>,
}

/// How Pods that use a GPU are deleted before their node's driver is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDeletionSpec {
    /// True deletes Pods without a controller too, which nothing brings back. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,

    /// Seconds after which it is given up; 0: never. Empty: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub timeout_seconds: Option<u32>,

    /// True deletes Pods with an emptyDir too, whose content is lost. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}

/// Whether and how a node is drained before its driver is replaced.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.enabled) && self.enabled) || (!has(self.force) && !has(self.timeoutSeconds) && !has(self.deleteEmptyDir))"
).message("nodes are not drained: set drain.enabled to true, or remove force, timeoutSeconds and deleteEmptyDir"))]
pub struct DrainSpec {
    /// True drains the node. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,

    /// True deletes Pods without a controller too, which nothing brings back. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,

    /// Seconds after which it is given up; 0: never. Empty: 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub timeout_seconds: Option<u32>,

    /// True deletes Pods with an emptyDir too, whose content is lost. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_empty_dir: Option<bool>,
}

/// 1 to 1000, or 1% to 100%: with less, no driver could ever be replaced.
fn count_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
        "minimum": 1,
        "maximum": 1000,
        "maxLength": 4,
        "pattern": "^(100|[1-9][0-9]?)%$",
    })
}
