//! The catalogue: which chart versions the module knows and what it gives them.
//!
//! All of it is data in `chart-values/`, compiled in; adding a chart version touches that folder alone. This module
//! reads the data once at start and refuses a catalogue that contradicts itself, so later steps need no checks.

mod drivers;
mod instance_types;
mod load;
mod restarts;
mod version;

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::DriverBranch;

pub use drivers::{DriverMatrix, Exclusion, GardenLinuxLine, KernelFlavour};
pub use instance_types::InstanceTypes;
pub use load::CatalogueError;
pub use restarts::{Restart, Restarts, ValueRestart};
pub use version::{GardenLinuxVersion, MinorVersion, ParseGardenLinuxVersionError, ParseMinorVersionError};

#[cfg(test)]
mod tests;

/// Everything that `chart-values/` says.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// What an empty field of the spec means.
    pub defaults: Defaults,
    /// Values that every release gets on Garden Linux.
    pub base: Map<String, Value>,
    /// What a change of a value restarts.
    pub restarts: Restarts,
    /// For which nodes there are driver images.
    pub drivers: DriverMatrix,
    /// Instance types with NVIDIA GPUs.
    pub instance_types: InstanceTypes,
    charts: BTreeMap<Version, Chart>,
}

/// `chart-values/defaults.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Defaults {
    /// Chart version that is installed when the spec names none.
    pub chart_version: Version,
    /// Driver that is installed when the spec names none.
    pub driver: DriverDefaults,
    /// Dotted paths of values that `spec.values` may not touch, whatever the chart version.
    pub owned_values: Vec<String>,
    /// Dotted paths of configuration files: at and below them a text may have several lines. The charts must indent or quote it.
    #[serde(default)]
    pub multiline_values: Vec<String>,
    /// The NodeFeatureRule that takes the place of the module's own Node Feature Discovery where the cluster has one.
    pub node_feature_rule: Map<String, Value>,
    /// Dotted paths of values that no chart of the catalogue reads any more.
    pub obsolete_values: Vec<String>,
    /// Lists to which `spec.values` adds.
    pub merged_lists: Vec<MergedList>,
    /// Registries, with or without a path, that users may name; empty: all.
    #[serde(default)]
    pub allowed_registries: Vec<String>,
    /// Dotted paths at and below which `spec.values` may say something; `None`: everywhere.
    #[serde(default)]
    pub open_values: Option<Vec<String>>,
}

/// The default driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DriverDefaults {
    /// Driver branch.
    pub branch: DriverBranch,
    /// Release of the Garden Linux NVIDIA installer.
    pub installer_release: String,
    /// Registry path that holds the installer's releases.
    pub repository: String,
}

/// A list of the values that is merged by element instead of being replaced.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MergedList {
    /// Dotted path of the list.
    pub path: String,
    /// Field by which elements are told apart; without it only equal elements are the same.
    pub key: Option<String>,
    /// True refuses a user's element that has the key of one of the module's.
    #[serde(default)]
    pub reserved: bool,
}

/// `chart-values/charts/<version>.yaml`: one version of NVIDIA's chart.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Chart {
    /// Chart version without the leading `v`.
    pub version: Version,
    /// SHA-256 of the release archive, in hexadecimal, as NVIDIA's repository index publishes it.
    pub sha256: String,
    /// What the module does with this version.
    pub stage: Stage,
    /// The line that may be upgraded to this version; NVIDIA supports no other step.
    pub upgrades_from: MinorVersion,
    /// Oldest Kubernetes that this version is validated on.
    pub minimum_kubernetes: MinorVersion,
    /// Which object describes the driver.
    pub driver_layout: DriverLayout,
    /// Dotted paths of values that `spec.values` may not touch in this version, besides [`Defaults::owned_values`].
    #[serde(default)]
    pub owned_values: Vec<String>,
    /// Names of the CRDs that the chart and its subchart bring; empty: they are not watched.
    #[serde(default)]
    pub crds: Vec<String>,
    /// Where the chart takes its images from: dotted path of a component's values, and its `repository`.
    #[serde(default)]
    pub image_repositories: BTreeMap<String, String>,
    /// Values of this version over [`Catalogue::base`].
    #[serde(default)]
    pub values: Map<String, Value>,
    /// Spec of the NVIDIADriver; present exactly with [`DriverLayout::NvidiaDriver`].
    pub nvidia_driver: Option<Map<String, Value>>,
}

/// What the module does with a chart version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Stage {
    /// May be asked for in `spec.chartVersion`.
    Install,
    /// Known only as the start of an upgrade.
    UpgradeFrom,
    /// Was once offered and is refused now.
    Retired,
}

/// Which of NVIDIA's objects describes the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum DriverLayout {
    /// The driver section of the ClusterPolicy.
    ClusterPolicy,
    /// One NVIDIADriver, given to the chart through `extraObjects`.
    #[serde(rename = "NVIDIADriver")]
    NvidiaDriver,
}

impl DriverLayout {
    /// The word in the catalogue and in release labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterPolicy => "ClusterPolicy",
            Self::NvidiaDriver => "NVIDIADriver",
        }
    }

    /// Reads a release label.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::ClusterPolicy, Self::NvidiaDriver]
            .into_iter()
            .find(|layout| layout.as_str() == label)
    }
}

impl Chart {
    /// File name of the release archive.
    pub fn archive(&self) -> String {
        format!("gpu-operator-v{}.tgz", self.version)
    }

    /// Version of NVIDIA's gpu-operator in the chart; NVIDIA releases both under one number.
    pub fn app_version(&self) -> String {
        format!("v{}", self.version)
    }

    /// The line of this version, for example 26.7.
    pub fn line(&self) -> MinorVersion {
        MinorVersion::of(&self.version)
    }
}

impl Catalogue {
    /// The chart version that an empty `spec.chartVersion` means.
    ///
    /// A catalogue without it cannot be loaded; only then would this be `None`.
    pub fn default_chart(&self) -> Option<&Chart> {
        self.chart(&self.defaults.chart_version)
    }

    /// The chart of that version, whatever its stage.
    pub fn chart(&self, version: &Version) -> Option<&Chart> {
        self.charts.get(version)
    }

    /// All charts, oldest first.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.charts.values()
    }

    /// The next chart on the supported way from an installed version to `to`; `to` itself where one step is enough.
    ///
    /// NVIDIA supports upgrades within a line and to the next one. The error is the line that the catalogue has no chart of.
    pub fn next_step<'a>(&'a self, installed: &Version, to: &'a Chart) -> Result<&'a Chart, MinorVersion> {
        let from = MinorVersion::of(installed);
        let mut next = to;
        while next.line() != from && next.upgrades_from != from {
            let line = next.upgrades_from;
            let mut newest_first = self.charts.values().rev();
            let offered = newest_first.find(|chart| chart.stage == Stage::Install && chart.line() == line);
            next = offered.ok_or(line)?;
        }
        Ok(next)
    }

    /// Versions that may be asked for, newest first.
    pub fn installable(&self) -> Vec<&Version> {
        let offered = self.charts.values().filter(|chart| chart.stage == Stage::Install);
        offered.map(|chart| &chart.version).rev().collect()
    }
}
