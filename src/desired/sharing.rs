//! `spec.sharing`: the device plugin's configuration.
//!
//! NVIDIA's operator does not look into the ConfigMap that it mounts, so the name says what is in it: other content is another
//! name, with which the device plugin starts anew.

use serde_json::{Map, json};

use super::typed::Typed;
use super::{digest, path};
use crate::api::GpuModuleSpec;

/// Entry of the ConfigMap that every node uses.
const ENTRY: &str = "time-slicing";

/// Value that says how partitions are offered.
const STRATEGY: &str = "mig.strategy";

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
    let mut values = Map::from_iter([("devicePlugin".to_owned(), json!({ "config": config }))]);
    // The chart's own strategy is single, by which partitions would be called as GPUs are and shared like them.
    if !says_strategy(spec) {
        path::set(&mut values, STRATEGY, "mixed".into());
    }
    Some(Typed {
        field: "spec.sharing.timeSlicing",
        values,
        excludes: vec![
            // Entries of somebody else would not be in the digest.
            ("devicePlugin.config", None),
            ("devicePlugin.enabled", Some(json!(false))),
            (STRATEGY, Some(json!("single"))),
        ],
    })
}

/// True where the user says how partitions are offered.
fn says_strategy(spec: &GpuModuleSpec) -> bool {
    let by_field = spec.mig.as_ref().is_some_and(|mig| mig.strategy.is_some());
    let by_value = spec
        .values
        .as_ref()
        .and_then(|values| path::touched(values, STRATEGY));
    by_field || by_value.is_some()
}
