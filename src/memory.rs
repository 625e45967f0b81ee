//! What the operator remembers of the GpuModule between passes. All of it can be lost: a new process finds its way from the
//! status and the release alone.

use jiff::{SignedDuration, Timestamp};

use crate::api::GpuModuleStatus;
use crate::facts::Comparison;
use crate::plan::Attempts;
use crate::status::Failure;

/// How often the release is compared through Helm although nothing seems to have happened, against silent watches.
const COMPARISON_INTERVAL: SignedDuration = SignedDuration::from_hours(1);

/// Memory of one GpuModule.
#[derive(Clone, Debug)]
pub struct Memory {
    /// UID of the GpuModule; another object of the same name begins anew.
    pub uid: String,
    /// Failures in a row.
    pub attempts: Attempts,
    /// The failure that the current pause is for.
    pub failure: Option<Failure>,
    /// The last comparison through Helm.
    pub comparison: Option<Comparison>,
    /// When the next comparison is due by itself.
    pub compare_at: Timestamp,
    /// The status as last written; the object in the watch's cache may be older.
    pub written: Option<GpuModuleStatus>,
}

impl Memory {
    /// An empty memory. `jitter` is a number from 0 to 1.
    pub fn new(uid: String, now: Timestamp, jitter: f64) -> Self {
        Self {
            uid,
            attempts: Attempts::default(),
            failure: None,
            comparison: None,
            compare_at: next_comparison(now, jitter),
            written: None,
        }
    }

    /// Notes a comparison and plans the next one.
    pub fn compared(&mut self, comparison: Option<Comparison>, now: Timestamp, jitter: f64) {
        self.comparison = comparison;
        self.compare_at = next_comparison(now, jitter);
    }

    /// Notes that everything went well.
    pub fn succeeded(&mut self) {
        self.attempts.succeeded();
        self.failure = None;
    }

    /// Notes a failure.
    pub fn failed(&mut self, failure: Failure, now: Timestamp, jitter: f64) {
        self.attempts.failed(now, jitter);
        self.failure = Some(failure);
    }

    /// Forgets failures that belong to another spec, or that a user has asked to forget.
    pub fn begin_anew(&mut self, generation: i64, forced: bool) {
        let before = self.attempts.failures();
        self.attempts.observe_generation(generation);
        if forced {
            self.attempts.succeeded();
        }
        if before > 0 && self.attempts.failures() == 0 {
            self.failure = None;
        }
    }
}

/// Between 54 and 66 minutes from now, so that operators that were started together do not compare together.
fn next_comparison(now: Timestamp, jitter: f64) -> Timestamp {
    now + COMPARISON_INTERVAL.mul_f64(jitter.clamp(0.0, 1.0).mul_add(0.2, 0.9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn failed() -> Memory {
        let mut memory = Memory::new("uid".to_owned(), NOW, 0.5);
        memory.begin_anew(1, false);
        memory.failed(
            Failure {
                reason: "UpgradeFailed",
                message: "no".to_owned(),
            },
            NOW,
            0.5,
        );
        memory
    }

    #[test]
    fn a_failure_lasts_until_a_new_generation_or_a_forced_pass() {
        let mut memory = failed();
        memory.begin_anew(1, false);
        assert!(memory.failure.is_some());
        for (generation, forced) in [(2, false), (1, true)] {
            let mut memory = failed();
            memory.begin_anew(generation, forced);
            assert_eq!(memory.failure, None);
            assert_eq!(memory.attempts.blocked_until(NOW), None);
        }
    }

    #[test]
    fn comparisons_are_about_an_hour_apart() {
        let mut memory = Memory::new("uid".to_owned(), NOW, 0.0);
        assert_eq!(memory.compare_at, NOW + SignedDuration::from_mins(54));
        memory.compared(None, NOW, 1.0);
        assert_eq!(memory.compare_at, NOW + SignedDuration::from_mins(66));
    }
}
