//! `spec.driver.upgrade`: what NVIDIA's upgrade controller is told.

use serde_json::{Map, Value, json};

use super::typed::Typed;
use crate::api::{DriverSpec, DriverUpgradeSpec};
use crate::catalogue::DriverLayout;

/// Where the ClusterPolicy describes the driver.
pub fn typed(driver: &DriverSpec, layout: DriverLayout) -> Option<Typed> {
    let upgrade = driver.upgrade.as_ref()?;
    (layout == DriverLayout::ClusterPolicy).then(|| {
        let mut policy = policy(upgrade);
        // The chart has a name of its own for this part.
        if let Some(deletion) = policy.remove("podDeletion") {
            policy.insert("gpuPodDeletion".to_owned(), deletion);
        }
        Typed::new("spec.driver.upgrade", "driver.upgradePolicy", policy)
    })
}

/// As a NVIDIADriver has it, without what is left open.
pub fn policy(upgrade: &DriverUpgradeSpec) -> Map<String, Value> {
    let drain = upgrade.drain.as_ref().map(|drain| {
        json!({
            "enable": drain.enabled,
            "force": drain.force,
            "timeoutSeconds": drain.timeout_seconds,
            "deleteEmptyDir": drain.delete_empty_dir,
        })
    });
    let fields = [
        ("maxParallelUpgrades", json!(upgrade.max_parallel)),
        ("maxUnavailable", json!(upgrade.max_unavailable)),
        ("podDeletion", json!(upgrade.pod_deletion)),
        ("drain", json!(drain)),
    ];
    fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), without_nulls(value)?)))
        .collect()
}

fn without_nulls(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(map) => {
            let said = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_nulls(value)?)));
            Some(said.collect())
        }
        value => Some(value),
    }
}
