//! The namespace of the release: it goes where the module made it and nobody else has put anything into it.

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::discovery::{ApiGroup, Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt as _};

use super::{gone, list_there};
use crate::api::{
    KYMA_MODULE, LABEL_KYMA_MODULE, LABEL_MANAGED_BY, MANAGER, RELEASE_NAME, RELEASE_NAMESPACE, RELEASE_ROLE,
};
use crate::drift::Kind;
use crate::facts::{HelmOwner, Left, SurroundingNamespace, first_few};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe::reduce;

/// Kinds that are listed at once.
const AT_ONCE: usize = 8;

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

/// What others have put into it, of whatever kind, and kinds of which nobody can tell.
async fn others(client: &Client) -> Result<Vec<String>, ApiError> {
    let what = "learn which kinds are served";
    let discovery = Discovery::new(client.clone()).run_aggregated();
    let discovery = deadline(API_DEADLINE, what, discovery).await?;
    // Each kind in its best version: not every kind is served in the version that its group prefers.
    let kinds = discovery.groups().flat_map(ApiGroup::resources_by_stability);
    let kinds = kinds.filter(|(kind, capabilities)| {
        capabilities.scope == Scope::Namespaced
            && capabilities.supports_operation(verbs::LIST)
            && !comes_by_itself(kind)
    });
    let mut lists = stream::iter(kinds)
        .map(|(kind, _)| async move { (list_there(client, &kind).await, kind) })
        .buffered(AT_ONCE);
    let mut others = Vec::new();
    while let Some((list, kind)) = lists.next().await {
        match list {
            Ok(objects) => {
                let foreign = objects.iter().filter(|object| is_foreign(&kind.kind, object));
                others.extend(foreign.map(|object| format!("{} {}", kind.kind, object.name_any())));
            }
            // A kind that cannot be listed after all, or whose own API server is away.
            Err(error) if matches!(error.code(), Some(405 | 406)) => {}
            Err(error)
                if error.code() == Some(503) || (error.is_forbidden() && !error.is_missing_right()) =>
            {
                others.push(format!("{} that cannot be listed", kind.plural));
            }
            Err(error) => return Err(error),
        }
    }
    others.sort_unstable();
    Ok(others)
}

/// Kinds whose objects say nothing about who uses a namespace: what Kubernetes derives from others, and what the release's own workers have
/// written there.
fn comes_by_itself(kind: &ApiResource) -> bool {
    let groups = ["events.k8s.io", "metrics.k8s.io"];
    let kinds = ["Endpoints", "EndpointSlice", "Event", "Lease", "NodeFeature"];
    groups.contains(&kind.group.as_str()) || kinds.contains(&kind.kind.as_str())
}

/// True for what neither Kubernetes, nor the module, nor the release has made. What something else has made goes with that.
fn is_foreign(kind: &str, object: &PartialObjectMeta<DynamicObject>) -> bool {
    let name = object.name_any();
    let of_release =
        reduce::owner(&object.metadata).is_some_and(|owner| HelmOwner::is_module_release(&owner));
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let made = !object.owner_references().is_empty() || label(LABEL_KYMA_MODULE) == Some(KYMA_MODULE);
    // A dry run comes here with them; otherwise they are gone.
    let of_helm = kind == "Secret" && label("owner") == Some("helm") && label("name") == Some(RELEASE_NAME);
    object.metadata.deletion_timestamp.is_none()
        && !of_release
        && !of_helm
        && !made
        && !EVERYWHERE.contains(&(kind, name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn foreign(kind: &str, metadata: &Value) -> bool {
        let object = json!({ "metadata": metadata });
        is_foreign(kind, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_what_nobody_of_the_stack_has_made_keeps_the_namespace() {
        assert!(foreign("Certificate", &json!({ "name": "of-a-team" })));
        assert!(foreign("ConfigMap", &json!({ "name": "default" })));
        assert!(!foreign("ServiceAccount", &json!({ "name": "default" })));
        let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u" }]);
        assert!(!foreign(
            "ConfigMap",
            &json!({ "name": "a", "ownerReferences": owner })
        ));
        let of_release = |name: &str| json!({ "name": "a", "labels": { "owner": "helm", "name": name } });
        assert!(!foreign("Secret", &of_release("gpu-operator")));
        assert!(foreign("Secret", &of_release("another")));
        let of_module = |name: &str| json!({ "name": "a", "labels": { LABEL_KYMA_MODULE: name } });
        assert!(!foreign("RoleBinding", &of_module(KYMA_MODULE)));
        assert!(foreign("ServiceMonitor", &of_module("telemetry")));
    }

    #[test]
    fn what_kubernetes_derives_says_nothing() {
        let kind = |group: &str, kind: &str| {
            ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, "v1", kind))
        };
        assert!(comes_by_itself(&kind("metrics.k8s.io", "PodMetrics")));
        assert!(comes_by_itself(&kind("", "Event")));
        assert!(!comes_by_itself(&kind("cert-manager.io", "Certificate")));
    }
}
