//! What is known of a removal that has begun.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Nodes by name, with their UIDs.
pub type NodeIds = BTreeMap<String, String>;

/// What the module notes on the GpuModule before it takes anything away, so that the next process knows it too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Removal {
    /// Nodes whose driver was being replaced and that were not cordoned before. NVIDIA's operator may have cordoned them, and nothing
    /// else tells so once its labels are gone.
    pub in_driver_upgrade: NodeIds,
}

impl Removal {
    /// What the annotation says. One that cannot be read still says that the removal has begun.
    pub fn parse(annotation: &str) -> Self {
        serde_json::from_str(annotation).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        let removal = Removal {
            in_driver_upgrade: NodeIds::from([("gpu-0".to_owned(), "uid".to_owned())]),
        };
        let annotation = serde_json::to_string(&removal).unwrap();
        assert_eq!(annotation, r#"{"inDriverUpgrade":{"gpu-0":"uid"}}"#);
        assert_eq!(Removal::parse(&annotation), removal);
        assert_eq!(Removal::parse("by hand"), Removal::default());
    }
}
