//! What NVIDIA's operator and the chart's hooks leave, besides what is on the nodes.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::{gone, list, list_metadata, list_there};
use crate::api::{RELEASE_NAMESPACE, STACK_DEPLOYMENT};
use crate::drift::Kind;
use crate::facts::{DaemonSetRole, HelmOwner, Left, Leftover, Remedy};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe::{nvidia, reduce};

/// Jobs of the hooks of every chart that the module installs.
const HOOK_JOBS: [&str; 4] = [
    "gpu-operator-cleanup-crd",
    "gpu-operator-cleanup-gpucluster",
    "gpu-operator-node-feature-discovery-prune",
    "gpu-operator-upgrade-crd",
];

/// Leases of NVIDIA's operator and of Node Feature Discovery.
const LEASES: [&str; 2] = ["53822513.nvidia.com", "nfd-master.nfd.kubernetes.io"];

/// What some of these hooks run with: a ServiceAccount, a ClusterRole and its binding.
const HOOK_RIGHTS: [[&str; 3]; 2] = [
    ["gpu-operator-node-feature-discovery-prune"; 3],
    [
        "gpu-operator-upgrade-crd-hook-sa",
        "gpu-operator-upgrade-crd-hook-role",
        "gpu-operator-upgrade-crd-hook-binding",
    ],
];

/// Kinds of what NVIDIA's operator makes besides DaemonSets (`assets` of gpu-operator v26.3.3 and v26.7.0), and whether they lie in the
/// release's namespace.
fn made_by_operator() -> [(ApiResource, bool); 8] {
    [
        (ApiResource::erase::<RuntimeClass>(&()), false),
        (ApiResource::erase::<ClusterRole>(&()), false),
        (ApiResource::erase::<ClusterRoleBinding>(&()), false),
        (ApiResource::erase::<ConfigMap>(&()), true),
        (ApiResource::erase::<Service>(&()), true),
        (ApiResource::erase::<ServiceAccount>(&()), true),
        (ApiResource::erase::<Role>(&()), true),
        (ApiResource::erase::<RoleBinding>(&()), true),
    ]
}

/// NVIDIA's own objects of the release, and what its operator has made for them. Kubernetes removes the latter with the former, where
/// nothing is amiss: its garbage collector learns of new kinds every half a minute only, and forgets the owners with a CRD that goes.
pub(super) async fn objects(client: &Client, is_open: bool) -> Result<Left, ApiError> {
    let mut left = Left::default();
    // What belongs to somebody else's ClusterPolicy is theirs.
    let mut others = BTreeSet::new();
    for kind in [
        nvidia::cluster_policy(),
        nvidia::gpu_cluster(),
        nvidia::nvidia_driver(),
    ] {
        for object in list(client, &kind).await? {
            let owner = reduce::owner(&object.metadata);
            if owner.as_ref().is_some_and(HelmOwner::is_module_release) {
                left.objects.push(nvidia_object(client, &object, &kind).await?);
            } else {
                others.extend(object.uid());
            }
        }
    }
    let kinds = made_by_operator().into_iter();
    let lists = kinds.filter(|(_, namespaced)| is_open || !namespaced);
    let lists = lists.map(async |(kind, namespaced)| {
        let objects = if namespaced {
            list_there(client, &kind).await?
        } else {
            list_metadata(client, &kind).await?
        };
        let made = objects.into_iter().filter(|object| is_made(object, &others));
        let kind = Kind::new(&kind.api_version, &kind.kind);
        Ok::<_, ApiError>(made.map(|object| gone(&object, kind.clone())).collect::<Vec<_>>())
    });
    left.objects
        .extend(try_join_all(lists).await?.into_iter().flatten());
    let sets = Api::<DaemonSet>::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.namespace={RELEASE_NAMESPACE}"));
    let call = sets.list(&params);
    let sets = deadline(API_DEADLINE, "list DaemonSets", call).await?;
    let ours = sets.iter().filter(|set| {
        matches!(reduce::daemon_set(set), Some(DaemonSetRole::OfRelease(_))) && !is_owned_by(*set, &others)
    });
    left.objects
        .extend(ours.map(|set| gone(set, Kind::new("apps/v1", "DaemonSet"))));
    Ok(left)
}

/// True for what NVIDIA's operator has made for an object that is none of these `others`.
fn is_made(object: &PartialObjectMeta<DynamicObject>, others: &BTreeSet<String>) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|owner| nvidia::is_of_stack(owner) && !others.contains(&owner.uid))
}

fn is_owned_by(object: &impl kube::Resource, owners: &BTreeSet<String>) -> bool {
    let mut references = object.owner_references().iter();
    references.any(|owner| owners.contains(&owner.uid))
}

