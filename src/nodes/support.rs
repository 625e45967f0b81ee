//! Whether there is a driver for a node: the support matrix, applied.

use std::fmt;

use crate::catalogue::{DriverMatrix, GardenLinuxVersion, KernelFlavour};
use crate::desired::{Desired, ResolvedDriver};
use crate::facts::SystemFacts;

/// What `status.nodeInfo.osImage` of a node with Garden Linux begins with; its version follows.
const GARDEN_LINUX: &str = "Garden Linux";

/// What the tag of every driver image for Garden Linux ends with: its ID and the VERSION_ID that the module has it labelled with.
const IMAGE_SUFFIX: &str = "gardenlinux0";

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// It runs another operating system.
    ForeignOperatingSystem {
        /// `status.nodeInfo.osImage`.
        os_image: String,
    },
    /// The installer has no drivers for its architecture.
    UnsupportedArchitecture {
        /// As Go names it.
        architecture: String,
    },
    /// The branch that is asked for has none for its version of Garden Linux.
    ExcludedDriver {
        /// `status.nodeInfo.osImage`.
        os_image: String,
        /// What the support matrix says of it.
        why: String,
    },
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
        let os_image = system.os_image.trim();
        if os_image.is_empty() {
            return Self::Unjudged;
        }
        let Some(version) = os_image.strip_prefix(GARDEN_LINUX) else {
            return Self::Impossible(Impossible::ForeignOperatingSystem {
                os_image: os_image.to_owned(),
            });
        };
        if *installer_release != matrix.installer_release {
            return Self::Unjudged;
        }
        if !matrix.architectures.contains(&system.architecture) {
            return Self::Impossible(Impossible::UnsupportedArchitecture {
                architecture: system.architecture.clone(),
            });
        }
        let Ok(version) = version.trim().parse::<GardenLinuxVersion>() else {
            return Self::Unknown;
        };
        let mut excluded = matrix.excluded.iter();
        let excluded = excluded.find(|excluded| excluded.branch == *branch && version >= excluded.from);
        if let Some(excluded) = excluded {
            return Self::Impossible(Impossible::ExcludedDriver {
                os_image: os_image.to_owned(),
                why: excluded.why.clone(),
            });
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

    /// The reason by which a user finds help, where there is one.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Unjudged | Self::Supported => None,
            Self::Unknown => Some("DriverImageUnknown"),
            Self::Impossible(impossible) => Some(impossible.reason()),
        }
    }
}

impl Impossible {
    /// The reason by which a user finds help.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ForeignOperatingSystem { .. } => "ForeignOperatingSystem",
            Self::UnsupportedArchitecture { .. } => "UnsupportedArchitecture",
            Self::ExcludedDriver { .. } => "ExcludedDriver",
        }
    }
}

/// What is wrong with the node, and what to do; follows its name.
impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOperatingSystem { os_image } => write!(
                f,
                "runs {os_image}, and there are drivers for Garden Linux only, give its worker pool the machine image gardenlinux"
            ),
            Self::UnsupportedArchitecture { architecture } => write!(
                f,
                "has the architecture {architecture}, for which there are no drivers, give its worker pool a machine type with amd64"
            ),
            Self::ExcludedDriver { os_image, why } => {
                write!(f, "runs {os_image}: {why}, choose another spec.driver.branch")
            }
        }
    }
}

/// The driver image that a node with Garden Linux will ask for; `None` where it asks for none, or nobody knows its kernel.
pub fn driver_image(system: &SystemFacts, desired: &Desired) -> Option<String> {
    if !system.os_image.trim().starts_with(GARDEN_LINUX) || system.kernel.is_empty() {
        return None;
    }
    let prefix = desired.driver_image_prefix()?;
    Some(format!("{prefix}{}-{IMAGE_SUFFIX}", system.kernel))
}
