//! Labels and annotations that NVIDIA's operator, GPU Feature Discovery, Node Feature Discovery and the module have put on nodes.
//!
//! A key counts only if its prefix is theirs and the node's `managedFields` name one of their programs and nobody else for it. What a
//! user, a cloud or an autoscaler has set stays, whatever it is called.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{pages, pages_of};
use crate::drift::{Kind, ObjectRef};
use crate::facts::{Left, Leftover, OPERANDS_LABEL, Remedy};
use crate::kube_api::ApiError;
use crate::observe::reduce;

/// Prefixes of what NVIDIA's programs set.
const NVIDIA: &str = "nvidia.com/";

/// Parts of the keys that Node Feature Discovery sets.
const FEATURES: [&str; 2] = ["feature.node.kubernetes.io/", "nfd.node.kubernetes.io/"];

/// How the programs of the stack call themselves to the API server: none sets a field manager, so client-go takes the name of the binary.
///
/// gpu-operator v25.10 to v26.7.0 (`docker/Dockerfile`), k8s-driver-manager v0.9.1 to v0.12.0 (`cmd/driver-manager`), Node Feature Discovery
/// v0.18 and v0.19. GPU Feature Discovery, and the workers of Node Feature Discovery, write NodeFeatures; nfd-master writes them to the nodes.
const PROGRAMS: [&str; 2] = ["driver-manager", "gpu-operator"];

/// The third of them, which may be the cluster's own, too.
const NFD_MASTER: &str = "nfd-master";

/// Scripts of the stack call kubectl, as people do: `reconfigure-mig.sh` of mig-parted up to v0.15.0, and `driver-manager` of
/// k8s-driver-manager up to v0.8.1. So only the keys and values that these scripts write are theirs.
const KUBECTL: &str = "kubectl-label";

/// Operands that the scripts pause and let run again by label `nvidia.com/gpu.deploy.<operand>`.
const PAUSED: [&str; 10] = [
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "gpu-feature-discovery",
    "mig-manager",
    "nvsm",
    "operator-validator",
    "sandbox-device-plugin",
    "sandbox-validator",
];

/// What is on the nodes.
pub(super) async fn labels(client: &Client, others_label: bool) -> Result<Left, ApiError> {
    let nodes = Api::<Node>::all(client.clone());
    let all = pages(&nodes, "list Nodes").await?;
    Ok(Left {
        objects: all.iter().filter_map(|node| strip(node, others_label)).collect(),
        stays: Vec::new(),
    })
}

/// The module's own label.
pub(super) async fn own_labels(client: &Client) -> Result<Left, ApiError> {
    let nodes = Api::<Node>::all(client.clone());
    let params = ListParams::default().labels(OPERANDS_LABEL);
    let labelled = pages_of(&nodes, params, "list labelled Nodes").await?;
    let ours = labelled
        .iter()
        .filter(|node| reduce::operands(*node).is_some_and(|label| label.is_ours));
    Ok(Left {
        objects: ours.map(|node| leftover(node, Remedy::Unapply)).collect(),
        stays: Vec::new(),
    })
}

fn leftover(node: &PartialObjectMeta<Node>, remedy: Remedy) -> Leftover {
    Leftover {
        object: ObjectRef {
            kind: Kind::new("v1", "Node"),
            namespace: None,
            name: node.name_any(),
        },
        uid: node.uid().unwrap_or_default(),
        remedy,
    }
}

fn strip(node: &PartialObjectMeta<Node>, others_label: bool) -> Option<Leftover> {
    let of = |place: &str, keys: &BTreeMap<String, String>| {
        let theirs = keys.iter().filter(|(key, value)| {
            let of_nfd = FEATURES.iter().any(|part| key.contains(part));
            (key.starts_with(NVIDIA) || (of_nfd && !others_label))
                && is_theirs(node, place, (key, value), others_label)
        });
        theirs
            .map(|(key, _)| (key.clone(), Value::Null))
            .collect::<Map<_, _>>()
    };
    let (labels, annotations) = (
        of("f:labels", node.labels()),
        of("f:annotations", node.annotations()),
    );
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    let patch = json!({ "metadata": { "labels": labels, "annotations": annotations } });
    Some(leftover(node, Remedy::Patch(patch)))
}

