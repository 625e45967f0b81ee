//! The Lease of the operator, so that a cleanup never runs beside one that lives.

use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::RunArgs;
use crate::kube_api::{API_DEADLINE, deadline, found};
use crate::lease::{self, LEASE_NAME, Leadership, LeaseHandle, Timing};
use crate::publish::Say;
use crate::reconcile::now;
use crate::run::wait_for_lease;

/// Where the Lease lies when the operator's namespace is gone.
const LAST_RESORT: &str = "default";

/// The Lease, held.
pub(super) struct Held {
    pub(super) leadership: watch::Receiver<Leadership>,
    handle: LeaseHandle,
    /// Where it was made, if there was none before.
    made: Option<(Client, String)>,
}

/// Says who holds a Lease of the operator's.
pub(super) async fn tell(client: &Client, say: &Say) -> anyhow::Result<()> {
    for place in lease::places(client).await? {
        if let Some(holder) = place.holder {
            say(&format!(
                "Lease {}/{LEASE_NAME} is held by {holder}; as long as that process lives, nothing can be executed",
                place.namespace
            ));
        }
    }
    Ok(())
}

/// Takes the Lease. Fails where its holder lives.
pub(super) async fn take(client: &Client, args: &RunArgs, say: &Say) -> anyhow::Result<Held> {
    let places = lease::places(client).await?;
    let named = places.iter().find(|place| place.namespace == args.namespace);
    let (namespace, is_new) = match (named, &places[..]) {
        (Some(place), _) => (place.namespace.clone(), false),
        (None, []) => (home(client, args).await?, true),
        (None, [only]) => (only.namespace.clone(), false),
        (None, several) => bail!(
            "there are Leases {LEASE_NAME} in namespaces {}; name the operator's with --namespace",
            several
                .iter()
                .map(|place| place.namespace.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let timing = Timing::for_duration(Duration::from_secs(args.lease_duration));
    let identity = format!("{}-cleanup", args.identity());
    let (mut leadership, handle) = lease::spawn(client.clone(), &namespace, &identity, timing, now);
    let place = format!("Lease {namespace}/{LEASE_NAME}");
    if let Some(holder) = places.iter().find_map(|place| place.holder.as_ref()) {
        let seconds = timing.duration.as_secs();
        say(&format!(
            "{place} is held by {holder}; waiting up to {seconds} s to see whether that process lives"
        ));
    }
    tokio::select! {
        leads = wait_for_lease(&mut leadership) => leads?,
        holder = lease::renewed_by_other(client, &namespace, &identity, timing) => bail!(
            "{holder} lives and holds {place}, so the operator finishes the removal itself; stop it first if it does not"
        ),
        () = sleep(timing.duration * 2) => bail!("{place} cannot be taken within {} s", timing.duration.as_secs() * 2),
    }
    let made = is_new.then(|| (client.clone(), namespace));
    Ok(Held {
        leadership,
        handle,
        made,
    })
}

/// The operator's namespace, or where that is gone another one that is always there.
async fn home(client: &Client, args: &RunArgs) -> anyhow::Result<String> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let name = &args.namespace;
    let what = format!("read Namespace {name}");
    let read = found(deadline(API_DEADLINE, what, namespaces.get_metadata(name)).await)?;
    let stays = read.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none());
    Ok(if stays {
        name.clone()
    } else {
        LAST_RESORT.to_owned()
    })
}

impl Held {
    /// Gives it back, and leaves none where there was none.
    pub(super) async fn release(self) {
        let released = self.handle.release().await;
        let removed = match self.made {
            Some((client, namespace)) => lease::remove(&client, &namespace).await,
            None => Ok(()),
        };
        if let Err(error) = released.and(removed) {
            tracing::warn!(%error, "the Lease is not released; others wait until it expires");
        }
    }
}
