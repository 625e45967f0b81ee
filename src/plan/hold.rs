//! Reasons to do nothing. Each text says what is wrong, where, and what to do.

use semver::Version;

use super::{Foreign, Unadopted};
use crate::catalogue::MinorVersion;
use crate::desired::Refusal;

/// Why nothing may be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hold {
    /// `spec.suspend` is true.
    #[error("spec.suspend is true, so the release is left as it is; set it to false to go on")]
    Suspended,
    /// The spec cannot be turned into a release.
    #[error("{0}")]
    Refused(Refusal),
    /// Somebody else runs the stack.
    #[error("{0}")]
    Foreign(Foreign),
    /// A release of the module's name is there that somebody else made.
    #[error("{0}")]
    Unadopted(Unadopted),
    /// What the operator cannot read may forbid it to act.
    #[error("the operator cannot read {0}, apply the module's ClusterRoles again")]
    Unread(String),
    /// The cluster is older than the chart supports.
    #[error("Kubernetes {have} is older than {need}, which chart {chart} needs, upgrade the cluster")]
    UnsupportedKubernetes {
        /// Version of the cluster.
        have: MinorVersion,
        /// Oldest version that will do.
        need: MinorVersion,
        /// The chart that is wanted.
        chart: Version,
    },
    /// The wanted chart is older than the installed one.
    #[error(
        "chart {installed} is installed and cannot go back to {wanted}, set spec.chartVersion to {installed} or newer"
    )]
    Downgrade {
        /// What runs.
        installed: Version,
        /// What is asked for.
        wanted: Version,
    },
    /// NVIDIA supports no upgrade over that distance.
    #[error(
        "chart {installed} cannot be upgraded to {wanted} at once and this version of the module has no {via} chart to go through, upgrade the release to a {via} chart with Helm first"
    )]
    SkipsLine {
        /// What runs.
        installed: Version,
        /// What is asked for.
        wanted: Version,
        /// The line to go through.
        via: MinorVersion,
    },
}

impl Hold {
    /// True where the stack that runs is somebody else's.
    pub const fn is_about_others_stack(&self) -> bool {
        match self {
            Self::Unadopted(_) => true,
            Self::Foreign(foreign) => foreign.is_stack(),
            _ => false,
        }
    }

    /// The reason of condition `Configured`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::Refused(refusal) => refusal.reason(),
            Self::Foreign(foreign) => foreign.reason(),
            Self::Unadopted(unadopted) => unadopted.reason(),
            Self::Unread(_) => "Forbidden",
            Self::UnsupportedKubernetes { .. } => "UnsupportedKubernetes",
            Self::Downgrade { .. } => "DowngradeRefused",
            Self::SkipsLine { .. } => "UpgradePathRefused",
        }
    }
}
