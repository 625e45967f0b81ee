//! The guard that of all running replicas only one acts.
//!
//! Two helm processes on one release corrupt it, and a second replica can exist even with one wanted: a node that is
//! cut off, a manual scale-up, a rolling update. So a replica acts only while it holds the Lease `gpu-manager` in its
//! own namespace. Another's Lease counts as expired one `duration` after this process saw it change last; a holder
//! gives up well before that, counted from the *start* of its last successful renewal. Both are measured on monotonic
//! clocks, so wall clocks may differ at will. A virtual machine that is frozen as a whole is outside this guard.

mod elector;
mod evaluate;
mod others;
mod store;

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    elector::Elector,
    store::{LeaseStore, Stored},
};
pub use self::{
    evaluate::{LeaseView, Sighting, Verdict, evaluate},
    others::{Lookout, Place, SignOfLife, places},
    store::LEASE_NAME,
};
use crate::kube_api::ApiError;

/// The times of the guard. They must satisfy `renew_every < give_up_after < duration - kill_margin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a holder is left alone after its last visible renewal.
    pub duration: Duration,
    /// Time from one successful renewal to the next try.
    pub renew_every: Duration,
    /// A holder whose last successful renewal started this long ago stops to act.
    pub give_up_after: Duration,
    /// Time between two looks at a Lease that another holds, and after a failed call.
    pub retry_every: Duration,
    /// Longest wait for one API call.
    pub call_deadline: Duration,
    /// How long before the expiry whatever acts on our behalf must be dead.
    pub kill_margin: Duration,
}

impl Timing {
    /// The usual proportions for a given duration.
    pub fn for_duration(duration: Duration) -> Self {
        Self {
            duration,
            renew_every: duration / 3,
            give_up_after: duration * 2 / 3,
            retry_every: duration / 15,
            call_deadline: duration / 6,
            kill_margin: duration / 15,
        }
    }
}

impl Default for Timing {
    /// Duration 30 s, a renewal every 10 s, giving up at 20 s, 5 s for each call, 2 s between tries.
    fn default() -> Self {
        Self::for_duration(Duration::from_secs(30))
    }
}

/// Whether this replica may act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Not yet; the replica is healthy and ready to take over.
    Waiting {
        /// Who acts instead, as far as known.
        holder: Option<String>,
    },
    /// Yes. Sent anew after each renewal, with a later end.
    Leading {
        /// From here on another replica may act, unless a renewal succeeds first.
        until: Instant,
    },
    /// No longer, and never again in this process: stop at once and exit.
    Lost {
        /// By then every child process must be dead. Lies in the past if another replica leads already.
        kill_by: Instant,
    },
}

/// Says that this replica leads at this moment. Whatever changes the cluster takes one, so nothing is changed without the Lease,
/// also by a process that was stopped for a while and does not know yet what it has lost.
#[derive(Debug)]
pub struct Mandate(());

/// Gives the [`Mandate`] of this moment, if there is one.
pub type Mandates = Box<dyn Fn() -> Option<Mandate> + Send + Sync>;

impl Leadership {
    /// The right to start something at `now`.
    ///
    /// Looks at the clock too, so that an answer that nobody has updated in time is still right.
    pub fn mandate_at(&self, now: Instant) -> Option<Mandate> {
        matches!(self, Self::Leading { until } if now < *until).then_some(Mandate(()))
    }
}

/// Owns the task that competes for the Lease; dropping it stops the renewals without releasing.
#[derive(Debug)]
pub struct LeaseHandle {
    stop: DropGuard,
    task: JoinHandle<()>,
    store: LeaseStore,
    identity: String,
}

impl LeaseHandle {
    /// Stops the renewals and, if the Lease is ours, empties it so that another replica takes over at once.
    ///
    /// Call it only after everything that acted on the Lease's behalf has ended. On an error the others wait until
    /// the Lease expires.
    pub async fn release(self) -> Result<(), ApiError> {
        self.give_back().await.map(drop)
    }

    /// The same, and deletes the Lease then, unless another replica has taken it meanwhile.
    pub async fn release_and_remove(self) -> Result<(), ApiError> {
        let store = self.store.clone();
        match self.give_back().await? {
            Some(released) => store.remove(released).await,
            None => Ok(()),
        }
    }

    async fn give_back(self) -> Result<Option<Stored>, ApiError> {
        self.stop.disarm().cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the task that held the Lease had ended abnormally");
        }
        self.store.release(&self.identity).await
    }
}

/// Starts to compete for the Lease in `namespace`.
///
/// `identity` must differ between all processes that run at the same time. `wall_clock` gives the times that are
/// written into the Lease for people to read. The receiver says whether this replica may act; should its sender ever
/// be gone without a [`LeaseHandle::release`], treat that as lost leadership.
pub fn spawn(
    client: Client,
    namespace: &str,
    identity: &str,
    timing: Timing,
    wall_clock: impl Fn() -> Timestamp + Send + Sync + 'static,
) -> (watch::Receiver<Leadership>, LeaseHandle) {
    let store = LeaseStore::new(client, namespace, timing.call_deadline);
    let (sender, receiver) = watch::channel(Leadership::Waiting { holder: None });
    let elector = Elector::new(
        store.clone(),
        identity.to_owned(),
        timing,
        Box::new(wall_clock),
        sender,
    );
    let stop = CancellationToken::new();
    let task = tokio::spawn(elector.run(stop.clone()));
    let handle = LeaseHandle {
        stop: stop.drop_guard(),
        task,
        store,
        identity: identity.to_owned(),
    };
    (receiver, handle)
}
