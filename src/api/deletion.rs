//! `spec.deletion`: what a deletion of the GpuModule waits for, and what it removes.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a deletion of the GpuModule waits for, and what it removes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionSpec {
    /// Whether running GPU work holds a deletion. Empty: Block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<DeletionWorkloads>,

    /// Whether the CustomResourceDefinitions of NVIDIA and of Node Feature Discovery go with the module. Empty: Keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<DeletionCrds>,
}

/// Block: the module is not removed as long as Pods outside of NVIDIA's stack use GPUs. Ignore: it is removed whatever runs, and such
/// Pods lose their driver. Empty: Block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionWorkloads {
    /// The module is not removed as long as Pods outside of NVIDIA's stack use GPUs.
    #[default]
    Block,
    /// It is removed whatever runs.
    Ignore,
}

/// Keep: the CustomResourceDefinitions that NVIDIA's charts brought stay. Delete: they go at the end of the removal, unless somebody else
/// has objects of their kinds or runs another Node Feature Discovery. Empty: Keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionCrds {
    /// The CustomResourceDefinitions that NVIDIA's charts brought stay.
    #[default]
    Keep,
    /// They go at the end of the removal, unless somebody else needs them.
    Delete,
}
