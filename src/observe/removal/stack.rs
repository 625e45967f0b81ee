//! What NVIDIA's operator and the chart's hooks leave, besides what is on the nodes.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};

use super::{Uids, dependents, gone, list, list_there};
use crate::api::RELEASE_NAMESPACE;
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

/// NVIDIA's own objects of the release and the DaemonSets; once these are gone, what else they had. Kubernetes removes all of it with the
/// former, where nothing is amiss.
pub(super) async fn objects(client: &Client, is_open: bool) -> Result<Left, ApiError> {
    let (mut left, mut living) = (Left::default(), Uids::new());
    for kind in [
        nvidia::cluster_policy(),
        nvidia::gpu_cluster(),
        nvidia::nvidia_driver(),
    ] {
        let objects = list(client, &kind).await?;
        living.extend(objects.iter().filter_map(|object| object.uid()));
        let ours = objects.iter().filter(|object| {
            reduce::owner(&object.metadata).is_some_and(|owner| HelmOwner::is_module_release(&owner))
        });
        left.objects
            .extend(ours.map(|object| gone(object, Kind::new(&kind.api_version, &kind.kind))));
    }
    let sets = Api::<DaemonSet>::all(client.clone());
    let all = ListParams::default();
    let call = sets.list(&all);
    let sets = deadline(API_DEADLINE, "list DaemonSets", call).await?;
    let ours = sets
        .iter()
        .filter(|set| matches!(reduce::daemon_set(set), Some(DaemonSetRole::OfRelease(_))));
    left.objects
        .extend(ours.map(|set| gone(set, Kind::new("apps/v1", "DaemonSet"))));
    if left.objects.is_empty() {
        left.objects = dependents::orphaned(client, &living, is_open).await?;
    }
    Ok(left)
}

/// Pods of the stack that still run. Kubernetes removes them with what made them.
pub(super) async fn pods(client: &Client) -> Result<Left, ApiError> {
    let pods = list_there(client, &ApiResource::erase::<Pod>(&())).await?;
    let of_stack = pods.iter().filter(|pod| {
        let mut makers = pod.owner_references().iter();
        let label = |key: &str| pod.labels().get(key).map(String::as_str);
        let app = label("app").unwrap_or_default();
        let named = app.starts_with("nvidia-") || ["gpu-feature-discovery", "gpu-operator"].contains(&app);
        let nfd = label("app.kubernetes.io/name") == Some("node-feature-discovery");
        let driver = label("app.kubernetes.io/component") == Some("nvidia-driver");
        makers.any(|maker| ["DaemonSet", "ReplicaSet"].contains(&maker.kind.as_str()))
            && (named || nfd || driver)
    });
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

/// Objects of hooks that did not come to their end. Helm leaves them, and they belong to no release.
pub(super) async fn hooks(client: &Client, is_open: bool) -> Result<Left, ApiError> {
    let mut wanted: Vec<(ApiResource, bool, &str)> = Vec::new();
    for [account, role, binding] in HOOK_RIGHTS {
        wanted.push((ApiResource::erase::<ServiceAccount>(&()), true, account));
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
