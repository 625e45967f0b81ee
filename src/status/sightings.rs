//! Since when something is seen to be wrong where no object tells it.
//!
//! Each trouble has a time of its own, so that an old one takes no grace from a new one. What is no longer seen is forgotten. A new
//! process knows nothing: what it finds in its first look counts from the time at which the status says that not all was ready.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// What was wrong when the status was last computed, by what it was about and the reason; `None`: it never was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings(Option<BTreeMap<(String, &'static str), Timestamp>>);

/// What is wrong now, each with the time at which that was first seen.
pub struct Sighted<'a> {
    before: &'a Sightings,
    /// When that is first seen which was not there before.
    first: Timestamp,
    noted: BTreeMap<(String, &'static str), Timestamp>,
}

impl<'a> Sighted<'a> {
    /// `not_ready_since`: since when the status says that not all is ready; `now` where it does not.
    pub fn new(before: &'a Sightings, now: Timestamp, not_ready_since: Timestamp) -> Self {
        Self {
            before,
            first: if before.0.is_none() { not_ready_since } else { now },
            noted: BTreeMap::new(),
        }
    }

    /// Since when that is so. `about` is the UID of a node, or empty for the cluster as a whole.
    pub fn since(&mut self, about: &str, reason: &'static str) -> Timestamp {
        let key = (about.to_owned(), reason);
        let known = self.before.0.as_ref().and_then(|before| before.get(&key));
        let since = known.copied().unwrap_or(self.first);
        self.noted.insert(key, since);
        since
    }

    /// What to remember of it.
    pub fn remembered(self) -> Sightings {
        Sightings(Some(self.noted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::NOW;

    #[test]
    fn each_trouble_has_its_own_time_and_is_forgotten_when_it_is_gone() {
        let at = |minutes| NOW + jiff::SignedDuration::from_mins(minutes);
        let new = Sightings::default();
        let mut sighted = Sighted::new(&new, at(9), at(5));
        assert_eq!(
            sighted.since("a", "Slow"),
            at(5),
            "a new process trusts the status"
        );
        let known = sighted.remembered();
        let mut sighted = Sighted::new(&known, at(20), at(5));
        assert_eq!(sighted.since("a", "Slow"), at(5));
        assert_eq!(sighted.since("a", "Broken"), at(20));
        assert_eq!(sighted.since("b", "Slow"), at(20));
        let known = Sighted::new(&sighted.remembered(), at(30), at(5)).remembered();
        let mut sighted = Sighted::new(&known, at(40), at(5));
        assert_eq!(sighted.since("a", "Slow"), at(40));
    }
}
