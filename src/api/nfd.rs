//! Node Feature Discovery, which tells NVIDIA's operator what each node is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whose Node Feature Discovery labels the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NodeFeatureDiscovery {
    /// The one in NVIDIA's chart, a part of the release.
    #[default]
    Module,
    /// One that was there already; the release only gives it a rule for Garden Linux.
    Cluster,
}

impl NodeFeatureDiscovery {
    /// The word in the status and in release labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Module => "Module",
            Self::Cluster => "Cluster",
        }
    }

    /// Reads a release label.
    pub fn from_label(label: &str) -> Option<Self> {
        [Self::Module, Self::Cluster]
            .into_iter()
            .find(|whose| whose.as_str() == label)
    }
}
