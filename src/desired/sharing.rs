//! `spec.sharing`: the device plugin's configuration.
//!
//! NVIDIA's operator does not look into the ConfigMap that it mounts, so the name says what is in it: other content is another
//! name, with which the device plugin starts anew.

use serde_json::{Map, json};

use super::digest;
use super::typed::Typed;
use crate::api::GpuModuleSpec;

/// Entry of the ConfigMap that every node uses.
const ENTRY: &str = "time-slicing";

pub fn typed(spec: &GpuModuleSpec) -> Option<Typed> {
    let replicas = spec.sharing.as_ref()?.time_slicing.as_ref()?.replicas;
    let content = format!(
        "version: v1\n\
         sharing:\n  \
           timeSlicing:\n    \
             resources:\n      \
               - name: nvidia.com/gpu\n        \
                 replicas: {replicas}\n"
    );
    let digest = digest([content.as_bytes()]);
    let config = json!({
        "create": true,
        "name": format!("gpu-manager-{ENTRY}-{}", &digest[..8]),
        "default": ENTRY,
        "data": { ENTRY: content },
    });
    Some(Typed {
        field: "spec.sharing.timeSlicing",
        values: Map::from_iter([("devicePlugin".to_owned(), json!({ "config": config }))]),
        excludes: vec![
            // Entries of somebody else would not be in the digest.
            ("devicePlugin.config", None),
            ("devicePlugin.enabled", Some(json!(false))),
            // Partitions would be called as GPUs are and shared like them.
            ("mig.strategy", Some(json!("single"))),
        ],
    })
}
