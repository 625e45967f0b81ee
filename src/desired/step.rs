//! A stage that the release goes through on its way to what is wanted.

use std::fmt;

use semver::Version;

use crate::catalogue::DriverLayout;

/// Which chart, and how its driver is described and replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct Step {
    /// Version of the chart.
    pub chart: Version,
    /// Which object describes the driver.
    pub layout: DriverLayout,
    /// Whether NVIDIA's operator may replace running drivers by itself.
    pub drivers: DriverUpgrades,
}

/// Whether NVIDIA's operator may replace running drivers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverUpgrades {
    /// As the module's data and the user's values say.
    AsConfigured,
    /// Not now: a changed driver reaches the DaemonSet and restarts nothing.
    Held,
}

impl DriverUpgrades {
    /// The word in release labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AsConfigured => "AsConfigured",
            Self::Held => "Held",
        }
    }

    /// Reads a release label.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::AsConfigured, Self::Held]
            .into_iter()
            .find(|upgrades| upgrades.as_str() == label)
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.chart, self.layout)?;
        match self.drivers {
            DriverUpgrades::AsConfigured => Ok(()),
            DriverUpgrades::Held => f.write_str(" held"),
        }
    }
}
