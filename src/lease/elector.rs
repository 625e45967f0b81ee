//! The task that competes for the Lease and keeps it.
//!
//! One attempt is: read unless the last write's answer is at hand, decide, write. Only an attempt that ended in a
//! successful write counts, from the moment at which the write was sent. A write without an answer may still have
//! happened; the next attempt reads what came of it.

use jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Leadership, Timing,
    evaluate::{Sighting, Verdict, evaluate},
    store::{LeaseStore, Stored},
};
use crate::kube_api::ApiError;

/// The wall clock, for the times that people read in the Lease.
pub(super) type WallClock = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// What one attempt came to.
enum Attempt {
    /// The Lease is ours; `since` is when the successful write was sent.
    Held { since: Instant },
    /// Another holds it; `look_again` is when that is worth another look.
    Taken { holder: String, look_again: Instant },
}

pub(super) struct Elector {
    store: LeaseStore,
    identity: String,
    timing: Timing,
    wall_clock: WallClock,
    sender: watch::Sender<Leadership>,
    sighting: Sighting,
    /// The Lease as our last write left it, while nothing says otherwise.
    stored: Option<Stored>,
    /// The last failure, so that an unchanged one is not logged on every try.
    failure: Option<String>,
}

impl Elector {
    pub fn new(
        store: LeaseStore,
        identity: String,
        timing: Timing,
        wall_clock: WallClock,
        sender: watch::Sender<Leadership>,
    ) -> Self {
        Self {
            store,
            identity,
            timing,
            wall_clock,
            sender,
            sighting: Sighting::default(),
            stored: None,
            failure: None,
        }
    }

    /// Competes until leadership was won and lost, or until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.compete() => {}
        }
    }

    async fn compete(&mut self) {
        let acquired = self.acquire().await;
        tracing::info!(
            identity = self.identity,
            "leading: this replica holds the Lease and acts"
        );
        let kill_by = self.lead(acquired).await;
        self.publish(Leadership::Lost { kill_by });
    }

    /// Waits for the Lease; returns when the write that took it was sent.
    async fn acquire(&mut self) -> Instant {
        loop {
            match self.attempt().await {
                Ok(Attempt::Held { since }) => return since,
                Ok(Attempt::Taken { holder, look_again }) => {
                    self.publish(Leadership::Waiting { holder: Some(holder) });
                    sleep_until(look_again).await;
                }
                Err(error) => {
                    self.note_failure(&error);
                    sleep(self.timing.retry_every).await;
                }
            }
        }
    }

    /// Keeps the Lease as long as it can; returns by when everything must be dead.
    async fn lead(&mut self, mut renewed: Instant) -> Instant {
        loop {
            let until = renewed + self.timing.duration;
            self.publish(Leadership::Leading { until });
            match timeout_at(renewed + self.timing.give_up_after, self.renew(renewed)).await {
                Ok(Ok(since)) => renewed = since,
                Ok(Err(holder)) => {
                    tracing::error!(holder, "another replica has taken the Lease, so this one stops");
                    return Instant::now();
                }
                Err(_) => {
                    let last_failure = self.failure.as_deref();
                    tracing::error!(
                        last_failure,
                        "the Lease could not be renewed in time, so this replica stops"
                    );
                    return until - self.timing.kill_margin;
                }
            }
        }
    }

    /// Renews once the next renewal is due, with retries; gives back the other holder if there is one.
    async fn renew(&mut self, renewed: Instant) -> Result<Instant, String> {
        sleep_until(renewed + self.timing.renew_every).await;
        loop {
            match self.attempt().await {
                Ok(Attempt::Held { since }) => return Ok(since),
                Ok(Attempt::Taken { holder, .. }) => return Err(holder),
                Err(error) => {
                    self.note_failure(&error);
                    sleep(self.timing.retry_every).await;
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, ApiError> {
        // Taken out, so that whatever interrupts or fails this attempt makes the next one read again.
        let current = match self.stored.take() {
            Some(stored) => Some(stored),
            None => self.store.read().await?,
        };
        let now = Instant::now();
        self.sighting
            .note(current.as_ref().map(|stored| &stored.view), now);
        match evaluate(&self.sighting, &self.identity, self.timing.duration, now) {
            Verdict::Wait { holder, retry_in } => {
                self.failure = None;
                Ok(Attempt::Taken {
                    holder,
                    look_again: now + retry_in.min(self.timing.retry_every),
                })
            }
            Verdict::Claim | Verdict::Renew => {
                let (since, wall_clock) = (Instant::now(), (self.wall_clock)());
                let written = self
                    .store
                    .hold(current.as_ref(), &self.identity, self.timing.duration, wall_clock)
                    .await?;
                self.sighting.note(Some(&written.view), Instant::now());
                self.stored = Some(written);
                self.failure = None;
                Ok(Attempt::Held { since })
            }
        }
    }

    fn publish(&self, leadership: Leadership) {
        self.sender.send_if_modified(|current| {
            let changed = *current != leadership;
            *current = leadership;
            changed
        });
    }

    fn note_failure(&mut self, error: &ApiError) {
        let text = error.to_string();
        if error.is_conflict() || self.failure.as_ref() == Some(&text) {
            tracing::debug!(%error, "trying again for the Lease");
        } else {
            tracing::warn!(%error, "trying again for the Lease");
        }
        self.failure = Some(text);
    }
}
