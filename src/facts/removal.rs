//! What is known of a removal that has begun.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::told;

/// UIDs of nodes.
pub type NodeIds = BTreeSet<String>;

/// Most nodes of a note: the API server takes 256 KiB of annotations on one object, and a UID is 39 bytes in it. Kubernetes is made for clusters of
/// up to 5,000 nodes.
pub const MOST_NOTED: usize = 6000;

/// What the module notes on the GpuModule before it takes anything away, so that the next process knows it too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Removal {
    /// Nodes whose driver was being replaced and that were not cordoned before, at most [`MOST_NOTED`]. NVIDIA's operator may have cordoned
    /// them, and nothing else tells so once its labels are gone.
    pub in_driver_upgrade: NodeIds,
    /// When it began, after whatever held it. `None` where nothing is taken away, since what is there is not the module's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// UID of the GpuModule: a note that was copied to another one, or restored from a backup, says nothing of that.
    pub of: String,
    /// What stays in the cluster, in words, once everything else is taken away. After this note the operator gives back its own rights, so
    /// nothing is read any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<Vec<String>>,
}

impl Removal {
    /// What the annotation of the GpuModule with that UID says. One that is not its own, or cannot be read, says nothing: the removal begins.
    pub fn parse(annotation: &str, uid: &str) -> Option<Self> {
        let mut note: Self = serde_json::from_str(annotation).ok()?;
        note.began = note.began.map(told);
        (note.of == uid).then_some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read_again() {
        let removal = Removal {
            in_driver_upgrade: NodeIds::from(["uid".to_owned()]),
            began: Some(Timestamp::UNIX_EPOCH),
            of: "module".to_owned(),
            stays: None,
        };
        let annotation = serde_json::to_string(&removal).unwrap();
        assert_eq!(
            annotation,
            r#"{"inDriverUpgrade":["uid"],"began":"1970-01-01T00:00:00Z","of":"module"}"#
        );
        assert_eq!(Removal::parse(&annotation, "module"), Some(removal));
        assert_eq!(Removal::parse(&annotation, "another"), None);
        assert_eq!(Removal::parse("by hand", "module"), None);
    }

    #[test]
    fn the_note_of_a_large_cluster_fits_into_an_annotation() {
        let uid = |node: usize| format!("{node:08x}-0000-4000-8000-000000000000");
        let removal = Removal {
            in_driver_upgrade: (0..MOST_NOTED).map(uid).collect(),
            began: Some(Timestamp::UNIX_EPOCH),
            of: uid(0),
            stays: Some(vec!["what somebody else needs ".repeat(10); 20]),
        };
        let length = serde_json::to_string(&removal).unwrap().len();
        assert!(length < 256 * 1024 - 10_000, "{length}");
    }

    #[test]
    fn a_time_without_end_is_no_trap() {
        let annotation = r#"{"began":"9999-12-30T22:00:00Z","of":"module"}"#;
        let began = Removal::parse(annotation, "module").unwrap().began.unwrap();
        assert!(began + jiff::SignedDuration::from_mins(20) > began);
    }
}
