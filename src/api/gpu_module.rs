//! `GpuModule`: what an admin may ask for.
//!
//! Every field is optional and none has a schema default: a persisted default would freeze today's choice into
//! stored objects. An empty field means the catalogue's default, resolved on each pass and shown in the status.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    DeletionCrds, DeletionSpec, DeletionWorkloads, DriverSpec, GpuModuleStatus, ImagesSpec, MigSpec,
    MonitoringSpec, NodesSpec, SharingSpec,
};

/// What is asked for; an empty spec installs the module's defaults.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operator.kyma-project.io",
    version = "v1alpha1",
    kind = "GpuModule",
    doc = "GPUs for this cluster: NVIDIA's gpu-operator, installed, upgraded and removed by the Kyma GPU module.",
    plural = "gpumodules",
    category = "kyma-modules",
    category = "kyma-gpu",
    status = "GpuModuleStatus",
    derive = "Default",
    derive = "PartialEq",
    label("kyma-project.io/module", "gpu"),
    validation = Rule::new("self.metadata.name == 'default'")
        .message("only one GpuModule is allowed and its name must be 'default'"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.release.chartVersion"),
    printcolumn(name = "GPU nodes", type_ = "string", json_path = ".status.gpuNodes.summary"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.sharing) || !has(self.sharing.timeSlicing) || !has(self.mig) || !has(self.mig.strategy) \
     || self.mig.strategy != 'Single'"
).message("MIG strategy Single calls partitions nvidia.com/gpu too, so sharing would share them as well: use Mixed or None, or remove sharing"))]
pub struct GpuModuleSpec {
    /// Version of NVIDIA's gpu-operator chart, for example 26.7.0. Empty: the module's default version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]{2}\.[0-9]{1,2}\.[0-9]{1,3}$"))]
    pub chart_version: Option<String>,

    /// Where the NVIDIA driver comes from. Empty: a precompiled driver container for Garden Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverSpec>,

    /// Which nodes the stack runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesSpec>,

    /// How Pods share a GPU. Empty: each Pod that asks for a GPU has it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingSpec>,

    /// How the partitions of GPUs with Multi-Instance GPU (MIG) are offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mig: Option<MigSpec>,

    /// Metrics of the GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringSpec>,

    /// Where images are pulled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesSpec>,

    /// Further values of the gpu-operator chart, merged over the module's own as Helm would: maps deeply, lists
    /// replaced, null removes a default. Values that the module owns are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "free_form")]
    pub values: Option<Map<String, Value>>,

    /// True takes over a Helm release gpu-operator in namespace gpu-operator that the module did not make. Where it has values
    /// that the module would drop, they are listed in status.adoption first, and true has to be given after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopt_existing_release: Option<bool>,

    /// When a change that restarts GPU drivers may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeSpec>,

    /// What happens when somebody changes objects of the release by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftSpec>,

    /// What a deletion of the GpuModule waits for, and what it removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionSpec>,

    /// True stops every change to the release while the status stays current. Deletion still uninstalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// When a change that restarts GPU drivers may begin. Other changes are made at once.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeSpec {
    /// What such a change waits for. Empty: WhenIdle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<UpgradePolicy>,
}

/// WhenIdle: until no Pod outside of NVIDIA's stack uses a GPU. Window: for the maintenance window of the Gardener shoot,
/// whatever runs then. Immediate: for nothing, whatever runs. Empty: WhenIdle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradePolicy {
    /// Until no Pod outside of NVIDIA's stack uses a GPU.
    #[default]
    WhenIdle,
    /// For the maintenance window of the Gardener shoot.
    Window,
    /// For nothing.
    Immediate,
}

/// What happens when somebody changes objects of the release by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftSpec {
    /// Whether changes are undone. Empty: Correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriftMode>,
}

/// Correct: changes are undone at once. Report: they are left and shown in condition Drifted. Ignore: nobody looks.
/// Empty: Correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    /// Changes are undone at once; labels and annotations that people add stay.
    #[default]
    Correct,
    /// Changes are left as they are and shown in condition Drifted.
    Report,
    /// Objects are not compared.
    Ignore,
}

impl GpuModuleSpec {
    /// `spec.nodes.instanceTypes`.
    pub fn instance_types(&self) -> &[String] {
        self.nodes.as_ref().map_or(&[], |nodes| &nodes.instance_types)
    }

    /// What a change that restarts GPU drivers waits for, with the default filled in.
    pub fn upgrade_policy(&self) -> UpgradePolicy {
        self.upgrade
            .as_ref()
            .and_then(|upgrade| upgrade.policy)
            .unwrap_or_default()
    }

    /// `spec.deletion.workloads`, or its default.
    pub fn deletion_workloads(&self) -> DeletionWorkloads {
        let deletion = self.deletion.as_ref();
        deletion
            .and_then(|deletion| deletion.workloads)
            .unwrap_or_default()
    }

    /// `spec.deletion.crds`, or its default.
    pub fn deletion_crds(&self) -> DeletionCrds {
        let deletion = self.deletion.as_ref();
        deletion.and_then(|deletion| deletion.crds).unwrap_or_default()
    }

    /// `spec.drift.mode`, or its default.
    pub fn drift_mode(&self) -> DriftMode {
        let drift = self.drift.as_ref();
        drift.and_then(|drift| drift.mode).unwrap_or_default()
    }
}

/// An object of any shape with a bounded number of top-level keys.
fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "nullable": true,
        "maxProperties": 64,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
