//! What comes before a release that the module did not make is taken over.
//!
//! It is read first, and what would be lost is listed. Nothing of it is touched before the user asks for it, and where something
//! would be lost, before the user asks for it knowing that. From then on it is treated as a release of the module's.

mod dropped;

use semver::Version;

use super::{Action, Cause, Foreign, Hold, Plan, Situation, foreign, held, release};
use crate::api::AdoptionStatus;
use crate::desired::Desired;
use crate::facts::{ExistingContent, History, ReleaseFacts, Revision};

/// Most paths of dropped values that are listed.
const MAX_LISTED: usize = 50;

/// A release that the module did not make and does not take over yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unadopted {
    /// The user has not asked for it.
    #[error("Helm release {} was not made by this module; {}", Desired::release_path(), invitation(listing.as_ref()))]
    NotAsked {
        /// What would be lost, where it could be read.
        listing: Option<Listing>,
    },
    /// The user has asked for it, but not after having been told what would be lost.
    #[error(
        "taking over Helm release {} drops {} of its values, listed in status.adoption: copy what you need to spec.values or spec.driver, or set spec.adoptExistingRelease to false and, once the status has seen that, to true again",
        Desired::release_path(),
        listing.count()
    )]
    NotConfirmed {
        /// What would be lost.
        listing: Listing,
    },
}

fn invitation(listing: Option<&Listing>) -> String {
    match listing.map(Listing::count) {
        None | Some(0) => {
            "set spec.adoptExistingRelease to true to let the module take it over, or uninstall it".to_owned()
        }
        Some(count) => format!(
            "taking it over drops {count} of its values, listed in status.adoption: copy what you need to spec.values or spec.driver, then set spec.adoptExistingRelease to true, or uninstall it"
        ),
    }
}

impl Unadopted {
    /// The reason of condition `Configured`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotAsked { .. } => "ReleaseNotAdopted",
            Self::NotConfirmed { .. } => "AdoptionNotConfirmed",
        }
    }

    /// What would be lost.
    pub const fn listing(&self) -> Option<&Listing> {
        match self {
            Self::NotAsked { listing } => listing.as_ref(),
            Self::NotConfirmed { listing } => Some(listing),
        }
    }
}

/// What would be lost with the adoption of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Chart version of the release.
    pub chart_version: Version,
    /// The revision that was read.
    pub revision: u32,
    /// Dotted paths of values, at most [`MAX_LISTED`].
    pub dropped: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

impl Listing {
    fn new(s: &Situation<'_>, desired: &Desired, revision: u32, existing: &ExistingContent) -> Self {
        let mut dropped = dropped::dropped(existing, desired, s.catalogue);
        let more = dropped.len().saturating_sub(MAX_LISTED);
        dropped.truncate(MAX_LISTED);
        Self {
            chart_version: existing.chart_version.clone(),
            revision,
            dropped,
            more,
        }
    }

    const fn count(&self) -> usize {
        self.dropped.len() + self.more
    }

    /// True where the user was shown all of it before asking for the adoption.
    fn is_confirmed_by(&self, shown: &AdoptionStatus, generation: i64) -> bool {
        let in_time = shown.listed_generation.is_some_and(|listed| listed < generation);
        let listed = |path| shown.dropped_values.contains(path);
        // Of what is not listed only the number is known.
        let same_rest = self.more == 0
            || (self.dropped == shown.dropped_values
                && u32::try_from(self.more) == Ok(shown.more_dropped_values));
        in_time && same_rest && self.dropped.iter().all(listed)
    }
}

/// What is to be done about a release that the module did not make; `None` where there is none, or where something else comes
/// first that says so itself.
pub fn step(s: &Situation<'_>) -> Option<Plan> {
    let ReleaseFacts::Read(history) = &s.observed.release else {
        return None;
    };
    if foreign::is_ours(s) {
        return None;
    }
    let can_act = !s.suspended && s.desired.is_ok() && super::unread(s).is_none();
    if s.adopt && !can_act {
        return None;
    }
    let held = |unadopted| Some(Plan::Hold(Hold::Unadopted(unadopted)));
    let desired = match (s.desired, history.is_empty()) {
        (_, true) => return objects(s),
        (Ok(desired), false) => desired,
        (Err(_), false) => return held(Unadopted::NotAsked { listing: None }),
    };
    let running = running(history)?;
    let revision = running.number;
    let read = s
        .observed
        .existing
        .as_ref()
        .filter(|existing| existing.uid == running.uid && existing.wanted_chart == desired.chart.version);
    let Some(existing) = read else {
        return if can_act {
            Some(Plan::ReadExisting { revision })
        } else {
            held(Unadopted::NotAsked { listing: None })
        };
    };
    let Some(content) = &existing.content else {
        return Some(Plan::Hold(Hold::Foreign(Foreign::Undecodable { revision })));
    };
    let listing = Listing::new(s, desired, revision, content);
    let confirmed = || {
        s.listed
            .is_some_and(|shown| listing.is_confirmed_by(shown, s.generation))
    };
    if !s.adopt {
        held(Unadopted::NotAsked {
            listing: Some(listing),
        })
    } else if listing.count() > 0 && !confirmed() {
        held(Unadopted::NotConfirmed { listing })
    } else {
        Some(as_adoption(release::step(s, desired), s, desired))
    }
}

/// The revision that runs, or else the newest.
fn running(history: &History) -> Option<&Revision> {
    history.last_good().or_else(|| history.latest())
}

/// Objects of the release while its Secrets are gone.
fn objects(s: &Situation<'_>) -> Option<Plan> {
    let kind = foreign::stands_without_record(s)?;
    match s.desired {
        Ok(desired) if s.adopt => Some(as_adoption(release::step(s, desired), s, desired)),
        _ => Some(Plan::Hold(Hold::Foreign(Foreign::Unrecorded { kind }))),
    }
}

/// The same step, named for what it is. A release that is as wanted is made the module's all the same.
fn as_adoption(plan: Plan, s: &Situation<'_>, desired: &Desired) -> Plan {
    let to = match plan {
        Plan::Act(Action::Upgrade { to, .. }) => to,
        Plan::Keep => held::as_it_runs(s, desired),
        other => return other,
    };
    Plan::Act(Action::Upgrade {
        to,
        cause: Cause::Adopt,
    })
}
