//! The decision about the Lease, without client or clock.
//!
//! [`Sighting`] remembers since when the Lease has looked as it does now, by this process's own monotonic clock;
//! [`evaluate`] says from it whether the Lease may be taken. No wall clock is compared, so it does not matter whose
//! clock is right.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The part of a Lease that says who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// Identity of the holder; `None` when nobody holds it.
    pub holder: Option<String>,
    /// The holder's wall clock at its last renewal. Only ever compared for equality.
    pub renewed: Option<Timestamp>,
    /// How often the Lease changed hands.
    pub transitions: i32,
}

/// What to do about the Lease now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is free: write our identity into it.
    Claim,
    /// It is ours: write a new renewal time.
    Renew,
    /// Another holds it: look again after `retry_in`, which ends no later than its expiry.
    Wait {
        /// Who holds it.
        holder: String,
        /// Time left until the holder counts as gone.
        retry_in: Duration,
    },
}

/// The Lease as it was last seen, and since when it has looked like that.
#[derive(Debug, Default)]
pub struct Sighting {
    last: Option<(LeaseView, Instant)>,
}

impl Sighting {
    /// Takes in the Lease as just read; `now` must be taken after the read ended, which can only err towards
    /// waiting longer. A Lease that has vanished leaves the memory of its holder in place.
    pub fn note(&mut self, view: Option<&LeaseView>, now: Instant) {
        let Some(view) = view else { return };
        if self.last.as_ref().is_none_or(|(last, _)| last != view) {
            self.last = Some((view.clone(), now));
        }
    }
}

/// Decides what to do about the Lease that `sighting` has just noted.
///
/// `duration` is how long a holder is left alone after its last visible sign of life. A vanished Lease is treated as
/// one whose holder has not been heard of since: somebody deleted it, and the holder does not know yet.
pub fn evaluate(sighting: &Sighting, identity: &str, duration: Duration, now: Instant) -> Verdict {
    let Some((view, since)) = &sighting.last else {
        return Verdict::Claim;
    };
    match &view.holder {
        None => Verdict::Claim,
        Some(holder) if holder == identity => Verdict::Renew,
        Some(holder) => {
            let retry_in = (*since + duration).saturating_duration_since(now);
            if retry_in.is_zero() {
                Verdict::Claim
            } else {
                Verdict::Wait {
                    holder: holder.clone(),
                    retry_in,
                }
            }
        }
    }
}
