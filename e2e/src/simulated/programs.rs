//! Which of the real programs writes what onto a node, by the name under which the API server remembers it.
//!
//! None of them sets a field manager, so it is the name of the binary: the controller, and the master of Node Feature Discovery, which
//! also publishes what GPU Feature Discovery finds. The MIG manager is a script that calls `kubectl label`.

use serde_json::{Map, Value, json};

use super::names;

/// The controller; also for everything that is no label or annotation of another program.
pub const CONTROLLER: &str = "gpu-operator";
const NFD_MASTER: &str = "nfd-master";
const MIG_MANAGER: &str = "kubectl-label";

/// Prefix of NFD's annotations.
const NFD_ANNOTATIONS: &str = "nfd.node.kubernetes.io/";

/// A patch of a node as the patches that the programs send, each with its name.
pub fn split(patch: &Value) -> Vec<(&'static str, Value)> {
    let mut rest = patch.clone();
    let mut patches = Vec::new();
    for program in [NFD_MASTER, MIG_MANAGER] {
        let mut metadata = Map::new();
        for place in ["labels", "annotations"] {
            let keys = rest.pointer_mut(&format!("/metadata/{place}"));
            let Some(keys) = keys.and_then(Value::as_object_mut) else {
                continue;
            };
            let (theirs, others): (Map<_, _>, Map<_, _>) = std::mem::take(keys)
                .into_iter()
                .partition(|(key, _)| writer(key) == program);
            *keys = others;
            if !theirs.is_empty() {
                metadata.insert(place.to_owned(), theirs.into());
            }
        }
        if !metadata.is_empty() {
            patches.push((program, json!({ "metadata": metadata })));
        }
    }
    patches.push((CONTROLLER, rest));
    patches
}

fn writer(key: &str) -> &'static str {
    let of_controller = [
        names::GPU_PRESENT,
        names::DRIVER_OWNER,
        names::MIG_CONFIG,
        names::PLUGIN_CONFIG,
    ];
    let prefixes = [names::DEPLOY_PREFIX, "nvidia.com/gpu-driver-upgrade"];
    if key == names::MIG_CONFIG_STATE {
        MIG_MANAGER
    } else if of_controller.contains(&key) || prefixes.iter().any(|prefix| key.starts_with(prefix)) {
        CONTROLLER
    } else if [names::NFD_PREFIX, NFD_ANNOTATIONS, names::NVIDIA_PREFIX]
        .iter()
        .any(|prefix| key.starts_with(prefix))
    {
        NFD_MASTER
    } else {
        CONTROLLER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_written_by_its_program() {
        let patch = json!({
            "metadata": {
                "labels": {
                    "nvidia.com/gpu.present": "true",
                    "nvidia.com/gpu.count": "1",
                    "nvidia.com/mig.config.state": "success",
                    "feature.node.kubernetes.io/pci-10de.present": null,
                },
                "annotations": { "nfd.node.kubernetes.io/feature-labels": "a" },
            },
            "spec": { "unschedulable": true },
        });
        let expected = [
            (
                NFD_MASTER,
                json!({ "metadata": {
                    "labels": { "nvidia.com/gpu.count": "1", "feature.node.kubernetes.io/pci-10de.present": null },
                    "annotations": { "nfd.node.kubernetes.io/feature-labels": "a" },
                }}),
            ),
            (
                MIG_MANAGER,
                json!({ "metadata": { "labels": { "nvidia.com/mig.config.state": "success" } } }),
            ),
            (
                CONTROLLER,
                json!({
                    "metadata": { "labels": { "nvidia.com/gpu.present": "true" }, "annotations": {} },
                    "spec": { "unschedulable": true },
                }),
            ),
        ];
        assert_eq!(split(&patch), expected);
    }
}
