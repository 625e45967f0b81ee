//! `spec.sharing`, `spec.mig` and `spec.monitoring`: what NVIDIA's operands do with the GPUs.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How Pods share a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharingSpec {
    /// Pods take turns on a GPU. They are not isolated: each can use all of its memory, and a fault of one may end the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_slicing: Option<TimeSlicingSpec>,
}

/// Pods take turns on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeSlicingSpec {
    /// How many nvidia.com/gpu a node offers for each of its GPUs, 2 to 48.
    #[schemars(range(min = 2, max = 48))]
    pub replicas: u32,
}

/// How the partitions of GPUs with Multi-Instance GPU (MIG) are offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigSpec {
    /// Under which names. Empty: Single, or Mixed where GPUs are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<MigStrategy>,
}

/// None: partitions are not offered. Single: as nvidia.com/gpu, all partitions of a node being alike. Mixed: as
/// nvidia.com/mig-<profile>. Empty: Single, or Mixed where GPUs are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MigStrategy {
    /// Partitions are not offered.
    None,
    /// As `nvidia.com/gpu`.
    Single,
    /// As `nvidia.com/mig-<profile>`.
    Mixed,
}

/// Metrics of the GPUs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.serviceMonitor) || !self.serviceMonitor || !has(self.dcgmExporter) || self.dcgmExporter"
).message("serviceMonitor needs the DCGM exporter: remove serviceMonitor, or dcgmExporter: false"))]
pub struct MonitoringSpec {
    /// False runs no DCGM exporter, which offers the metrics on each GPU node. Empty: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcgm_exporter: Option<bool>,

    /// True makes a ServiceMonitor for the Prometheus Operator, where the cluster knows that kind. Empty: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<bool>,
}
