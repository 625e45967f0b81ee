//! `status.workerPools`: the worker pools with GPU nodes, each in so few words that thousands of nodes fit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::is_zero;

/// Most worker pools in the status.
pub const MAX_POOLS: usize = 50;

/// Most values of one kind, for example kernels, of a worker pool.
pub const MAX_VALUES: usize = 5;

/// Most problems of a worker pool.
pub const MAX_PROBLEMS: usize = 5;

/// Most nodes of a problem that are named.
pub const MAX_NAMES: usize = 3;

/// Most characters of each text.
pub const MAX_TEXT: usize = 256;

/// A worker pool with GPU nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerPoolStatus {
    /// Name of the pool (label worker.gardener.cloud/pool); (none) stands for nodes without one.
    #[schemars(length(max = MAX_TEXT))]
    pub name: String,
    /// GPU nodes in it, those that are left out too.
    pub nodes: u32,
    /// Those of them that take part, as in gpuNodes.total; absent where none does.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub participating: u32,
    /// Those of them on which a Pod can get a GPU now.
    pub usable: u32,
    /// GPUs that its nodes announce.
    pub gpus: GpuCounts,
    /// Operating systems of its nodes with their versions, for example Garden Linux 2150.9.0; five at most, as in the other lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub operating_systems: Vec<String>,
    /// Kernels of its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub kernels: Vec<String>,
    /// Instance types of its nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub instance_types: Vec<String>,
    /// Images of the driver that its nodes ask for, or will ask for once the driver of the spec comes to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub driver_images: Vec<String>,
    /// Products of its GPUs, for example Tesla-T4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub products: Vec<String>,
    /// Versions of the drivers that are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub driver_versions: Vec<String>,
    /// Newest CUDA versions that these drivers support.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub cuda_versions: Vec<String>,
    /// How its GPUs are shared, for example time-slicing by 4; absent where they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_VALUES), inner(length(max = MAX_TEXT)))]
    pub sharing: Vec<String>,
    /// Why nodes cannot be used, or may not be soon; five at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PROBLEMS))]
    pub problems: Vec<NodeProblem>,
}

/// GPUs, shared ones and MIG devices included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuCounts {
    /// Known to the nodes.
    pub capacity: u32,
    /// Those that Pods can ask for.
    pub allocatable: u32,
}

/// What nodes of a pool have in common that keeps their GPUs from Pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeProblem {
    /// Why, in one word that the documentation explains.
    #[schemars(length(max = MAX_TEXT))]
    pub reason: String,
    /// What is wrong, and what to do.
    #[schemars(length(max = MAX_TEXT))]
    pub message: String,
    /// How many nodes.
    pub nodes: u32,
    /// The first three of them.
    #[schemars(length(max = MAX_NAMES), inner(length(max = MAX_TEXT)))]
    pub names: Vec<String>,
    /// The image that is missing, or that nobody knows of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TEXT))]
    pub image: Option<String>,
}
