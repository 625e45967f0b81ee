//! Driver upgrades: those that are under way, those that may begin, and the cordons that they leave.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::list;
use crate::api::STACK_DEPLOYMENT;
use crate::drift::{Kind, ObjectRef};
use crate::facts::{
    DriverChange, HelmOwner, Left, Leftover, MOST_NOTED, MachineUpdate, NodeIds, Remedy, Removal,
};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};
use crate::observe::{nvidia, reduce};

/// Selects nodes whose driver upgrade is not done.
const UNFINISHED: &str =
    "nvidia.com/gpu-driver-upgrade-state,nvidia.com/gpu-driver-upgrade-state!=upgrade-done";

/// NVIDIA's operator notes by it that a node was cordoned before the upgrade began, and leaves it so
/// (`vendor/github.com/NVIDIA/k8s-operator-libs/pkg/upgrade` of gpu-operator v26.7.0).
const WAS_CORDONED: &str = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";

/// Nodes that NVIDIA's operator has cordoned for a driver upgrade, or may cordon any moment.
pub async fn unfinished_driver_upgrades(client: &Client) -> Result<NodeIds, ApiError> {
    let nodes = Api::<Node>::all(client.clone());
    let params = ListParams::default().labels(UNFINISHED);
    let what = "list the Nodes whose driver is being replaced";
    let list = deadline(API_DEADLINE, what, nodes.list(&params)).await?;
    Ok(noted(list.items))
}

/// The UIDs of those that may be cordoned, first of those that are.
fn noted(mut unfinished: Vec<Node>) -> NodeIds {
    unfinished.retain(may_be_cordoned_by_nvidia);
    unfinished.sort_by_key(|node| !is_cordoned(node));
    let uids = unfinished.into_iter().filter_map(|node| node.metadata.uid);
    uids.take(MOST_NOTED).collect()
}

/// True where a cordon of the node is that of NVIDIA's operator, or will be. It cordons a node after its turn has come, so one that is
/// cordoned while it waits was cordoned by somebody else.
fn may_be_cordoned_by_nvidia(node: &Node) -> bool {
    let cordoned = is_cordoned(node);
    match DriverChange::of(node.labels()) {
        None => false,
        Some(DriverChange::Waiting) if cordoned => false,
        Some(_) => !node.annotations().contains_key(WAS_CORDONED),
    }
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Whether there is a GPUCluster, whose hook must not be left out.
pub async fn has_gpu_clusters(client: &Client) -> Result<bool, ApiError> {
    Ok(!list(client, &nvidia::gpu_cluster()).await?.is_empty())
}

/// The release's objects that let NVIDIA's operator replace drivers.
pub(super) async fn upgrades(client: &Client) -> Result<Left, ApiError> {
    let mut left = Left::default();
    let of_policy = ["spec", "driver", "upgradePolicy", "autoUpgrade"];
    let places = [
        (nvidia::cluster_policy(), &of_policy[..]),
        (
            nvidia::nvidia_driver(),
            &["spec", "upgradePolicy", "autoUpgrade"][..],
        ),
    ];
    for (kind, path) in places {
        for object in list(client, &kind).await? {
            let owner = reduce::owner(&object.metadata);
            let upgrades = path.iter().fold(&object.data, |value, key| &value[key]) == true;
            if upgrades && owner.as_ref().is_some_and(HelmOwner::is_module_release) {
                let patch = path
                    .iter()
                    .rev()
                    .fold(json!(false), |value, key| json!({ *key: value }));
                left.objects.push(Leftover {
                    object: ObjectRef {
                        kind: Kind::new(&kind.api_version, &kind.kind),
                        namespace: None,
                        name: object.name_any(),
                    },
                    uid: object.uid().unwrap_or_default(),
                    remedy: Remedy::Patch(patch),
                });
            }
        }
    }
    Ok(left)
}

/// The nodes noted that are cordoned, by NVIDIA's operator and by nobody since, and that nobody empties now.
pub(super) async fn cordons(client: &Client, removal: Option<&Removal>) -> Result<Left, ApiError> {
    let noted = removal.map(|removal| &removal.in_driver_upgrade);
    let Some(noted) = noted.filter(|noted| !noted.is_empty()) else {
        return Ok(Left::default());
    };
    let nodes = Api::<Node>::all(client.clone());
    let params = ListParams::default().fields("spec.unschedulable=true");
    let cordoned = deadline(API_DEADLINE, "list cordoned Nodes", nodes.list(&params)).await?;
    let theirs = cordoned.iter().filter(|node| {
        node.uid().is_some_and(|uid| noted.contains(&uid)) && is_cordon_of_nvidia(node) && !is_emptied(node)
    });
    Ok(Left {
        objects: theirs
            .map(|node| Leftover {
                object: ObjectRef {
                    kind: Kind::new("v1", "Node"),
                    namespace: None,
                    name: node.name_any(),
                },
                uid: node.uid().unwrap_or_default(),
                remedy: Remedy::Patch(json!({ "spec": { "unschedulable": null } })),
            })
            .collect(),
        stays: Vec::new(),
    })
}

/// True where the cordon that stands was set by NVIDIA's operator. Whoever else cordons the node again owns the field then.
fn is_cordon_of_nvidia(node: &Node) -> bool {
    let entries = node.metadata.managed_fields.iter().flatten();
    let mut of_cordon = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:spec"]["f:unschedulable"].is_null())
    });
    of_cordon.any(|entry| entry.manager.as_deref() == Some(STACK_DEPLOYMENT))
}

