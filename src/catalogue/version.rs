//! Versions of which only major and minor count: chart lines and Kubernetes releases.

use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde::Deserialize;

/// A major and minor version, for example the chart line 26.7 or Kubernetes 1.33.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct MinorVersion {
    /// The first number.
    pub major: u64,
    /// The second number.
    pub minor: u64,
}

impl MinorVersion {
    /// The line that a full version belongs to.
    pub const fn of(version: &Version) -> Self {
        Self {
            major: version.major,
            minor: version.minor,
        }
    }
}

/// A text that is no `<major>.<minor>`.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a version of the form <major>.<minor>")]
pub struct ParseMinorVersionError(String);

impl FromStr for MinorVersion {
    type Err = ParseMinorVersionError;

    /// Reads `26.7`; a trailing `+` of the minor, as some clusters report it (`1.33+`), is ignored.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseMinorVersionError(text.to_owned());
        let (major, minor) = text.split_once('.').ok_or_else(refused)?;
        Ok(Self {
            major: major.parse().map_err(|_| refused())?,
            minor: minor.trim_end_matches('+').parse().map_err(|_| refused())?,
        })
    }
}

impl TryFrom<String> for MinorVersion {
    type Error = ParseMinorVersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of Garden Linux: `1877.23` or `2150.9.0`, the same as `1877.23.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct GardenLinuxVersion([u32; 3]);

/// A text that is no version of Garden Linux.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a version of Garden Linux like 1877.23 or 2150.9.0")]
pub struct ParseGardenLinuxVersionError(String);

impl FromStr for GardenLinuxVersion {
    type Err = ParseGardenLinuxVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || ParseGardenLinuxVersionError(text.to_owned());
        let mut numbers = [0; 3];
        for (at, part) in text.split('.').enumerate() {
            *numbers.get_mut(at).ok_or_else(refused)? = part.parse().map_err(|_| refused())?;
        }
        Ok(Self(numbers))
    }
}

impl TryFrom<String> for GardenLinuxVersion {
    type Error = ParseGardenLinuxVersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for GardenLinuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}
