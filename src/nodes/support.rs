//! Whether there is a driver for a node: the support matrix, applied.

use crate::catalogue::{DriverMatrix, GardenLinuxVersion, KernelFlavour};
use crate::desired::{Desired, ResolvedDriver};
use crate::facts::SystemFacts;

/// What the tag of every driver image for Garden Linux ends with: its ID and the VERSION_ID that the module has it labelled with.
pub const IMAGE_SUFFIX: &str = "gardenlinux0";

/// Whether there is a driver for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// Nobody can say: the node has not reported what it runs, the driver is preinstalled, or its images are of an installer
    /// release that the module does not know.
    Unjudged,
    /// There is an image for it.
    Supported,
    /// No image for it is known. There may be one, since images can be newer than the module.
    Unknown,
    /// There cannot be one.
    Impossible(Impossible),
}

/// Why there cannot be a driver for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// It runs another operating system.
    ForeignOperatingSystem,
    /// The installer has no drivers for its architecture.
    UnsupportedArchitecture,
    /// The branch that is asked for has none for its version of Garden Linux.
    ExcludedDriver,
}

impl Support {
    /// Judges a node by what it runs.
    pub fn of(system: &SystemFacts, driver: &ResolvedDriver, matrix: &DriverMatrix) -> Self {
        let ResolvedDriver::Precompiled {
            branch,
            installer_release,
            ..
        } = driver
        else {
            return Self::Unjudged;
        };
        if system.os_image.trim().is_empty() {
            return Self::Unjudged;
        }
        let Some(version) = system.garden_linux() else {
            return Self::Impossible(Impossible::ForeignOperatingSystem);
        };
        if *installer_release != matrix.installer_release {
            return Self::Unjudged;
        }
        if !matrix.architectures.contains(&system.architecture) {
            return Self::Impossible(Impossible::UnsupportedArchitecture);
        }
        let Ok(version) = version.parse::<GardenLinuxVersion>() else {
            return Self::Unknown;
        };
        let mut excluded = matrix.excluded.iter();
        if excluded.any(|excluded| excluded.branch == *branch && version >= excluded.from) {
            return Self::Impossible(Impossible::ExcludedDriver);
        }
        let known_flavour = KernelFlavour::of(&system.kernel)
            .is_some_and(|flavour| matrix.kernel_flavours.contains(&flavour));
        let mut lines = matrix.garden_linux.iter();
        let known_system =
            lines.any(|line| line.versions.contains(&version) && line.has_kernel(&system.kernel));
        if known_flavour && known_system && matrix.driver(*branch).is_some() {
            Self::Supported
        } else {
            Self::Unknown
        }
    }
}

/// The driver image that a node with Garden Linux will ask for; `None` where it asks for none, or nobody knows its kernel.
pub fn driver_image(system: &SystemFacts, desired: &Desired) -> Option<String> {
    if !system.is_garden_linux() || system.kernel.is_empty() {
        return None;
    }
    let prefix = desired.driver_image_prefix()?;
    Some(format!("{prefix}{}-{IMAGE_SUFFIX}", system.kernel))
}