/// True for a node that Gardener or the cluster autoscaler empties. Whoever drains a node that is cordoned already writes nothing by which
/// that would show, and needs the cordon.
fn is_emptied(node: &Node) -> bool {
    reduce::is_leaving(node) || MachineUpdate::of(node.labels()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(state: &str, cordoned: bool, annotation: Option<&str>) -> Node {
        let annotations = annotation.map(|key| json!({ key: "true" }));
        serde_json::from_value(json!({
            "metadata": {
                "name": "gpu-0",
                "labels": { "nvidia.com/gpu-driver-upgrade-state": state },
                "annotations": annotations,
            },
            "spec": { "unschedulable": cordoned },
        }))
        .unwrap()
    }

    #[test]
    fn a_cordon_belongs_to_who_set_it_last() {
        let cordoned_by = |manager: &str| {
            let mut node = node("pod-restart-required", true, None);
            node.metadata.managed_fields = serde_json::from_value(json!([
                { "manager": "gpu-operator", "operation": "Update", "fieldsType": "FieldsV1",
                  "fieldsV1": { "f:metadata": { "f:labels": { "f:nvidia.com/gpu.present": {} } } } },
                { "manager": manager, "operation": "Update", "fieldsType": "FieldsV1",
                  "fieldsV1": { "f:spec": { "f:unschedulable": {} } } },
            ]))
            .unwrap();
            node
        };
        assert!(is_cordon_of_nvidia(&cordoned_by("gpu-operator")));
        assert!(!is_cordon_of_nvidia(&cordoned_by("kubectl-cordon")));
        assert!(!is_cordon_of_nvidia(&cordoned_by("machine-controller-manager")));
    }

    #[test]
    fn a_cordon_that_was_there_before_an_upgrade_is_somebody_elses() {
        let by_nvidia =
            |state, cordoned, annotation| may_be_cordoned_by_nvidia(&node(state, cordoned, annotation));
        assert!(by_nvidia("pod-restart-required", true, None));
        assert!(by_nvidia("upgrade-failed", true, None));
        assert!(!by_nvidia("pod-restart-required", true, Some(WAS_CORDONED)));
        // It may be cordoned any moment, and is not yet.
        assert!(by_nvidia("upgrade-required", false, None));
        assert!(!by_nvidia("upgrade-required", true, None));
        assert!(!by_nvidia("upgrade-done", true, None));
    }

    #[test]
    fn a_node_that_is_emptied_stays_cordoned() {
        let cordoned = || node("pod-restart-required", true, None);
        assert!(!is_emptied(&cordoned()));
        let with = |patch: serde_json::Value| {
            let mut value = serde_json::to_value(cordoned()).unwrap();
            json_patch(&mut value, &patch);
            serde_json::from_value::<Node>(value).unwrap()
        };
        let update = "node.machine.sapcloud.io/selected-for-update";
        let taint = json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
        let terminating = json!([{ "type": "Terminating", "status": "True" }]);
        for patch in [
            json!({ "metadata": { "labels": { update: "true" } } }),
            json!({ "metadata": { "deletionTimestamp": "2026-11-30T08:00:00Z" } }),
            json!({ "spec": { "taints": taint } }),
            json!({ "status": { "conditions": terminating } }),
        ] {
            assert!(is_emptied(&with(patch.clone())), "{patch}");
        }
    }

    fn json_patch(value: &mut serde_json::Value, patch: &serde_json::Value) {
        match patch {
            serde_json::Value::Object(fields) => {
                for (key, inner) in fields {
                    json_patch(&mut value[key], inner);
                }
            }
            leaf => *value = leaf.clone(),
        }
    }

    #[test]
    fn of_very_many_nodes_those_that_are_cordoned_are_noted() {
        let nodes = (0..=MOST_NOTED).map(|index| {
            let cordoned = index == MOST_NOTED;
            let mut node = node(
                if cordoned {
                    "upgrade-failed"
                } else {
                    "upgrade-required"
                },
                cordoned,
                None,
            );
            node.metadata.uid = Some(format!("uid-{index}"));
            node
        });
        let noted = noted(nodes.collect());
        assert_eq!(noted.len(), MOST_NOTED);
        assert!(noted.contains(&format!("uid-{MOST_NOTED}")));
    }
}
