//! Pods of the stack that still run. Kubernetes removes them with what made them, which takes minutes on real nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Client, ResourceExt};

use super::{gone, list_there};
use crate::api::{RELEASE_NAME, STACK_DEPLOYMENT};
use crate::drift::Kind;
use crate::facts::{Left, Leftover, Remedy};
use crate::kube_api::ApiError;

/// The Pods.
pub(super) async fn pods(client: &Client) -> Result<Left, ApiError> {
    let pods = list_there(client, &ApiResource::erase::<Pod>(&())).await?;
    if pods.is_empty() {
        return Ok(Left::default());
    }
    // What still stands once the release and the stack are gone is somebody else's, and so are its Pods.
    let sets = list_there(client, &ApiResource::erase::<DaemonSet>(&())).await?;
    let deployments = list_there(client, &ApiResource::erase::<Deployment>(&())).await?;
    let standing: BTreeSet<_> = sets
        .iter()
        .filter_map(ResourceExt::uid)
        .chain(deployments.iter().map(ResourceExt::name_any))
        .collect();
    let of_stack = pods.iter().filter(|pod| is_of_stack(pod, &standing));
    Ok(Left {
        objects: of_stack
            .map(|pod| Leftover {
                remedy: Remedy::Wait,
                ..gone(pod, Kind::new("v1", "Pod"))
            })
            .collect(),
        stays: Vec::new(),
    })
}

/// True for a Pod that a DaemonSet or a Deployment of the stack has made. `standing` are the UIDs of DaemonSets and the names of
/// Deployments that are still there: of a ReplicaSet the name alone tells whose it was.
fn is_of_stack(pod: &PartialObjectMeta<DynamicObject>, standing: &BTreeSet<String>) -> bool {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    let app = label("app").unwrap_or_default();
    let nfd = label("app.kubernetes.io/name") == Some("node-feature-discovery")
        && label("app.kubernetes.io/instance") == Some(RELEASE_NAME);
    let operand = app.starts_with("nvidia-")
        || app == "gpu-feature-discovery"
        || label("app.kubernetes.io/component") == Some("nvidia-driver");
    pod.owner_references()
        .iter()
        .any(|maker| match maker.kind.as_str() {
            "DaemonSet" => (operand || nfd) && !standing.contains(&maker.uid),
            "ReplicaSet" => {
                let deployment = maker
                    .name
                    .rsplit_once('-')
                    .map_or("", |(deployment, _)| deployment);
                (app == STACK_DEPLOYMENT || nfd) && !standing.contains(deployment)
            }
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_of_what_still_stands_are_somebody_elses() {
        let pod = |labels: serde_json::Value, kind: &str, name: &str| -> PartialObjectMeta<DynamicObject> {
            let owner = json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-of-{name}") });
            let metadata = json!({ "name": "a", "labels": labels, "ownerReferences": [owner] });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let nothing = BTreeSet::new();
        let operand = pod(
            json!({ "app": "nvidia-device-plugin-daemonset" }),
            "DaemonSet",
            "plugin",
        );
        assert!(is_of_stack(&operand, &nothing));
        assert!(!is_of_stack(
            &operand,
            &BTreeSet::from(["uid-of-plugin".to_owned()])
        ));
        let operator = pod(
            json!({ "app": "gpu-operator" }),
            "ReplicaSet",
            "gpu-operator-6d5f",
        );
        assert!(is_of_stack(&operator, &nothing));
        assert!(!is_of_stack(
            &operator,
            &BTreeSet::from(["gpu-operator".to_owned()])
        ));
        let nfd = |instance: &str| {
            let labels = json!({ "app.kubernetes.io/name": "node-feature-discovery", "app.kubernetes.io/instance": instance });
            pod(labels, "DaemonSet", "worker")
        };
        assert!(is_of_stack(&nfd("gpu-operator"), &nothing));
        assert!(!is_of_stack(&nfd("nfd"), &nothing));
        let of_team = pod(json!({ "app": "nvidia-smi" }), "ReplicaSet", "nvidia-smi-7c9");
        assert!(!is_of_stack(&of_team, &nothing));
    }
}
