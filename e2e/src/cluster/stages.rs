//! KWOK's configuration: its own stages, with a way to keep it off single Nodes and Pods.
//!
//! KWOK plays the kubelet: nodes become Ready, Pods run, the Pods of Jobs succeed, deleted Pods go. A Node or
//! Pod with the annotation [`HOLD`] is left as it is until the annotation goes, so that a test or the
//! simulated operator can show any other state on it. Deletion is never held.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Annotation that keeps KWOK from driving a Node or Pod. The value is free; it should say what for.
///
/// To hold a Pod from its first moment, put it into the Pod template.
pub const HOLD: &str = "simulated.gpu-manager.kyma-project.io/hold";

/// Name of the stage that removes deleted Pods.
const DELETE_STAGE: &str = "pod-delete";

/// Name of the stage that makes Pods Ready.
const READY_STAGE: &str = "pod-ready";

/// Writes KWOK's configuration file: every stage in `stages`, changed as needed.
pub(super) fn write_config(stages: &Path, config: &Path) -> Result<()> {
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(stages).with_context(|| format!("cannot list {}", stages.display()))? {
        let path = entry?.path();
        let stage = std::fs::read_to_string(&path)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(serde_saphyr::from_str::<Value>(&text)?))
            .and_then(adapt)
            .with_context(|| format!("cannot use KWOK's stage {}", path.display()))?;
        documents.push(serde_json::to_string(&stage)?);
    }
    // JSON is YAML, so one line is one document.
    std::fs::write(config, documents.join("\n---\n"))
        .with_context(|| format!("cannot write {}", config.display()))
}

fn adapt(mut stage: Value) -> Result<Value> {
    let name = stage
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let rules = stage
        .pointer_mut("/spec/selector/matchExpressions")
        .and_then(Value::as_array_mut)
        .context("it has no list spec.selector.matchExpressions")?;
    if name != DELETE_STAGE {
        let key = format!(".metadata.annotations[\"{HOLD}\"]");
        rules.push(json!({ "key": key, "operator": "DoesNotExist" }));
    }
    if name == READY_STAGE {
        // KWOK's own stage takes Pending Pods only. A Pod that was shown as failing is Running, and must
        // become Ready like any other once its hold is gone.
        let phase = rules.iter_mut().find(|rule| rule["key"] == ".status.phase");
        phase.context("it has no rule on .status.phase")?["values"] = json!(["Pending", "Running"]);
    }
    Ok(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str) -> Value {
        json!({
            "metadata": { "name": name },
            "spec": { "selector": { "matchExpressions": [
                { "key": ".status.phase", "operator": "In", "values": ["Pending"] }
            ] } },
        })
    }

    #[test]
    fn every_stage_but_deletion_respects_the_hold() {
        let held = adapt(stage("node-initialize")).unwrap();
        let rule = &held["spec"]["selector"]["matchExpressions"][1];
        assert_eq!(rule["operator"], "DoesNotExist");
        assert!(rule["key"].as_str().unwrap().contains(HOLD));
        assert_eq!(adapt(stage("pod-delete")).unwrap(), stage("pod-delete"));
    }

    #[test]
    fn a_failing_pod_can_recover() {
        let ready = adapt(stage("pod-ready")).unwrap();
        let phases = &ready["spec"]["selector"]["matchExpressions"][0]["values"];
        assert_eq!(phases, &json!(["Pending", "Running"]));
    }
}
