//! What a process that is no replica has to know of the Lease: where it lies, and whether its holder lives.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::sleep;

use super::Timing;
use super::store::{LEASE_NAME, LeaseStore};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// A Lease of the operator's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its namespace.
    pub namespace: String,
    /// Who holds it.
    pub holder: Option<String>,
}

/// Every Lease of the operator's name, whatever the namespace.
pub async fn places(client: &Client) -> Result<Vec<Place>, ApiError> {
    let leases = Api::<Lease>::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE_NAME}"));
    let found = deadline(API_DEADLINE, "list Leases", leases.list(&named)).await?;
    let places = found.items.into_iter().map(|lease| Place {
        namespace: lease.namespace().unwrap_or_default(),
        holder: lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .filter(|holder| !holder.is_empty()),
    });
    Ok(places.collect())
}

/// Ends with the name of the holder once another one than `identity` is seen to renew the Lease; never where nobody does.
pub async fn renewed_by_other(client: &Client, namespace: &str, identity: &str, timing: Timing) -> String {
    let store = LeaseStore::new(client.clone(), namespace, timing.call_deadline);
    let mut first = None;
    loop {
        // What cannot be read tells nothing.
        if let Ok(Some(stored)) = store.read().await
            && let Some(holder) = stored.view.holder.clone().filter(|holder| holder != identity)
            && *first.get_or_insert_with(|| stored.view.clone()) != stored.view
        {
            return holder;
        }
        sleep(timing.retry_every).await;
    }
}

/// Deletes the Lease.
pub async fn remove(client: &Client, namespace: &str) -> Result<(), ApiError> {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let params = DeleteParams::default();
    let what = format!("delete Lease {namespace}/{LEASE_NAME}");
    found(deadline(API_DEADLINE, what, leases.delete(LEASE_NAME, &params)).await).map(|_| ())
}
