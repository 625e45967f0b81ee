//! The history of the release, read from the labels of its Secrets; their content stays unread.

use jiff::Timestamp;
use semver::Version;

use crate::api::NodeFeatureDiscovery;
use crate::catalogue::DriverLayout;
use crate::desired::{DriverId, DriverUpgrades};
use crate::helm::RevisionStatus;

/// One revision of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number, from 1. Helm uses a number again when the newest revision was deleted.
    pub number: u32,
    /// UID of its Secret.
    pub uid: String,
    /// Its status.
    pub status: RevisionStatus,
    /// When its Secret was made.
    pub created: Timestamp,
    /// When its Secret was last written, as far as the API server notes it (`managedFields`).
    pub changed: Timestamp,
    /// Label [`crate::api::LABEL_FINGERPRINT`].
    pub fingerprint: Option<String>,
    /// Label [`crate::api::LABEL_BY`].
    pub by: Option<String>,
    /// Label [`crate::api::LABEL_REVISION`]: the number that the module meant to make.
    pub meant: Option<u32>,
    /// Label [`crate::api::LABEL_CHART`].
    pub chart: Option<Version>,
    /// Label [`crate::api::LABEL_NFD`].
    pub node_feature_discovery: Option<NodeFeatureDiscovery>,
    /// Label [`crate::api::LABEL_LAYOUT`].
    pub layout: Option<DriverLayout>,
    /// Label [`crate::api::LABEL_DRIVER`].
    pub driver: Option<DriverId>,
    /// Label [`crate::api::LABEL_DRIVER_UPGRADES`].
    pub driver_upgrades: Option<DriverUpgrades>,
}

impl Revision {
    /// True where the module ran the Helm command that made this revision.
    ///
    /// `helm upgrade` and `helm rollback` by hand copy the labels of an earlier revision, so a fingerprint alone proves
    /// nothing; but then [`Self::meant`] is the number of that earlier revision.
    pub fn made_by_module(&self) -> bool {
        self.meant == Some(self.number)
    }

    /// Which object describes the driver in a revision that the module made.
    pub fn own_layout(&self) -> Option<DriverLayout> {
        self.layout.filter(|_| self.made_by_module())
    }

    /// The driver that the nodes were last told to run when the module made this revision.
    pub fn own_driver(&self) -> Option<&DriverId> {
        self.driver.as_ref().filter(|_| self.made_by_module())
    }

    /// True for a revision in which the module keeps NVIDIA's operator from replacing running drivers.
    pub fn holds_drivers(&self) -> bool {
        self.made_by_module() && self.driver_upgrades == Some(DriverUpgrades::Held)
    }

    /// Chart version of a revision that the module made.
    pub fn own_chart(&self) -> Option<&Version> {
        self.chart.as_ref().filter(|_| self.made_by_module())
    }
}

/// All revisions, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<Revision>);

impl History {
    /// Sorts the revisions.
    pub fn new(mut revisions: Vec<Revision>) -> Self {
        revisions.sort_by_key(|revision| revision.number);
        Self(revisions)
    }

    /// The newest revision. Only it says what Helm will do next: an old one may stay `pending-upgrade` for ever.
    pub fn latest(&self) -> Option<&Revision> {
        self.0.last()
    }

    /// The newest revision that once worked.
    pub fn last_good(&self) -> Option<&Revision> {
        let good = |r: &&Revision| matches!(r.status, RevisionStatus::Deployed | RevisionStatus::Superseded);
        self.0.iter().rev().find(good)
    }

    /// The revisions, oldest first.
    pub fn all(&self) -> &[Revision] {
        &self.0
    }

    /// When the oldest revision was made that is kept: since then there is a release.
    pub fn since(&self) -> Option<Timestamp> {
        self.0.first().map(|oldest| oldest.created)
    }

    /// True where no revision is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True where some revision carries the module's mark.
    pub fn is_marked(&self) -> bool {
        self.0.iter().any(|revision| revision.by.is_some())
    }

    /// The number that Helm will give to the next revision.
    pub fn next_number(&self) -> u32 {
        self.latest().map_or(1, |latest| latest.number.saturating_add(1))
    }
}
