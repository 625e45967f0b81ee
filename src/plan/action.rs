//! What can be done to the release, and the reasons for it in words.

use super::NodeLabel;
use crate::desired::Step;
use crate::drift::ObjectRef;
use crate::facts::{Leavings, Leftover, Orphan, Removal};
use crate::helm::RevisionStatus;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the module's finalizer onto the GpuModule.
    AddFinalizer,
    /// Let the GpuModule go.
    RemoveFinalizer,
    /// Note on the GpuModule that its removal has begun.
    BeginRemoval {
        /// What has to be known until its end.
        removal: Removal,
    },
    /// Make the release's namespace and give the operator its rights in it.
    OpenNamespace,
    /// Apply the CRDs and run `helm upgrade --install`.
    Upgrade {
        /// What is wanted, or a step on the way to it.
        to: Step,
        /// Why.
        cause: Cause,
    },
    /// Run `helm rollback` to free a release that a dead Helm process left locked.
    Rollback {
        /// The revision to return to.
        to: u32,
        /// The status that was found.
        found: RevisionStatus,
    },
    /// Delete the Secret of a revision that is in Helm's way; the objects stay.
    Discard {
        /// The revision.
        revision: u32,
        /// Why.
        why: Obstacle,
    },
    /// Apply these CRDs of the chart.
    RestoreCrds {
        /// The CRDs.
        crds: Vec<ObjectRef>,
    },
    /// Put objects of the release right, without Helm and without a new revision.
    Reapply {
        /// The objects.
        objects: Vec<ObjectRef>,
        /// What is wrong with them, in words.
        why: String,
    },
    /// Set or take off labels by which NVIDIA's operator knows what to do on a node.
    LabelNodes {
        /// The labels.
        labels: Vec<NodeLabel>,
    },
    /// Delete what was left behind beside the release.
    Prune {
        /// The objects.
        objects: Vec<Orphan>,
        /// Who has left them.
        left_by: LeftBy,
    },
    /// Take away what is left.
    Clear {
        /// Of which kind of thing.
        what: Leavings,
        /// The objects.
        objects: Vec<Leftover>,
    },
    /// Run `helm uninstall`.
    Uninstall {
        /// Whether the chart's hook Jobs run.
        hooks: bool,
    },
}

impl Action {
    /// True for a helm command that is to change which revision is the newest.
    pub const fn changes_release(&self) -> bool {
        matches!(
            self,
            Self::Upgrade { .. } | Self::Rollback { .. } | Self::Uninstall { .. }
        )
    }
}

/// Who has left objects behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftBy {
    /// An upgrade that failed: Helm never looks at what only such a revision has.
    FailedUpgrade,
    /// NVIDIA's operator, which keeps the DaemonSets of its drivers when the driver is switched off.
    FormerDriver,
}

impl LeftBy {
    /// In words, for the status.
    pub const fn why(self) -> &'static str {
        match self {
            Self::FailedUpgrade => "left behind by an upgrade that failed",
            Self::FormerDriver => "left behind by the driver that was switched off",
        }
    }
}

/// Why no helm command gets past a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Helm cannot decode it: it does not see the revision and cannot make one of the same number.
    Undecodable,
    /// It is unfinished, and rolling back fails.
    NotFreed,
    /// It is unfinished, and rolling back would lead to an earlier chart line, which NVIDIA does not support.
    AnotherLine,
}

impl Obstacle {
    /// In words, for the status.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Undecodable => "Helm cannot decode it",
            Self::NotFreed => "it is unfinished and cannot be rolled back",
            Self::AnotherLine => "it is unfinished, and charts are not rolled back to an earlier line",
        }
    }
}

/// Why the release is installed or upgraded; ends up in `helm history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was no release.
    Install,
    /// The wanted release is another one.
    Changed,
    /// The last try failed.
    Retry,
    /// Somebody else changed the release.
    ForeignChange,
    /// Somebody else made the release, and the user gave it to the module.
    Adopt,
    /// Somebody deleted the release's Secrets while its objects stand.
    RecordLost,
    /// The driver change that was held may go on now.
    DriversLetGo,
}

impl Cause {
    /// In words, for `helm history` and the status.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Changed => "values or chart changed",
            Self::Retry => "the last try failed",
            Self::ForeignChange => "the release was not as wanted",
            Self::DriversLetGo => "the driver change that waited goes on",
            Self::Adopt => "adopt the existing release",
            Self::RecordLost => "the Secrets of the release were deleted",
        }
    }
}
