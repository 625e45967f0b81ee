//! What is missing on a node, measured against the time that it may take.

use jiff::Timestamp;

use super::NodeReason;
use super::judge::Finding;
use crate::facts::{NodeFacts, ReleaseFacts};
use crate::status::Report;
use crate::status::operands::STARTING_LIMIT;
use crate::status::sightings::Sighted;

/// What is expected of a node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Pods can get its GPUs.
    Usable,
    /// Its machine is being removed: it counts no more.
    Leaving,
    /// It is to take no part, or not yet: it does not count.
    Excluded(NodeReason),
    /// Not usable, but it has just joined, and is within its time: it counts as a node, and is no fault.
    Starting { until: Timestamp },
    /// Not usable, and within its time.
    Rolling { until: Timestamp, why: Finding },
    /// Its driver is being replaced: neither late nor for a user to uncordon.
    Changing,
    /// Not usable, and waiting changes nothing, or its time is up.
    Lost(Finding),
}

impl Standing {
    /// True where the node is there to stay and takes part.
    pub const fn counts(&self) -> bool {
        !matches!(self, Self::Leaving | Self::Excluded(_))
    }
}

/// The times that nodes are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub now: Timestamp,
    /// Since when there is a release: a node that has joined since is expected to take its time.
    pub installed: Timestamp,
    /// When the release last changed, with which everything may begin anew on every node.
    pub changed: Timestamp,
}

impl Times {
    pub fn of(report: &Report<'_>) -> Self {
        let installed = match &report.observed.release {
            ReleaseFacts::Read(history) => history.since(),
            ReleaseFacts::Unreadable => None,
        };
        let changed = report.observed.release.latest().map(|latest| latest.changed);
        Self {
            now: report.now,
            installed: installed.unwrap_or(report.now),
            changed: changed.unwrap_or(report.now),
        }
    }
}

/// Where a node stands on which that is missing.
pub fn standing(node: &NodeFacts, found: Finding, times: Times, sighted: &mut Sighted<'_>) -> Standing {
    if found.cause.reason == NodeReason::UpgradeInProgress {
        return Standing::Changing;
    }
    let Some(limit) = found.limit else {
        return Standing::Lost(found);
    };
    let lost = found
        .since
        .unwrap_or_else(|| sighted.since(&node.uid, found.cause.reason.as_str()));
    let start = node.created + STARTING_LIMIT;
    if node.created > times.installed && times.now < start {
        return Standing::Starting { until: start };
    }
    let until = lost.max(node.created).max(times.changed) + limit;
    if times.now < until {
        Standing::Rolling { until, why: found }
    } else {
        Standing::Lost(found)
    }
}
