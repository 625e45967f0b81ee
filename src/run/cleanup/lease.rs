//! The Lease of the operator, so that a cleanup never runs beside one that lives, wherever that has its own.

use std::time::Duration;

use anyhow::{anyhow, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::RunArgs;
use crate::kube_api::{API_DEADLINE, deadline, found};
use crate::lease::{self, LEASE_NAME, Leadership, LeaseHandle, Lookout, Place, Timing};
use crate::publish::Say;
use crate::reconcile::now;
use crate::run::wait_for_lease;

/// Where the Lease lies when the operator's namespace is gone.
const LAST_RESORT: &str = "default";

/// The Lease, held.
pub(super) struct Held {
    pub(super) leadership: watch::Receiver<Leadership>,
    /// Sees an operator that comes meanwhile.
    pub(super) lookout: Lookout,
    handle: LeaseHandle,
    /// There was none before.
    is_new: bool,
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

/// Takes the Lease. Fails where the holder of any Lease of the operator's lives.
pub(super) async fn take(client: &Client, args: &RunArgs, say: &Say) -> anyhow::Result<Held> {
    let timing = Timing::for_duration(Duration::from_secs(args.lease_duration));
    let identity = format!("{}-cleanup", args.identity());
    let lookout = Lookout::begin(client.clone(), &identity).await?;
    let places = lookout.places();
    let (namespace, is_new) = match choose(&places, &args.namespace) {
        Some(place) => (place.namespace.clone(), false),
        None => (home(client, args).await?, true),
    };
    for place in &places {
        if let Some(holder) = &place.holder {
            say(&format!(
                "Lease {}/{LEASE_NAME} is held by {holder}; waiting up to {} s to see whether that process lives",
                place.namespace,
                timing.duration.as_secs()
            ));
        }
    }
    let (leadership, handle) = lease::spawn(client.clone(), &namespace, &identity, timing, now);
    let mut held = Held {
        leadership,
        lookout,
        handle,
        is_new,
    };
    let is_free = places.iter().all(|place| place.holder.is_none());
    match held.until_alone(&namespace, is_free, timing).await {
        Ok(()) => Ok(held),
        Err(error) => {
            held.release().await;
            Err(error)
        }
    }
}

/// Which of the Leases to take: rather one that somebody holds, as its holder may only be frozen, and rather the named one.
fn choose<'a>(places: &'a [Place], named: &str) -> Option<&'a Place> {
    let rank = |place: &&Place| (place.holder.is_some(), place.namespace == named);
    places.iter().max_by_key(rank)
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

/// Fails once somebody else has written to a Lease of the operator's.
pub(super) async fn ensure_alone(lookout: &Lookout) -> anyhow::Result<()> {
    let sign = lookout.look().await?;
    sign.map_or(Ok(()), |sign| Err(anyhow!(lives(&sign))))
}

fn lives(sign: &lease::SignOfLife) -> String {
    format!(
        "{} lives and holds Lease {}/{LEASE_NAME}, so the operator finishes the removal itself; stop it first if it does not",
        sign.holder, sign.namespace
    )
}

impl Held {
    /// Waits for the Lease, and until every other holder had the time to show that it lives.
    async fn until_alone(&mut self, namespace: &str, is_free: bool, timing: Timing) -> anyhow::Result<()> {
        let quiet = Instant::now() + timing.duration;
        let limit = timing.duration * 2;
        let alone = async {
            wait_for_lease(&mut self.leadership).await?;
            if !is_free {
                sleep_until(quiet).await;
            }
            ensure_alone(&self.lookout).await
        };
        tokio::select! {
            alone = alone => alone,
            sign = self.lookout.sign_of_life(timing) => bail!(lives(&sign)),
            () = sleep(limit) => bail!(
                "Lease {namespace}/{LEASE_NAME} cannot be taken within {} s",
                limit.as_secs()
            ),
        }
    }

    /// Gives it back, and leaves none where there was none.
    pub(super) async fn release(self) {
        let released = if self.is_new {
            self.handle.release_and_remove().await
        } else {
            self.handle.release().await
        };
        if let Err(error) = released {
            tracing::warn!(%error, "the Lease is not released; others wait until it expires");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_held_goes_before_the_named_one() {
        let place = |namespace: &str, holder: Option<&str>| Place {
            namespace: namespace.to_owned(),
            holder: holder.map(ToOwned::to_owned),
        };
        let chosen = |places: &[Place]| choose(places, "kyma-system").map(|place| place.namespace.clone());
        assert_eq!(chosen(&[]), None);
        let stale = place("kyma-system", None);
        let other = place("other", None);
        assert_eq!(chosen(&[stale.clone(), other.clone()]).unwrap(), "kyma-system");
        assert_eq!(chosen(&[other]).unwrap(), "other");
        let held = place("gpu-manager", Some("gpu-manager-0"));
        assert_eq!(chosen(&[held.clone(), stale.clone()]).unwrap(), "gpu-manager");
        let both = [place("kyma-system", Some("old")), held];
        assert_eq!(chosen(&both).unwrap(), "kyma-system");
    }
}
