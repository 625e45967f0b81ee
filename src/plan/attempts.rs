//! Counts failures of one GpuModule, keeps the last one, and says when to try again.
//!
//! kube's error policy is not told of successes, so it cannot do this. The pause grows from 5 s to 10 min and is jittered; a
//! success, a new generation or a `reconcile-at` begins anew.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::backoff::backoff;

/// Reason of a failed uninstall.
pub const UNINSTALL_FAILED: &str = "UninstallFailed";

/// Reason of a failed rollback.
pub const RECOVERY_FAILED: &str = "RecoveryFailed";

/// Reason where a release whose Secrets were deleted cannot be installed over its objects.
pub const RECORDING_FAILED: &str = "RecordingFailed";

const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(5);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// A step that failed, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Reason of condition `Installed`, in CamelCase.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

/// Failures in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    generation: i64,
    failures: u32,
    by_reason: BTreeMap<&'static str, u32>,
    last: Option<(Failure, Timestamp)>,
}

impl Attempts {
    /// How many tries failed in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// How many of them had that reason.
    pub fn failures_of(&self, reason: &str) -> u32 {
        self.by_reason.get(reason).copied().unwrap_or_default()
    }

    /// The failure of the last try, unless it succeeded.
    pub fn last(&self) -> Option<&Failure> {
        self.last.as_ref().map(|(failure, _)| failure)
    }

    /// The end of the pause, if `now` lies in it.
    pub fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.last
            .as_ref()
            .map(|(_, retry_at)| *retry_at)
            .filter(|retry_at| *retry_at > now)
    }

    /// Forgets the failures of an older generation of the spec.
    pub fn observe_generation(&mut self, generation: i64) {
        if self.generation != generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
    }

    /// Forgets all failures.
    pub fn succeeded(&mut self) {
        *self = Self {
            generation: self.generation,
            ..Self::default()
        };
    }

    /// Notes a failure. `jitter` is a number from 0 to 1 that differs from replica to replica and from time to time.
    pub fn failed(&mut self, failure: Failure, now: Timestamp, jitter: f64) {
        let pause = backoff(FIRST_PAUSE, LONGEST_PAUSE, self.failures, jitter);
        self.failures = self.failures.saturating_add(1);
        *self.by_reason.entry(failure.reason).or_default() += 1;
        self.last = Some((failure, now + pause));
    }
}
