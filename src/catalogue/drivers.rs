//! `chart-values/drivers.yaml`: for which nodes one release of the Garden Linux NVIDIA installer has driver images.
//!
//! Only data and how it is read; what it means for a node is decided in `nodes`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{DriverDefaults, GardenLinuxVersion};
use crate::api::DriverBranch;

/// The support matrix.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DriverMatrix {
    /// The release of the installer that it is of.
    pub installer_release: String,
    /// Architectures as Go names them.
    pub architectures: Vec<String>,
    /// Kernels that there are drivers for.
    pub kernel_flavours: Vec<KernelFlavour>,
    /// Full versions of the drivers, one of each branch that the installer still has.
    pub drivers: Vec<String>,
    /// Versions of Garden Linux.
    pub garden_linux: Vec<GardenLinuxLine>,
    /// What there is no image for all the same.
    pub excluded: Vec<Exclusion>,
}

/// For which machines a kernel is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelFlavour {
    /// For virtual machines of clouds: `6.18.41-cloud-amd64`.
    Cloud,
    /// For machines of all kinds: `6.18.41-amd64`.
    Metal,
}

/// Versions of Garden Linux with one series of kernels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GardenLinuxLine {
    /// The series, for example `6.18`.
    pub kernel: String,
    /// The versions.
    pub versions: Vec<GardenLinuxVersion>,
}

/// A driver branch that a later Garden Linux cannot have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// The branch.
    pub branch: DriverBranch,
    /// The first version without it; every later one is without it, too.
    pub from: GardenLinuxVersion,
    /// Why, in words that follow a name.
    pub why: String,
}

impl DriverMatrix {
    /// The full version of the driver that the images of a branch hold.
    pub fn driver(&self, branch: DriverBranch) -> Option<&str> {
        let mut drivers = self.drivers.iter();
        let found = drivers.find(|version| branch_of(version) == Some(branch))?;
        Some(found)
    }

    /// What contradicts the rest of the catalogue or itself.
    pub(super) fn complaint(&self, default: &DriverDefaults) -> Option<String> {
        let default_release = &default.installer_release;
        if &self.installer_release != default_release {
            let own = &self.installer_release;
            return Some(format!(
                "drivers.yaml is of installer release {own}, while the default is {default_release}"
            ));
        }
        for branch in DriverBranch::ALL {
            let drivers = self.drivers.iter().map(|version| branch_of(version));
            let count = drivers.filter(|found| *found == Some(branch)).count();
            // The installer gives branches up, while GpuModules that name them stay readable.
            let given_up = count == 0 && branch != default.branch;
            if count != 1 && !given_up {
                return Some(format!("drivers.yaml must have one driver of branch {branch}"));
            }
        }
        let mut seen = BTreeSet::new();
        let versions = self.garden_linux.iter().flat_map(|line| &line.versions);
        let twice = versions.into_iter().find(|version| !seen.insert(**version));
        twice.map(|version| format!("drivers.yaml names Garden Linux {version} twice"))
    }
}

fn branch_of(version: &str) -> Option<DriverBranch> {
    let number: u16 = version.split('.').next()?.parse().ok()?;
    DriverBranch::try_from(number).ok()
}

impl KernelFlavour {
    /// The flavour of a kernel release, where it is one that there may be drivers for: version, flavour, architecture.
    pub fn of(kernel: &str) -> Option<Self> {
        match kernel.split('-').collect::<Vec<_>>()[..] {
            [_, "cloud", _] => Some(Self::Cloud),
            [_, _] => Some(Self::Metal),
            _ => None,
        }
    }
}

impl GardenLinuxLine {
    /// True for a kernel release of the line's series.
    pub fn has_kernel(&self, kernel: &str) -> bool {
        let rest = kernel.strip_prefix(self.kernel.as_str());
        rest.is_some_and(|rest| rest.starts_with(['.', '-']))
    }
}
