//! What the operator remembers of the GpuModule between passes. All of it can be lost: a new process finds its way from the
//! status and the release alone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::api::GpuModuleStatus;
use crate::facts::{Comparison, ExistingRelease, Orphans, Removal, WorkFacts};
use crate::plan::{Attempts, DriftState, Labelled, Pruned, Refused, Settling, WORK_LOOK};
use crate::status::{Ended, Sightings};

/// How often the release is compared through Helm although nothing seems to have happened, against silent watches.
const COMPARISON_INTERVAL: SignedDuration = SignedDuration::from_hours(1);

/// Memory of one GpuModule.
#[derive(Clone, Debug)]
pub struct Memory {
    /// UID of the GpuModule; another object of the same name begins anew.
    pub uid: String,
    /// Generation of the spec that was last seen.
    generation: i64,
    /// Failures in a row.
    pub attempts: Attempts,
    /// The last comparison through Helm.
    pub comparison: Option<Comparison>,
    /// What was last read of a release that the module did not make.
    pub existing: Option<Arc<ExistingRelease>>,
    /// Since when the cluster asks for another Node Feature Discovery.
    pub nfd: Settling,
    /// When the next comparison is due by itself.
    pub compare_at: Timestamp,
    /// GPU work that was in the way, and when it was read.
    work: Option<(WorkFacts, Timestamp)>,
    /// UID of the newest revision's Secret before the last helm command, by which it should have become an older one or be gone.
    pub unmoved: Option<String>,
    /// What failed upgrades have left behind beside a revision.
    pub orphans: Option<Orphans>,
    /// What was left behind and deleted lately.
    pub pruned: Pruned,
    /// What became of the release's objects.
    pub drift: DriftState,
    /// Labels that were set on nodes or taken off lately.
    pub labelled: Labelled,
    /// What was noted when the removal began: a GpuModule that is gone can hold no note.
    pub removal: Option<Removal>,
    /// What the API server has refused to take away.
    pub refused: Refused,
    /// Since when what is wrong or under way was seen, where no object tells it.
    pub sightings: Sightings,
    /// What has been done to the release and is not in the status yet, oldest first.
    pub ended: Vec<Ended>,
    /// The status as last written; the object in the watch's cache may be older.
    pub written: Option<GpuModuleStatus>,
}

impl Memory {
    /// An empty memory. `jitter` is a number from 0 to 1.
    pub fn new(uid: String, now: Timestamp, jitter: f64) -> Self {
        Self {
            uid,
            generation: 0,
            attempts: Attempts::default(),
            comparison: None,
            existing: None,
            nfd: Settling::default(),
            compare_at: next_comparison(now, jitter),
            work: None,
            unmoved: None,
            orphans: None,
            pruned: Pruned::default(),
            drift: DriftState::default(),
            labelled: Labelled::default(),
            removal: None,
            refused: Refused::default(),
            sightings: Sightings::default(),
            ended: Vec::new(),
            written: None,
        }
    }

    /// Forgets what failed or was done again and again for an older generation of the spec.
    pub fn observe_generation(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.labelled.clear();
            self.pruned.clear();
            self.refused.clear();
        }
        self.attempts.observe_generation(generation);
        self.drift.observe_generation(generation);
    }

    /// Notes a comparison and plans the next one.
    pub fn compared(&mut self, comparison: Option<Comparison>, now: Timestamp, jitter: f64) {
        self.comparison = comparison;
        self.drift.inspect_again();
        self.compare_at = next_comparison(now, jitter);
    }

    /// Begins anew because a user asks for it: no pause, and a comparison at once.
    pub fn force(&mut self, now: Timestamp) {
        self.attempts.succeeded();
        self.drift.force();
        self.labelled.clear();
        self.pruned.clear();
        self.refused.clear();
        self.compare_at = now;
        self.work = None;
    }

    /// Notes GPU work. That there is none is news for one pass only: it may have come since.
    pub fn found_work(&mut self, work: &WorkFacts, now: Timestamp) {
        self.work = (!work.is_idle()).then(|| (work.clone(), now));
    }

    /// GPU work that was seen a moment ago, so that events cause no new reads.
    pub fn known_work(&self, now: Timestamp) -> Option<WorkFacts> {
        let (work, at) = self.work.as_ref()?;
        work.remembered().filter(|_| now < *at + WORK_LOOK)
    }
}

/// Between 54 and 66 minutes from now, so that operators that were started together do not compare together.
fn next_comparison(now: Timestamp, jitter: f64) -> Timestamp {
    now + COMPARISON_INTERVAL.mul_f64(jitter.clamp(0.0, 1.0).mul_add(0.2, 0.9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LabelChange, NodeLabel};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn comparisons_are_about_an_hour_apart_and_can_be_forced() {
        let mut memory = Memory::new("uid".to_owned(), NOW, 0.0);
        assert_eq!(memory.compare_at, NOW + SignedDuration::from_mins(54));
        memory.compared(None, NOW, 1.0);
        assert_eq!(memory.compare_at, NOW + SignedDuration::from_mins(66));
        memory.force(NOW);
        assert_eq!(memory.compare_at, NOW);
    }

    #[test]
    fn another_spec_is_tried_at_once() {
        let label = NodeLabel {
            node: "gpu-0".to_owned(),
            uid: "u".to_owned(),
            change: LabelChange::KeepOut,
        };
        let mut memory = Memory::new("uid".to_owned(), NOW, 0.0);
        for (generation, at_once) in [(1, false), (2, true)] {
            memory.labelled.tried(label.clone(), None, NOW, 0.0);
            memory.generation = 1;
            memory.observe_generation(generation);
            assert_eq!(memory.labelled.are_over(&label, NOW), at_once);
        }
    }

    #[test]
    fn work_in_the_way_is_known_for_a_moment_and_its_absence_never() {
        let mut memory = Memory::new("uid".to_owned(), NOW, 0.0);
        let busy = WorkFacts::Unreadable("no".to_owned());
        memory.found_work(&busy, NOW);
        assert_eq!(memory.known_work(NOW), Some(busy));
        assert_eq!(memory.known_work(NOW + WORK_LOOK), None);
        memory.found_work(&WorkFacts::Read(Vec::new()), NOW);
        assert_eq!(memory.known_work(NOW), None);
    }
}
