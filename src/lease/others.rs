//! What a process that is no replica has to know of the operator's Leases: where they lie, and whether a holder lives.
//!
//! An operator may run in any namespace and takes the Lease of its own, so one that is held in one namespace says nothing of the others.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::sleep;

use super::Timing;
use super::evaluate::LeaseView;
use super::store::{LEASE_NAME, Stored};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};

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
    Ok(places_of(&read(client).await?).collect())
}

/// Somebody writes himself into a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOfLife {
    /// Who.
    pub holder: String,
    /// Namespace of the Lease.
    pub namespace: String,
}

/// Watches every Lease of the operator's name for others than one's own process.
///
/// Whatever another one writes to a Lease after the first look is a sign of life: a renewal, or a Lease that is taken anew.
#[derive(Clone)]
pub struct Lookout {
    client: Client,
    identity: String,
    first: BTreeMap<String, LeaseView>,
}

impl Lookout {
    /// Takes the first look. `identity` is one's own name in a Lease.
    pub async fn begin(client: Client, identity: &str) -> Result<Self, ApiError> {
        Ok(Self {
            first: read(&client).await?,
            client,
            identity: identity.to_owned(),
        })
    }

    /// The Leases at the first look.
    pub fn places(&self) -> Vec<Place> {
        places_of(&self.first).collect()
    }

    /// Looks again.
    pub async fn look(&self) -> Result<Option<SignOfLife>, ApiError> {
        let changed = read(&self.client).await?.into_iter();
        let mut changed = changed.filter(|(namespace, view)| self.first.get(namespace) != Some(view));
        Ok(changed.find_map(|(namespace, view)| {
            let holder = view.holder.filter(|holder| *holder != self.identity)?;
            Some(SignOfLife { holder, namespace })
        }))
    }

    /// Looks again and again, and ends with the first sign of life; never where there is none.
    pub async fn sign_of_life(&self, timing: Timing) -> SignOfLife {
        loop {
            // What cannot be read tells nothing.
            if let Ok(Some(sign)) = self.look().await {
                return sign;
            }
            sleep(timing.retry_every).await;
        }
    }
}

fn places_of(leases: &BTreeMap<String, LeaseView>) -> impl Iterator<Item = Place> {
    leases.iter().map(|(namespace, view)| Place {
        namespace: namespace.clone(),
        holder: view.holder.clone(),
    })
}

/// What the Leases say, by namespace.
async fn read(client: &Client) -> Result<BTreeMap<String, LeaseView>, ApiError> {
    let leases = Api::<Lease>::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE_NAME}"));
    let found = deadline(API_DEADLINE, "list Leases", leases.list(&named)).await?;
    let views = found.items.into_iter().map(|lease| {
        let namespace = lease.namespace().unwrap_or_default();
        (namespace, Stored::from(lease).view)
    });
    Ok(views.collect())
}