/// True where only programs of the stack have set it. What the cluster's own Node Feature Discovery has set is not ours: it takes off by
/// itself what the stack had asked it for.
fn is_theirs(
    node: &PartialObjectMeta<Node>,
    place: &str,
    (key, value): (&str, &str),
    others_label: bool,
) -> bool {
    let field = format!("f:{key}");
    let entries = node.metadata.managed_fields.iter().flatten();
    let owners: BTreeSet<_> = entries
        .filter(|entry| {
            let fields = entry.fields_v1.as_ref();
            fields.is_some_and(|fields| !fields.0["f:metadata"][place][&field].is_null())
        })
        .map(|entry| entry.manager.as_deref().unwrap_or_default())
        .collect();
    let by_script = place == "f:labels" && is_of_script(key, value);
    let is_one = |owner: &&str| match *owner {
        NFD_MASTER => !others_label,
        KUBECTL => by_script,
        owner => PROGRAMS.contains(&owner),
    };
    !owners.is_empty() && owners.iter().all(is_one)
}

/// True for a label that one of the scripts sets. They leave `false` alone: people keep an operand off a node by it.
fn is_of_script(key: &str, value: &str) -> bool {
    let operand = key.strip_prefix("nvidia.com/gpu.deploy.");
    match operand {
        Some("driver") => value == "pre-installed",
        Some(operand) => PAUSED.contains(&operand) && (value == "true" || value.contains("paused-for-")),
        None => key == "nvidia.com/mig.config.state",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(managers: &[(&str, &str)]) -> PartialObjectMeta<Node> {
        let entry = |(manager, key): &(&str, &str)| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": { format!("f:{key}"): {} } } },
            })
        };
        let labels: BTreeMap<_, _> = managers.iter().map(|(_, key)| (*key, "true")).collect();
        serde_json::from_value(json!({
            "metadata": {
                "name": "a", "uid": "u", "labels": labels,
                "managedFields": managers.iter().map(entry).collect::<Vec<_>>(),
            },
        }))
        .unwrap()
    }

    fn stripped(managers: &[(&str, &str)], others_label: bool) -> Vec<String> {
        let Some(leftover) = strip(&node(managers), others_label) else {
            return Vec::new();
        };
        let Remedy::Patch(patch) = leftover.remedy else {
            panic!("no patch")
        };
        let labels = patch["metadata"]["labels"].as_object().unwrap();
        labels.keys().cloned().collect()
    }

    #[test]
    fn only_what_the_stack_alone_has_set_goes() {
        let present = "nvidia.com/gpu.present";
        assert_eq!(stripped(&[("gpu-operator", present)], false), [present]);
        assert!(stripped(&[("kubectl-label", present)], false).is_empty());
        assert!(stripped(&[("gpu-operator", present), ("kubectl-label", present)], false).is_empty());
        assert!(stripped(&[("gpu-operator", "team/gpu")], false).is_empty());
    }

    #[test]
    fn kubectl_may_be_a_script_of_the_stack_or_a_person() {
        let paused = "nvidia.com/gpu.deploy.device-plugin";
        assert_eq!(stripped(&[(KUBECTL, paused)], false), [paused]);
        let state = "nvidia.com/mig.config.state";
        assert_eq!(stripped(&[(KUBECTL, state)], false), [state]);
        for of_person in ["nvidia.com/mig.config", "nvidia.com/gpu.deploy.operands"] {
            assert!(stripped(&[(KUBECTL, of_person)], false).is_empty(), "{of_person}");
        }
        assert!(stripped(&[("kubectl-edit", paused)], false).is_empty());
        assert!(!is_of_script(paused, "false"));
        assert!(is_of_script(paused, "paused-for-mig-change"));
        assert!(is_of_script("nvidia.com/gpu.deploy.driver", "pre-installed"));
        assert!(!is_of_script("nvidia.com/gpu.deploy.driver", "true"));
    }

    #[test]
    fn features_stay_where_somebody_else_labels_the_nodes() {
        let feature = "feature.node.kubernetes.io/pci-10de.present";
        assert_eq!(stripped(&[("nfd-master", feature)], false), [feature]);
        assert!(stripped(&[("nfd-master", feature)], true).is_empty());
        // A label that a user's NodeFeatureRule asks for.
        let rule = "nvidia.com/of-a-rule";
        assert_eq!(stripped(&[("nfd-master", rule)], false), [rule]);
        assert!(stripped(&[("nfd-master", rule)], true).is_empty());
    }
}
