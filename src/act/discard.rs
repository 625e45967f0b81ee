//! Deletes the Secret of one revision. What the revision made stays: the next install or upgrade takes it in again.

use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::{Api, Client};

use crate::api::{RELEASE_NAMESPACE, revision_secret};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Deletes the Secret in which Helm keeps that revision; one that is gone is as good.
pub async fn revision(client: &Client, number: u32) -> Result<(), ApiError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let name = revision_secret(number);
    let what = format!("delete Secret {RELEASE_NAMESPACE}/{name}");
    let params = DeleteParams::default();
    found(deadline(API_DEADLINE, what, secrets.delete(&name, &params)).await).map(|_| ())
}
