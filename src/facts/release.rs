//! The history of the release, read from the labels of its Secrets; their content stays unread.

use std::fmt;

use jiff::Timestamp;

/// Status of a revision, as Helm labels its Secret (helm.sh/helm/v4 pkg/release/common/status.go).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HelmStatus {
    /// The revision is what runs.
    Deployed,
    /// A later revision replaced it.
    Superseded,
    /// Helm gave up on it.
    Failed,
    /// A first install began and has not ended.
    PendingInstall,
    /// An upgrade began and has not ended.
    PendingUpgrade,
    /// A rollback began and has not ended.
    PendingRollback,
    /// An uninstall began and has not ended.
    Uninstalling,
    /// Uninstalled with its history kept.
    Uninstalled,
    /// Anything else.
    Unknown,
}

impl HelmStatus {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::Deployed,
        Self::Superseded,
        Self::Failed,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
        Self::Uninstalling,
        Self::Uninstalled,
        Self::Unknown,
    ];

    /// Reads the label `status`.
    pub fn from_label(label: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == label)
            .unwrap_or(Self::Unknown)
    }

    /// As in the label `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
            Self::Uninstalling => "uninstalling",
            Self::Uninstalled => "uninstalled",
            Self::Unknown => "unknown",
        }
    }

    /// True while Helm refuses other operations because one has not ended.
    pub const fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl fmt::Display for HelmStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One revision of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its number, from 1.
    pub number: i64,
    /// Its status.
    pub status: HelmStatus,
    /// When its Secret was last written, as far as the API server notes it (`managedFields`).
    pub changed: Timestamp,
    /// Label [`crate::api::LABEL_FINGERPRINT`].
    pub fingerprint: Option<String>,
    /// Label [`crate::api::LABEL_BY`].
    pub by: Option<String>,
    /// Label [`crate::api::LABEL_REVISION`]: the number that the module meant to make.
    pub meant: Option<i64>,
}

impl Revision {
    /// True where the module ran the Helm command that made this revision.
    ///
    /// `helm upgrade` and `helm rollback` by hand copy the labels of an earlier revision, so a fingerprint alone proves
    /// nothing; but then [`Self::meant`] is the number of that earlier revision.
    pub fn made_by_module(&self) -> bool {
        self.meant == Some(self.number)
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
        let good = |r: &&Revision| matches!(r.status, HelmStatus::Deployed | HelmStatus::Superseded);
        self.0.iter().rev().find(good)
    }

    /// The revisions, oldest first.
    pub fn all(&self) -> &[Revision] {
        &self.0
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
    pub fn next_number(&self) -> i64 {
        self.latest().map_or(1, |latest| latest.number + 1)
    }
}
