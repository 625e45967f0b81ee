//! The driver: what the spec asks for, with the defaults filled in, and how each chart line is told.

use serde_json::{Map, Value, json};

use super::{DriverUpgrades, Step, driver_upgrade, images, kernel_modules, merge, path};
use crate::api::{DriverBranch, DriverMode, DriverStatus, GpuModuleSpec};
use crate::catalogue::{Chart, DriverDefaults, DriverLayout};

/// Name of the NVIDIADriver. `usePrecompiled` is immutable in it, so the name says so and another mode gets another name.
const OBJECT_NAME: &str = "gardenlinux-precompiled";

/// The driver with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedDriver {
    /// A driver container of the Garden Linux NVIDIA installer.
    Precompiled {
        /// Driver branch.
        branch: DriverBranch,
        /// Release of the installer.
        installer_release: String,
        /// Registry path of the images, release included, without the image name `driver`.
        repository: String,
    },
    /// The node image has the driver.
    Preinstalled,
}

impl ResolvedDriver {
    /// Fills in the defaults.
    pub fn new(module: &GpuModuleSpec, defaults: &DriverDefaults) -> Self {
        let spec = module.driver.as_ref();
        if spec.and_then(|spec| spec.mode) == Some(DriverMode::Preinstalled) {
            return Self::Preinstalled;
        }
        let release = spec
            .and_then(|spec| spec.installer_release.as_ref())
            .unwrap_or(&defaults.installer_release);
        let repository = spec
            .and_then(|spec| spec.repository.clone())
            .unwrap_or_else(|| images::mirrored(&defaults.repository, module));
        Self::Precompiled {
            branch: spec.and_then(|spec| spec.branch).unwrap_or(defaults.branch),
            installer_release: release.clone(),
            repository: format!("{repository}/{release}"),
        }
    }

    /// True where NVIDIA's operator brings the driver onto the nodes.
    pub const fn is_managed(&self) -> bool {
        matches!(self, Self::Precompiled { .. })
    }

    /// As shown in the status.
    pub fn status(&self) -> DriverStatus {
        match self {
            Self::Precompiled {
                branch,
                installer_release,
                ..
            } => DriverStatus {
                mode: DriverMode::Precompiled,
                branch: Some(*branch),
                installer_release: Some(installer_release.clone()),
            },
            Self::Preinstalled => DriverStatus {
                mode: DriverMode::Preinstalled,
                branch: None,
                installer_release: None,
            },
        }
    }

    /// The chart's values that switch the driver on or off and, where ClusterPolicy describes it, say which.
    pub(super) fn values(&self, layout: DriverLayout) -> Map<String, Value> {
        let driver = match (self, layout) {
            (Self::Preinstalled, _) => {
                json!({ "enabled": false, "nvidiaDriverCRD": { "enabled": false, "deployDefaultCR": false } })
            }
            (Self::Precompiled { .. }, DriverLayout::NvidiaDriver) => {
                json!({ "enabled": true, "nvidiaDriverCRD": { "enabled": true, "deployDefaultCR": false } })
            }
            (
                Self::Precompiled {
                    branch, repository, ..
                },
                DriverLayout::ClusterPolicy,
            ) => json!({
                "enabled": true,
                "nvidiaDriverCRD": { "enabled": false, "deployDefaultCR": false },
                "usePrecompiled": true,
                "imagePullPolicy": "Always",
                "repository": repository,
                "version": branch.to_string(),
            }),
        };
        Map::from_iter([("driver".to_owned(), driver)])
    }

    /// The chart's values that keep running drivers where ClusterPolicy describes them.
    pub(super) fn upgrade_values(&self, step: &Step) -> Map<String, Value> {
        match (self, step.layout, step.drivers) {
            (Self::Precompiled { .. }, DriverLayout::ClusterPolicy, DriverUpgrades::Held) => {
                let driver = json!({ "upgradePolicy": { "autoUpgrade": false } });
                Map::from_iter([("driver".to_owned(), driver)])
            }
            _ => Map::new(),
        }
    }

    /// The NVIDIADriver for `extraObjects`, where one describes the driver.
    ///
    /// `values` are the merged values: what NVIDIA's chart would copy from them into its own NVIDIADriver is copied here.
    pub(super) fn object(
        &self,
        module: &GpuModuleSpec,
        chart: &Chart,
        values: &Map<String, Value>,
        step: &Step,
    ) -> Option<Value> {
        let (
            Self::Precompiled {
                branch, repository, ..
            },
            DriverLayout::NvidiaDriver,
        ) = (self, step.layout)
        else {
            return None;
        };
        let mut spec = chart.nvidia_driver.clone()?;
        spec.insert("usePrecompiled".to_owned(), true.into());
        spec.insert("repository".to_owned(), repository.as_str().into());
        spec.insert("version".to_owned(), branch.to_string().into());
        if let Some(typed) = &module.driver {
            if let Some(kind) = kernel_modules::word(typed) {
                spec.insert("kernelModuleType".to_owned(), kind.into());
            }
            if let Some(upgrade) = &typed.upgrade {
                let policy = json!({ "upgradePolicy": driver_upgrade::policy(upgrade) });
                merge::merge(&mut spec, policy.as_object()?, &[]);
            }
        }
        if let Some(Value::String(repository)) = path::get(&spec, "manager.repository") {
            let repository = images::mirrored(repository, module);
            path::set(&mut spec, "manager.repository", repository.into());
        }
        if step.drivers == DriverUpgrades::Held {
            let policy = spec.entry("upgradePolicy").or_insert_with(|| json!({}));
            policy["autoUpgrade"] = false.into();
        }
        for (field, source) in [
            ("tolerations", "daemonsets.tolerations"),
            ("labels", "daemonsets.labels"),
            ("annotations", "daemonsets.annotations"),
            ("priorityClassName", "daemonsets.priorityClassName"),
            ("imagePullSecrets", "operator.imagePullSecrets"),
        ] {
            if let Some(value) = path::get(values, source).filter(|value| !value.is_null()) {
                spec.insert(field.to_owned(), value.clone());
            }
        }
        Some(json!({
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "NVIDIADriver",
            "metadata": { "name": OBJECT_NAME },
            "spec": spec,
        }))
    }
}
