//! What is waited for.

use semver::Version;

use crate::facts::Leavings;
use crate::helm::RevisionStatus;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The pause after a failure.
    Backoff,
    /// Somebody else's Helm process, or the deadline for it.
    ForeignOperation(RevisionStatus),
    /// The namespace of the release to be gone.
    NamespaceTerminating,
    /// NVIDIA's controller of a chart on the way, which has to run before the next step.
    Step {
        /// The chart that is installed.
        at: Version,
    },
    /// The end of GPU work, before the module is removed; [`protection`] tells it.
    Work,
    /// What keeps a change of the driver's mode from the nodes; [`waiting`] tells it.
    Drivers,
    /// The next try to take these objects away, which the API server refuses.
    Refused {
        /// Of which kind of thing.
        what: Leavings,
        /// The objects.
        names: Vec<String>,
        /// One of the refusals, in words.
        why: String,
    },
}
