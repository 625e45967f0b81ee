//! `spec.nodes`: which nodes the stack runs on.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which nodes the stack runs on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodesSpec {
    /// Worker pools whose GPU nodes take part. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 63)))]
    pub include: Vec<String>,

    /// Worker pools whose GPU nodes take no part, even if include names them: nothing of the stack runs there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 63)))]
    pub exclude: Vec<String>,

    /// Instance types with NVIDIA GPUs besides those that the module knows: a name, or the beginning of names before a star, for
    /// example g_h100_*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(
            length(min = 2, max = 63),
            regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*[*]?$")
        )
    )]
    pub instance_types: Vec<String>,

    /// Taints that the stack tolerates besides nvidia.com/gpu, at most 16: its Pods on GPU nodes, Node Feature Discovery and
    /// NVIDIA's operator itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
}

/// A toleration as Pods have it, refused here where the API server would refuse it in a Pod.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.key) || (has(self.operator) && self.operator == 'Exists')")
    .message("a toleration without key tolerates every taint: its operator must be Exists"))]
#[x_kube(validation = Rule::new("!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''")
    .message("a toleration with operator Exists takes no value: remove value"))]
#[x_kube(validation = Rule::new("!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')")
    .message("tolerationSeconds needs effect NoExecute"))]
pub struct Toleration {
    /// Key of the taint. Empty: every taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 317),
        regex(
            pattern = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
        )
    )]
    pub key: Option<String>,

    /// How key and value are compared. Empty: Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,

    /// Value of the taint, with operator Equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 63),
        regex(pattern = r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$")
    )]
    pub value: Option<String>,

    /// Effect of the taint. Empty: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,

    /// Seconds for which a taint with effect NoExecute is tolerated. Empty: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// Equal: the taint has this key and value. Exists: it has this key, whatever its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are those of the taint.
    Equal,
    /// The key is that of the taint.
    Exists,
}

/// What a taint does to Pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// None is placed on the node.
    NoSchedule,
    /// None is placed on the node if there is another one.
    PreferNoSchedule,
    /// None is placed on the node, and those that run there are evicted.
    NoExecute,
}
