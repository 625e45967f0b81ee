//! The status: what users, the dashboard and the CLI read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DriverBranch, DriverMode, MAX_POOLS, NodeFeatureDiscovery, WorkerPoolStatus};

/// The state that the Kyma dashboard and CLI show for a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// Everything works.
    Ready,
    /// Work is under way and ends by itself within a bound.
    Processing,
    /// A user must act.
    Warning,
    /// A technical failure that is retried.
    Error,
    /// The module is being removed.
    Deleting,
}

impl State {
    /// Every state, for metrics.
    pub const ALL: [Self; 5] = [
        Self::Ready,
        Self::Processing,
        Self::Warning,
        Self::Error,
        Self::Deleting,
    ];

    /// The word in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Processing => "Processing",
            Self::Warning => "Warning",
            Self::Error => "Error",
            Self::Deleting => "Deleting",
        }
    }
}

/// Status of the GPU module.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuModuleStatus {
    /// Ready, Processing, Warning, Error or Deleting.
    pub state: State,

    /// One sentence: what the state means here and what to do.
    pub description: String,

    /// Generation of the GpuModule that this status was computed from.
    pub observed_generation: i64,

    /// Configured, Installed, OperandsReady, Drifted and DriverChangePending (False is good), Deleted while the GpuModule is
    /// being deleted, and the summary Ready.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The Helm release as the module last left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseStatus>,

    /// The release in place that the module did not make, and what taking it over would drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoption: Option<AdoptionStatus>,

    /// The driver as resolved from the spec and the module's defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverStatus>,

    /// Whose Node Feature Discovery labels the nodes: Module or Cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_feature_discovery: Option<NodeFeatureDiscovery>,

    /// How many GPU nodes there are and how many of them can run GPU work now.
    pub gpu_nodes: GpuNodesStatus,

    /// The worker pools with GPU nodes, 50 at most: those with problems first where not all fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_POOLS))]
    pub worker_pools: Vec<WorkerPoolStatus>,

    /// How many more worker pools there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_worker_pools: u32,

    /// What the module did to the release last, newest first, at most ten operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub history: Vec<Operation>,

    /// When the module tries again after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,

    /// The last value of the annotation gpu-manager.kyma-project.io/reconcile-at that was acted upon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// The Helm release that the module made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// Name of the release.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Chart version, for example 26.7.0.
    pub chart_version: String,
    /// Version of NVIDIA's gpu-operator in that chart, for example v26.7.0.
    pub app_version: String,
    /// Revision that the module made or accepted last.
    pub revision: i64,
    /// SHA-256 of the values of that revision, in hexadecimal.
    pub values_digest: String,
}

/// A release that the module did not make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptionStatus {
    /// Its chart version, for example 26.3.3.
    pub chart_version: String,
    /// The revision that was read.
    pub revision: i64,
    /// Dotted paths of its values that the module would drop or replace, at most 50. The values themselves are not shown, they may
    /// be secret: helm get values gpu-operator -n gpu-operator shows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub dropped_values: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_dropped_values: u32,
    /// Generation of the GpuModule for which this was shown while spec.adoptExistingRelease was not true. Given in a later
    /// generation, true confirms it; absent, it has to be taken back first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listed_generation: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Something that the module did to the release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// When it ended, or began where it is still running.
    pub time: Time,
    /// Install, Upgrade, Rollback, Uninstall, Discard, Prune or Reapply.
    pub operation: OperationKind,
    /// Chart version before, where there was a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Chart version that was to be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Newest revision of the release afterwards, where there is one; while it runs, the revision that it makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Succeeded, Failed, Running or Interrupted.
    pub outcome: Outcome,
    /// Why it was done, or why it failed.
    pub message: String,
}

/// What was done to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// The first `helm upgrade --install`.
    Install,
    /// A later one.
    Upgrade,
    /// `helm rollback`.
    Rollback,
    /// `helm uninstall`.
    Uninstall,
    /// The Secret of a revision that was in Helm's way was deleted.
    Discard,
    /// Objects that a failed upgrade or a former driver had left behind were deleted.
    Prune,
    /// Objects of the release that somebody had changed were put right; no new revision.
    Reapply,
}

/// How an operation ended, if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// As it should.
    Succeeded,
    /// With an error.
    Failed,
    /// Not yet.
    Running,
    /// The operator ended before it did; what came of it was found and put right afterwards.
    Interrupted,
}

/// The driver that the module asks NVIDIA's operator for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// Precompiled or Preinstalled.
    pub mode: DriverMode,
    /// Driver branch; absent with mode Preinstalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<DriverBranch>,
    /// Release of the Garden Linux NVIDIA installer; absent with mode Preinstalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installer_release: Option<String>,
}

/// Count of GPU nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuNodesStatus {
    /// GPU nodes that take part: neither left out nor on a machine that is being removed.
    pub total: u32,
    /// Those of them on which a Pod can get a GPU now.
    pub usable: u32,
    /// Both in short, for example 2/3.
    pub summary: String,
}

impl GpuNodesStatus {
    /// Counts with their summary.
    pub fn new(usable: u32, total: u32) -> Self {
        Self {
            total,
            usable,
            summary: format!("{usable}/{total}"),
        }
    }
}

/// Types of the conditions, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// The spec and the cluster let the module act.
    Configured,
    /// The Helm release is deployed as wanted.
    Installed,
    /// NVIDIA's operands work on the GPU nodes.
    OperandsReady,
    /// Objects of the release are other than the release made them. False is good.
    Drifted,
    /// A change that restarts drivers waits. False is the usual case; True is nothing bad.
    DriverChangePending,
    /// The module is removed. There only while the GpuModule is being deleted.
    Deleted,
    /// True exactly when the state is Ready.
    Ready,
}

impl ConditionType {
    /// Every type.
    pub const ALL: [Self; 7] = [
        Self::Configured,
        Self::Installed,
        Self::OperandsReady,
        Self::Drifted,
        Self::DriverChangePending,
        Self::Deleted,
        Self::Ready,
    ];

    /// The word in the condition's `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "Configured",
            Self::Installed => "Installed",
            Self::OperandsReady => "OperandsReady",
            Self::Drifted => "Drifted",
            Self::DriverChangePending => "DriverChangePending",
            Self::Deleted => "Deleted",
            Self::Ready => "Ready",
        }
    }
}

/// The condition of that type, where there is one.
pub fn condition(status: &GpuModuleStatus, kind: ConditionType) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind.as_str())
}
