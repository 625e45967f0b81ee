//! The namespace of the release: it goes where the module made it and nobody else has put anything into it.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};

use super::{gone, list_there};
use crate::api::{LABEL_KYMA_MODULE, LABEL_MANAGED_BY, MANAGER, RELEASE_NAMESPACE, RELEASE_ROLE};
use crate::drift::Kind;
use crate::facts::{HelmOwner, Left, SurroundingNamespace, first_few};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe::reduce;

/// What Kubernetes and service meshes put into every namespace.
const EVERYWHERE: [(&str, &str); 4] = [
    ("ConfigMap", "istio-ca-crl"),
    ("ConfigMap", "istio-ca-root-cert"),
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
];

/// The namespace, where it goes, or who keeps it.
pub(super) async fn namespace(client: &Client, namespace: SurroundingNamespace) -> Result<Left, ApiError> {
    let kept = |why: String| Left {
        stays: vec![format!("namespace {RELEASE_NAMESPACE}, {why}")],
        ..Left::default()
    };
    if namespace == SurroundingNamespace::Foreign {
        return Ok(kept("which the module did not make".to_owned()));
    }
    if namespace == SurroundingNamespace::Ours {
        let others = others(client).await?;
        if !others.is_empty() {
            return Ok(kept(format!(
                "which holds {} of somebody else's",
                first_few(others.iter())
            )));
        }
    }
    let api = Api::<Namespace>::all(client.clone());
    let what = format!("read Namespace {RELEASE_NAMESPACE}");
    let read = found(deadline(API_DEADLINE, what, api.get_metadata(RELEASE_NAMESPACE)).await)?;
    Ok(Left {
        objects: read
            .iter()
            .map(|namespace| gone(namespace, Kind::new("v1", "Namespace")))
            .collect(),
        stays: Vec::new(),
    })
}

/// The RoleBinding that gives the operator its rights in a namespace that stays.
pub(super) async fn rights(client: &Client) -> Result<Left, ApiError> {
    let api = Api::<RoleBinding>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let what = format!("read RoleBinding {RELEASE_NAMESPACE}/{RELEASE_ROLE}");
    let read = found(deadline(API_DEADLINE, what, api.get_metadata(RELEASE_ROLE)).await)?;
    let ours = read.filter(|binding| {
        binding
            .labels()
            .get(LABEL_MANAGED_BY)
            .is_some_and(|by| by == MANAGER)
    });
    let kind = Kind::new("rbac.authorization.k8s.io/v1", "RoleBinding");
    Ok(Left {
        objects: ours.iter().map(|binding| gone(binding, kind.clone())).collect(),
        stays: Vec::new(),
    })
}

/// What others have put into it.
async fn others(client: &Client) -> Result<Vec<String>, ApiError> {
    let kinds = [
        ApiResource::erase::<ConfigMap>(&()),
        ApiResource::erase::<CronJob>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<Secret>(&()),
        ApiResource::erase::<Service>(&()),
        ApiResource::erase::<ServiceAccount>(&()),
        ApiResource::erase::<StatefulSet>(&()),
    ];
    let mut others = Vec::new();
    for kind in kinds {
        let objects = list_there(client, &kind).await?;
        let foreign = objects.iter().filter(|object| is_foreign(&kind.kind, object));
        others.extend(foreign.map(|object| format!("{} {}", kind.kind, object.name_any())));
    }
    Ok(others)
}

/// True for what neither Kubernetes, nor the module, nor the release has made. What something else has made goes with that.
fn is_foreign(kind: &str, object: &PartialObjectMeta<DynamicObject>) -> bool {
    let name = object.name_any();
    let of_release =
        reduce::owner(&object.metadata).is_some_and(|owner| HelmOwner::is_module_release(&owner));
    let made = !object.owner_references().is_empty() || object.labels().contains_key(LABEL_KYMA_MODULE);
    object.metadata.deletion_timestamp.is_none()
        && !of_release
        && !made
        && !EVERYWHERE.contains(&(kind, name.as_str()))
}
