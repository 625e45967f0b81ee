//! `spec.nodes.tolerations`: everything that the stack runs tolerates them.
//!
//! Where each pool has a taint, NVIDIA's operator, its hook Jobs and Node Feature Discovery have no other place to run.

use serde_json::{Map, json};

use super::typed::Typed;
use crate::api::GpuModuleSpec;

pub fn typed(spec: &GpuModuleSpec) -> Option<Typed> {
    let tolerations = &spec.nodes.as_ref()?.tolerations;
    if tolerations.is_empty() {
        return None;
    }
    let tolerated = json!({ "tolerations": tolerations });
    Some(Typed {
        field: "spec.nodes.tolerations",
        values: Map::from_iter([
            // The DaemonSets of NVIDIA's operator; the NVIDIADriver takes them from here.
            ("daemonsets".to_owned(), tolerated.clone()),
            // NVIDIA's operator and its hooks.
            ("operator".to_owned(), tolerated.clone()),
            (
                "node-feature-discovery".to_owned(),
                // The hook that cleans nodes up takes the master's.
                json!({ "worker": tolerated, "master": tolerated, "gc": tolerated }),
            ),
        ]),
        excludes: vec![],
    })
}
