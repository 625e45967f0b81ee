//! `spec.driver`: where the NVIDIA driver comes from and how it is replaced.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounded::registry_path;
use super::{DriverBranch, DriverUpgradeSpec};

/// Where the NVIDIA driver comes from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.mode) || self.mode != 'Preinstalled' || (!has(self.branch) && !has(self.installerRelease) \
     && !has(self.repository) && !has(self.kernelModuleType) && !has(self.upgrade))"
).message("mode Preinstalled takes the driver of the node image: remove branch, installerRelease, repository, kernelModuleType and upgrade"))]
pub struct DriverSpec {
    /// Who brings the driver onto the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DriverMode>,

    /// Driver branch. Empty: the module's default branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<DriverBranch>,

    /// Release of the Garden Linux NVIDIA installer whose driver images are used, for example 1.17.0.
    /// Empty: the release that this module was built with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 24), regex(pattern = r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$"))]
    pub installer_release: Option<String>,

    /// Registry path that holds the installer's releases, without tag.
    /// Empty: ghcr.io/gardenlinux/gardenlinux-nvidia-installer, or the same path in images.registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "registry_path")]
    pub repository: Option<String>,

    /// Which of the driver's kernel modules are loaded. Empty: Auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_module_type: Option<KernelModuleType>,

    /// How NVIDIA's operator replaces drivers once it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<DriverUpgradeSpec>,
}

/// Auto: the open modules where driver and GPU have them. Open and Proprietary: these. Empty: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KernelModuleType {
    /// The driver's container chooses.
    Auto,
    /// The open modules, for GPUs from Turing on.
    Open,
    /// The proprietary modules.
    Proprietary,
}

/// Precompiled: NVIDIA's operator runs a driver container per kernel. Preinstalled: the node image already has the
/// driver and no driver container runs. Empty: Precompiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriverMode {
    /// NVIDIA's operator runs a driver container that was compiled for the node's kernel.
    #[default]
    Precompiled,
    /// The node image has the driver; no driver container runs.
    Preinstalled,
}