/// An object of NVIDIA's. A finalizer that its operator has put there is taken off once nobody else will do it.
async fn nvidia_object(
    client: &Client,
    object: &DynamicObject,
    kind: &ApiResource,
) -> Result<Leftover, ApiError> {
    let mut leftover = gone(object, Kind::new(&kind.api_version, &kind.kind));
    if leftover.remedy == Remedy::Wait
        && let Some(others) = without_nvidia(object.finalizers())
        && !operator_runs(client).await?
    {
        // Of the list as it was read: somebody may have added one meanwhile.
        let version = object.resource_version();
        leftover.remedy =
            Remedy::Patch(json!({ "metadata": { "resourceVersion": version, "finalizers": others } }));
    }
    Ok(leftover)
}

/// The finalizers that are not NVIDIA's; `None` where none is.
fn without_nvidia(finalizers: &[String]) -> Option<Vec<&String>> {
    let others: Vec<_> = finalizers
        .iter()
        .filter(|finalizer| {
            let domain = finalizer.split('/').next().unwrap_or_default();
            domain != "nvidia.com" && !domain.ends_with(".nvidia.com")
        })
        .collect();
    (others.len() < finalizers.len()).then_some(others)
}

/// Whether a Pod of NVIDIA's operator is there that may take its finalizers off; nobody knows how a dead one ends.
async fn operator_runs(client: &Client) -> Result<bool, ApiError> {
    let pods = Api::<Pod>::all(client.clone());
    let params = ListParams::default()
        .fields(&format!("metadata.namespace={RELEASE_NAMESPACE}"))
        .labels(&format!("app={STACK_DEPLOYMENT}"));
    let call = pods.list_metadata(&params);
    let pods = deadline(API_DEADLINE, "list Pods of NVIDIA's operator", call).await?;
    Ok(!pods.items.is_empty())
}

/// Objects of hooks that did not come to their end. Helm leaves them, and they belong to no release.
pub(super) async fn hooks(client: &Client, is_open: bool) -> Result<Left, ApiError> {
    let mut wanted: Vec<(ApiResource, bool, &str)> = Vec::new();
    for [account, role, binding] in HOOK_RIGHTS {
        wanted.push((ApiResource::erase::<ServiceAccount>(&()), true, account));
        if is_bound_elsewhere(client, binding).await? {
            continue;
        }
        wanted.push((ApiResource::erase::<ClusterRole>(&()), false, role));
        wanted.push((ApiResource::erase::<ClusterRoleBinding>(&()), false, binding));
    }
    wanted.extend(LEASES.map(|lease| (ApiResource::erase::<Lease>(&()), true, lease)));
    wanted.extend(HOOK_JOBS.map(|job| (ApiResource::erase::<Job>(&()), true, job)));
    let mut left = Left::default();
    for (kind, namespaced, name) in wanted {
        if namespaced && !is_open {
            continue;
        }
        let api = if namespaced {
            Api::<DynamicObject>::namespaced_with(client.clone(), RELEASE_NAMESPACE, &kind)
        } else {
            Api::all_with(client.clone(), &kind)
        };
        let call = api.get_metadata(name);
        let read = found(deadline(API_DEADLINE, format!("read {} {name}", kind.kind), call).await)?;
        if let Some(object) = read {
            left.objects
                .push(gone(&object, Kind::new(&kind.api_version, &kind.kind)));
        }
    }
    Ok(left)
}

/// True where a release of the same name in another namespace runs such a hook now: the names of ClusterRoles do not tell them apart.
async fn is_bound_elsewhere(client: &Client, binding: &str) -> Result<bool, ApiError> {
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    let what = format!("read ClusterRoleBinding {binding}");
    let read = found(deadline(API_DEADLINE, what, bindings.get(binding)).await)?;
    Ok(read.is_some_and(|read| {
        let mut subjects = read.subjects.iter().flatten();
        !subjects.any(|subject| subject.namespace.as_deref() == Some(RELEASE_NAMESPACE))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finalizers_of_nvidia_are_taken_off() {
        let finalizers = [
            "nvidia.com/cleanup",
            "gpucluster.nvidia.com/finalizer",
            "team/keep",
        ];
        let finalizers = finalizers.map(str::to_owned);
        assert_eq!(without_nvidia(&finalizers), Some(vec![&finalizers[2]]));
        assert_eq!(without_nvidia(&finalizers[2..]), None);
        assert_eq!(without_nvidia(&[]), None);
    }

    #[test]
    fn what_somebody_elses_cluster_policy_has_made_is_theirs() {
        let owned = |api_version: &str, uid: &str| -> PartialObjectMeta<DynamicObject> {
            let owner =
                json!({ "apiVersion": api_version, "kind": "ClusterPolicy", "name": "n", "uid": uid });
            serde_json::from_value(json!({ "metadata": { "name": "a", "ownerReferences": [owner] } }))
                .unwrap()
        };
        let others = BTreeSet::from(["theirs".to_owned()]);
        assert!(is_made(&owned("nvidia.com/v1", "ours"), &others));
        assert!(is_made(&owned("nvidia.com/v1alpha1", "gone"), &others));
        assert!(!is_made(&owned("nvidia.com/v1", "theirs"), &others));
        assert!(!is_made(&owned("apps/v1", "ours"), &others));
    }
}
