//! The namespace of the release: it goes where the module made it and nobody else has put anything into it.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Api, Client, ResourceExt as _};

use super::content::Content;
use super::gone;
use crate::api::{LABEL_MANAGED_BY, MANAGER, RELEASE_NAMESPACE, RELEASE_ROLE};
use crate::drift::Kind;
use crate::facts::{Left, Remedy, SurroundingNamespace, first_few};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// The namespace, where it goes, or who keeps it.
pub(super) async fn namespace(client: &Client, namespace: SurroundingNamespace) -> Result<Left, ApiError> {
    let kept = |why: String| Left {
        stays: vec![format!("namespace {RELEASE_NAMESPACE}, {why}")],
        ..Left::default()
    };
    if namespace == SurroundingNamespace::Foreign {
        return Ok(kept("which the module did not make".to_owned()));
    }
    let mut unclear = Vec::new();
    if namespace == SurroundingNamespace::Ours {
        let others = Content::read(client).await?.of_others();
        if !others.theirs.is_empty() {
            return Ok(kept(format!(
                "which holds {} of somebody else's",
                first_few(others.theirs.iter())
            )));
        }
        unclear = others.unclear;
    }
    let api = Api::<Namespace>::all(client.clone());
    let what = format!("read Namespace {RELEASE_NAMESPACE}");
    let read = found(deadline(API_DEADLINE, what, api.get_metadata(RELEASE_NAMESPACE)).await)?;
    let mut left = Left {
        objects: read
            .iter()
            .map(|namespace| gone(namespace, Kind::new("v1", "Namespace")))
            .collect(),
        stays: Vec::new(),
    };
    if !unclear.is_empty() {
        let why = format!("it may hold what others need: {}", first_few(unclear.iter()));
        for namespace in &mut left.objects {
            namespace.remedy = Remedy::Blocked(why.clone());
        }
    }
    Ok(left)
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
