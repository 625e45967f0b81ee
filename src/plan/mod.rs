//! Step 3, pure: what is wanted and what is observed become a [`Plan`]. Every decision of the operator is made here.
//!
//! [`decide`] names one step; the reconciler takes it, observes again and asks again, until nothing is left to do. Time is
//! an argument, so each row of the truth table is a plain test.

mod attempts;
mod deletion;
mod foreign;
mod hold;
mod pause;
mod release;
mod route;
mod work;

use jiff::{SignedDuration, Timestamp};

use semver::Version;

use crate::api::{ReleaseStatus, UpgradePolicy};
use crate::catalogue::Catalogue;
use crate::desired::{Desired, DriverId, Refusal, Step};
use crate::facts::{Observed, ReleaseFacts};
use crate::helm::RevisionStatus;

pub use attempts::{Attempts, Failure, UNINSTALL_FAILED};
pub use foreign::Foreign;
pub use hold::Hold;
pub use pause::{SOON, pause};
pub use work::{Blocker, DriverWait, Reading, WORK_LOOK, Waiting};

#[cfg(test)]
mod tests;

/// How long a revision that somebody else's Helm has not finished is left alone: twice Helm's own default timeout.
pub const FOREIGN_OPERATION_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// After how many failed tries an uninstall goes on without NVIDIA's hook Jobs, which need a schedulable node and a
/// pullable image.
pub const UNINSTALL_TRIES_WITH_HOOKS: u32 = 2;

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts; the truth table is made of them"
)]
pub struct Situation<'a> {
    /// The time of this pass.
    pub now: Timestamp,
    /// The GpuModule has a deletion timestamp.
    pub deleting: bool,
    /// The GpuModule carries the module's finalizer.
    pub finalizer: bool,
    /// `spec.suspend`.
    pub suspended: bool,
    /// `spec.upgrade.policy`.
    pub upgrade_policy: UpgradePolicy,
    /// The wanted release, or why there is none.
    pub desired: Result<&'a Desired, &'a Refusal>,
    /// The charts that there are.
    pub catalogue: &'a Catalogue,
    /// `status.release`: what the module left.
    pub recorded: Option<&'a ReleaseStatus>,
    /// What was observed.
    pub observed: &'a Observed,
    /// Failures so far.
    pub attempts: &'a Attempts,
    /// A real comparison with the release is due, whatever the labels say.
    pub comparison_due: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Everything is as wanted.
    Keep,
    /// Nothing may be done, for a reason that a user or another program must remove.
    Hold(Hold),
    /// Nothing is done before that time.
    Wait {
        /// When to look again.
        until: Timestamp,
        /// What is waited for.
        why: Wait,
    },
    /// Acting is next: read from the API server what no watch tells, then decide again.
    Look,
    /// Drivers would be replaced: read whether they may be, then decide again.
    Read(Reading),
    /// The newest revision is not known to be the module's: read it through Helm, then decide again.
    Compare,
    /// The release is gone and Kubernetes is still removing what it had made; names of what is left.
    AwaitRemoval(Vec<String>),
    /// Change something.
    Act(Action),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the module's finalizer onto the GpuModule.
    AddFinalizer,
    /// Let the GpuModule go.
    RemoveFinalizer,
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
    /// Run `helm uninstall`.
    Uninstall {
        /// Whether the chart's hook Jobs run.
        hooks: bool,
    },
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
        }
    }
}

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
    /// What keeps a change of the driver's mode from the nodes; [`waiting`] tells it.
    Drivers,
}

/// Decides the next step.
pub fn decide(situation: &Situation<'_>) -> Plan {
    guard(unguarded(situation), situation)
}

fn unguarded(s: &Situation<'_>) -> Plan {
    if s.deleting {
        return deletion::step(s);
    }
    if let Some(foreign) = foreign::find(s) {
        // An unreadable release in the module's own namespace may be the owner of what was found.
        let unclear = s.observed.release == ReleaseFacts::Unreadable && s.observed.surroundings.is_none();
        return if unclear {
            Plan::Look
        } else {
            Plan::Hold(Hold::Foreign(foreign))
        };
    }
    if s.suspended {
        return Plan::Hold(Hold::Suspended);
    }
    let desired = match s.desired {
        Ok(desired) => desired,
        Err(refusal) => return Plan::Hold(Hold::Refused(refusal.clone())),
    };
    match unread(s) {
        Some(hold) => Plan::Hold(hold),
        None => release::step(s, desired),
    }
}

/// The driver change that waits, if one does. What else is done meanwhile is [`decide`]'s affair.
pub fn waiting(s: &Situation<'_>) -> Waiting {
    let in_order = !s.suspended && s.observed.unread.is_empty() && foreign::find(s).is_none();
    match s.desired {
        _ if s.deleting => Waiting::Nothing,
        Ok(desired) if in_order => release::waiting(s, desired),
        _ => Waiting::Unknown,
    }
}

/// The driver that the nodes were last told to run, as far as anybody knows.
pub fn running_driver(s: &Situation<'_>) -> Option<DriverId> {
    release::running(s)?.driver.cloned()
}

fn unread(s: &Situation<'_>) -> Option<Hold> {
    (!s.observed.unread.is_empty()).then(|| Hold::Unread(s.observed.unread.join(", ")))
}

/// What has to be true before anything is changed, whatever it is.
fn guard(plan: Plan, s: &Situation<'_>) -> Plan {
    let tries = match &plan {
        // What ends a deletion is never put off.
        Plan::Act(Action::RemoveFinalizer) => false,
        Plan::Act(_) | Plan::Compare | Plan::Look | Plan::Read(_) => true,
        Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval(_) => return plan,
    };
    if tries && let Some(until) = s.attempts.blocked_until(s.now) {
        return Plan::Wait {
            until,
            why: Wait::Backoff,
        };
    }
    // Only read: whatever follows from it is guarded again.
    if matches!(plan, Plan::Read(_)) {
        return plan;
    }
    if s.observed.surroundings.is_none() {
        return Plan::Look;
    }
    if tries && !s.deleting && !s.finalizer {
        return Plan::Act(Action::AddFinalizer);
    }
    plan
}
