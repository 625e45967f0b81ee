//! What NVIDIA's operator made for its ClusterPolicy and NVIDIADriver, once these are gone.
//!
//! Kubernetes removes it with them by owner references, and no longer can once the CRD of the owner is gone too: its garbage collector
//! leaves alone what belongs to a kind that it does not know. So whether it has gone is read, and what is left is deleted.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};

use super::{Uids, gone, list_there, pages};
use crate::drift::Kind;
use crate::facts::Leftover;
use crate::kube_api::{ApiError, found};

/// Group of the kinds that own it.
const OWNERS: &str = "nvidia.com/";

/// Objects that belong to one of NVIDIA's that is not among the `living`.
pub(super) async fn orphaned(
    client: &Client,
    living: &Uids,
    is_open: bool,
) -> Result<Vec<Leftover>, ApiError> {
    let service_monitor = GroupVersionKind::gvk("monitoring.coreos.com", "v1", "ServiceMonitor");
    let cluster = [
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<ClusterRoleBinding>(&()),
        ApiResource::erase::<RuntimeClass>(&()),
    ];
    let there = [
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Role>(&()),
        ApiResource::erase::<RoleBinding>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::from_gvk_with_plural(&service_monitor, "servicemonitors"),
    ];
    let mut left = Vec::new();
    for kind in cluster {
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let objects = found(pages(&api, &format!("list {}", kind.plural)).await)?;
        left.extend(of(&kind, &objects.unwrap_or_default(), living));
    }
    for kind in there.iter().filter(|_| is_open) {
        left.extend(of(kind, &list_there(client, kind).await?, living));
    }
    Ok(left)
}

fn of(kind: &ApiResource, objects: &[PartialObjectMeta<DynamicObject>], living: &Uids) -> Vec<Leftover> {
    let orphans = objects.iter().filter(|object| is_orphaned(object, living));
    orphans
        .map(|object| gone(object, Kind::new(&kind.api_version, &kind.kind)))
        .collect()
}

fn is_orphaned(object: &PartialObjectMeta<DynamicObject>, living: &BTreeSet<String>) -> bool {
    let owners = object.owner_references();
    let is_gone =
        |owner: &OwnerReference| owner.api_version.starts_with(OWNERS) && !living.contains(&owner.uid);
    !owners.is_empty() && owners.iter().all(is_gone)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_has_lost_all_of_its_owners_goes() {
        let living = BTreeSet::from(["alive".to_owned()]);
        let orphaned = |owners: &[(&str, &str)]| {
            let owner = |(version, uid): &(&str, &str)| json!({ "apiVersion": version, "kind": "K", "name": "n", "uid": uid });
            let object = json!({ "metadata": {
                "name": "a", "ownerReferences": owners.iter().map(owner).collect::<Vec<_>>(),
            }});
            is_orphaned(&serde_json::from_value(object).unwrap(), &living)
        };
        assert!(orphaned(&[("nvidia.com/v1", "dead")]));
        assert!(!orphaned(&[]));
        assert!(!orphaned(&[("nvidia.com/v1", "alive")]));
        assert!(!orphaned(&[
            ("nvidia.com/v1", "dead"),
            ("nvidia.com/v1alpha1", "alive")
        ]));
        assert!(!orphaned(&[("apps/v1", "dead")]));
    }
}
