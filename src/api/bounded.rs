//! Values of the spec that are closed sets, and schemas that several fields have.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// NVIDIA driver branch, the major version of the driver.
///
/// The Garden Linux installer keeps images for the three newest branches; written as a number (`branch: 580`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum DriverBranch {
    /// 570, no images for Garden Linux 2150.8 and newer.
    R570,
    /// 580, supported by NVIDIA and by the Garden Linux installer.
    R580,
    /// 590, the default of the Garden Linux installer.
    R590,
}

impl DriverBranch {
    /// Every branch, oldest first.
    pub const ALL: [Self; 3] = [Self::R570, Self::R580, Self::R590];

    /// The number that users write and image tags begin with.
    pub const fn number(self) -> u16 {
        match self {
            Self::R570 => 570,
            Self::R580 => 580,
            Self::R590 => 590,
        }
    }
}

/// A driver branch that the module does not know.
#[derive(Debug, thiserror::Error)]
#[error("driver branch {0} is unknown, use one of 570, 580, 590")]
pub struct UnknownBranch(u16);

impl TryFrom<u16> for DriverBranch {
    type Error = UnknownBranch;

    fn try_from(number: u16) -> Result<Self, UnknownBranch> {
        Self::ALL
            .into_iter()
            .find(|branch| branch.number() == number)
            .ok_or(UnknownBranch(number))
    }
}

impl From<DriverBranch> for u16 {
    fn from(branch: DriverBranch) -> Self {
        branch.number()
    }
}

impl fmt::Display for DriverBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

impl JsonSchema for DriverBranch {
    fn schema_name() -> Cow<'static, str> {
        "DriverBranch".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "enum": Self::ALL.map(Self::number) })
    }
}

/// A registry with or without a path, without tag.
pub fn registry_path(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "nullable": true,
        "minLength": 1,
        "maxLength": 255,
        "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$",
    })
}

/// Names of a few objects.
pub fn object_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 4,
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
        },
    })
}
