//! Since when something is seen to be wrong, or to be under way, where no object tells it.
//!
//! Each trouble and each step has a time of its own, so that an old one takes no grace from a new one. What is no longer seen is
//! forgotten. A new process knows nothing: trouble that it finds in its first look counts from the time at which the status says that
//! not all was ready.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Report;
use super::step::{self, Seen};

/// What was wrong, by what it was about and the reason.
type Troubles = BTreeMap<(String, &'static str), Timestamp>;

/// What was seen when the status was last computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    /// What was wrong; `None`: all that matters never could be looked at.
    troubles: Option<Troubles>,
    step: Seen,
}

/// What is seen now, each with the time at which that was first so.
pub struct Sighted<'a> {
    before: &'a Sightings,
    /// When that is first seen which was not there before.
    first: Timestamp,
    noted: Troubles,
    step: Seen,
}

impl<'a> Sighted<'a> {
    /// `not_ready_since`: since when the status says that not all is ready; `now` where it does not.
    pub fn new(before: &'a Sightings, now: Timestamp, not_ready_since: Timestamp) -> Self {
        Self {
            before,
            first: if before.troubles.is_none() {
                not_ready_since
            } else {
                now
            },
            noted: Troubles::new(),
            step: Seen::Unknown,
        }
    }

    /// Since when that is so. `about` is the UID of a node, or empty for the cluster as a whole.
    pub fn since(&mut self, about: &str, reason: &'static str) -> Timestamp {
        let key = (about.to_owned(), reason);
        let known = self.before.troubles.as_ref().and_then(|before| before.get(&key));
        let since = known.copied().unwrap_or(self.first);
        self.noted.insert(key, since);
        since
    }

    /// Since when the step is under way that the release, or its removal, is at.
    pub fn step(&mut self, report: &Report<'_>) -> Option<Timestamp> {
        self.step = step::see(report, &self.before.step);
        self.step.since()
    }

    /// What to remember of it. `sees_all`: everything could be looked at; what could not is not gone.
    pub fn remembered(self, sees_all: bool) -> Sightings {
        let troubles = if sees_all {
            Some(self.noted)
        } else {
            self.before.troubles.clone()
        };
        Sightings {
            troubles,
            step: self.step,
        }
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
        let known = sighted.remembered(true);
        let mut sighted = Sighted::new(&known, at(20), at(5));
        assert_eq!(sighted.since("a", "Slow"), at(5));
        assert_eq!(sighted.since("a", "Broken"), at(20));
        assert_eq!(sighted.since("b", "Slow"), at(20));
        let known = Sighted::new(&sighted.remembered(true), at(30), at(5)).remembered(true);
        let mut sighted = Sighted::new(&known, at(40), at(5));
        assert_eq!(sighted.since("a", "Slow"), at(40));
    }
}
