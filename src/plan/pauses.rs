//! Things that are put right again and again, each with a pause of its own that grows: two writers make no storm.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::backoff::backoff;

const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);

/// What was put right lately, each thing with a word about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pauses<K, T>(BTreeMap<K, Tries<T>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tries<T> {
    count: u32,
    /// Not again before.
    until: Timestamp,
    last: T,
}

impl<K, T> Default for Pauses<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, T> Pauses<K, T> {
    /// Whether the thing may be put right now.
    pub fn are_over(&self, thing: &K, now: Timestamp) -> bool {
        self.0.get(thing).is_none_or(|tries| now >= tries.until)
    }

    /// Notes a try. `jitter` is a number from 0 to 1.
    pub fn tried(&mut self, thing: K, last: T, now: Timestamp, jitter: f64) {
        let count = self.0.get(&thing).map_or(0, |tries| tries.count);
        let tries = Tries {
            count: count.saturating_add(1),
            until: now + backoff(FIRST_PAUSE, LONGEST_PAUSE, count, jitter),
            last,
        };
        self.0.insert(thing, tries);
    }

    /// How often the thing was tried, and before when it is not tried again.
    pub fn tries(&self, thing: &K) -> (u32, Option<Timestamp>) {
        let tries = self.0.get(thing);
        tries.map_or((0, None), |tries| (tries.count, Some(tries.until)))
    }

    /// What was said of the last try.
    pub fn last(&self, thing: &K) -> Option<&T> {
        self.0.get(thing).map(|tries| &tries.last)
    }

    /// Things that were tried more often than that.
    pub fn more_than(&self, count: u32) -> impl Iterator<Item = (&K, &T)> {
        let often = self.0.iter().filter(move |(_, tries)| tries.count > count);
        often.map(|(thing, tries)| (thing, &tries.last))
    }

    /// Forgets what has been good for long, unless it is not over yet.
    pub fn fade(&mut self, now: Timestamp, is_open: impl Fn(&K) -> bool) {
        self.0
            .retain(|thing, tries| is_open(thing) || now < tries.faded());
    }

    /// Forgets the tries of one thing.
    pub fn forget(&mut self, thing: &K) {
        self.0.remove(thing);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// When something is due without any event: a try that was put off, or one to be forgotten.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let times = self.0.values().flat_map(|tries| [tries.until, tries.faded()]);
        times.filter(|at| *at > now).min()
    }
}

impl<T> Tries<T> {
    /// A writer that comes less often than that is no fight.
    fn faded(&self) -> Timestamp {
        self.until + LONGEST_PAUSE
    }
}
