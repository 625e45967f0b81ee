//! Step 3, pure: what is wanted and what is observed become a [`Plan`]. Every decision of the operator is made here.
//!
//! [`decide`] names one step; the reconciler takes it, observes again and asks again, until nothing is left to do. Time is
//! an argument, so each row of the truth table is a plain test.

mod action;
mod adoption;
mod attempts;
mod backoff;
mod deletion;
pub mod drift;
mod effect;
mod farewell;
mod foreign;
mod held;
mod hold;
mod keep_out;
mod left_drivers;
mod nfd;
mod orphans;
mod pause;
mod pauses;
mod protection;
mod prune;
mod recovery;
mod rehearsal;
mod release;
mod route;
mod unrecorded;
mod wait;
mod work;

use jiff::{SignedDuration, Timestamp};

use crate::api::{
    AdoptionStatus, DeletionCrds, DeletionWorkloads, DriftMode, Operation, ReleaseStatus, UpgradePolicy,
};
use crate::catalogue::Catalogue;
use crate::desired::{Desired, DriverId, Refusal};
use crate::drift::ObjectRef;
use crate::facts::{Leavings, Observed, Orphans, Removal};
use crate::nodes::NodeRules;

pub use action::{Action, Cause, LeftBy, Obstacle};
pub use adoption::{Listing, Unadopted};
pub use attempts::{Attempts, Failure, RECORDING_FAILED, RECOVERY_FAILED, UNINSTALL_FAILED};
pub use deletion::{Refusable, Refused, stays};
pub use drift::DriftState;
pub use effect::{endless, in_vain, note, went_on};
pub use farewell::{Farewell, farewell};
pub use foreign::Foreign;
pub use hold::Hold;
pub use keep_out::{LabelChange, Labelled, NodeLabel};
pub use nfd::{NfdCrds, SETTLING, Settling};
pub use pause::{SOON, pause};
pub use protection::{Held, Protection, protection};
pub use prune::{Pruned, undeleted};
pub use rehearsal::{lines, pretend};
pub use wait::Wait;
pub use work::{Blocker, DriverWait, Reading, WORK_LOOK, Waiting};

#[cfg(test)]
mod tests;

/// After how many failed rollbacks the unfinished revision is deleted instead; a rollback can fail for ever where the revision to
/// return to holds a kind that is no longer served.
pub const ROLLBACK_TRIES: u32 = 3;

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
    /// How long a revision that somebody else's Helm has not finished is left alone.
    pub foreign_operation_limit: SignedDuration,
    /// The GpuModule has a deletion timestamp.
    pub deleting: bool,
    /// The GpuModule carries the module's finalizer.
    pub finalizer: bool,
    /// What was noted when the removal began, if it has.
    pub removal: Option<&'a Removal>,
    /// Nobody stays to look after the module: where its removal is held, nothing else is done meanwhile.
    pub only_removes: bool,
    /// `spec.deletion.workloads`.
    pub deletion_workloads: DeletionWorkloads,
    /// UID of the GpuModule.
    pub uid: &'a str,
    /// What the API server has refused to take away.
    pub refused: &'a Refused,
    /// `spec.deletion.crds`.
    pub deletion_crds: DeletionCrds,
    /// `spec.suspend`.
    pub suspended: bool,
    /// `spec.upgrade.policy`.
    pub upgrade_policy: UpgradePolicy,
    /// Generation of the GpuModule.
    pub generation: i64,
    /// `spec.adoptExistingRelease`.
    pub adopt: bool,
    /// `status.adoption`: what the user was told of a release that the module did not make.
    pub listed: Option<&'a AdoptionStatus>,
    /// The wanted release, or why there is none.
    pub desired: Result<&'a Desired, &'a Refusal>,
    /// The release by which a removal lets Helm know again what stands, where the spec is refused. Nothing else asks for it.
    pub stand_in: Option<&'a Desired>,
    /// The charts that there are.
    pub catalogue: &'a Catalogue,
    /// `status.release`: what the module left.
    pub recorded: Option<&'a ReleaseStatus>,
    /// What was observed.
    pub observed: &'a Observed,
    /// What failed upgrades have left behind, if that was looked for.
    pub orphans: Option<&'a Orphans>,
    /// What was left behind and deleted lately.
    pub pruned: &'a Pruned,
    /// Failures so far.
    pub attempts: &'a Attempts,
    /// The last of them is of this pass: nothing more is tried in it, however long ago it was.
    pub failed: bool,
    /// `spec.drift.mode`.
    pub drift_mode: DriftMode,
    /// What is known of the release's objects.
    pub drift: &'a DriftState,
    /// By what nodes are judged.
    pub nodes: NodeRules<'a>,
    /// Labels that were set on nodes or taken off lately.
    pub labelled: &'a Labelled,
    /// A real comparison with the release is due, whatever the labels say.
    pub comparison_due: bool,
    /// The operation that the status says is under way, though nothing runs now: a process died over it.
    pub interrupted: Option<&'a Operation>,
}

impl<'a> Situation<'a> {
    /// True in the pass of a failure, and until the pause after it is over.
    fn is_paused(&self) -> bool {
        self.failed || self.attempts.blocked_until(self.now).is_some()
    }

    /// The release by which Helm may be let know again what stands.
    fn recordable(&self) -> Option<&'a Desired> {
        self.desired.ok().or(self.stand_in)
    }
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
    /// Drivers would be replaced or taken away: read whether they may be, then decide again.
    Read(Reading),
    /// The newest revision is not known to be the module's: read it through Helm, then decide again.
    Compare,
    /// The release is not the module's: read that revision, and what would be lost, then decide again.
    ReadExisting {
        /// The revision.
        revision: u32,
    },
    /// The revision is as wanted: read what objects it consists of, then decide again.
    ReadManifest {
        /// The revision.
        revision: u32,
        /// UID of its Secret.
        uid: String,
    },
    /// Find what these failed revisions have left behind, then decide again.
    FindOrphans(Vec<u32>),
    /// Compare these objects of the release with what they should be, then decide again.
    Inspect(Vec<ObjectRef>),
    /// Kubernetes is still removing something, of which nothing else is to be done.
    AwaitRemoval {
        /// What kind of thing.
        what: Leavings,
        /// Names of what is left of it.
        names: Vec<String>,
    },
    /// Change something.
    Act(Action),
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
        return Plan::Hold(Hold::Foreign(foreign));
    }
    if let Some(plan) = adoption::step(s) {
        return plan;
    }
    if s.suspended {
        return drift::look_while_suspended(s).unwrap_or(Plan::Hold(Hold::Suspended));
    }
    let desired = match s.desired {
        Ok(desired) => desired,
        Err(refusal) => return Plan::Hold(Hold::Refused(refusal.clone())),
    };
    let unread = unread(s).map(Plan::Hold);
    unread.unwrap_or_else(|| keep_out::step(s, desired, release::step(s, desired)))
}

/// The driver change that waits, if one does. What else is done meanwhile is [`decide`]'s affair.
pub fn waiting(s: &Situation<'_>) -> Waiting {
    // A release that is not the module's yet has no change that waits.
    let may_act = foreign::find(s).is_none() && (s.adopt || foreign::is_ours(s));
    let in_order = !s.suspended && s.observed.unread.is_empty() && may_act;
    match s.desired {
        _ if s.deleting => Waiting::Nothing,
        Ok(desired) if in_order => held::waiting(s, desired),
        _ => Waiting::Unknown,
    }
}

/// When to look again whether nodes may be left out that are in use, where `plan` is what was decided.
pub fn recheck_nodes(s: &Situation<'_>, plan: &Plan) -> Option<Timestamp> {
    let decides = !s.deleting && !matches!(plan, Plan::Hold(_));
    keep_out::recheck(s, s.desired.ok().filter(|_| decides)?, plan)
}

/// The driver that the nodes were last told to run, as far as anybody knows.
pub fn running_driver(s: &Situation<'_>) -> Option<DriverId> {
    held::running(s)?.driver.cloned()
}

fn unread(s: &Situation<'_>) -> Option<Hold> {
    (!s.observed.unread.is_empty()).then(|| Hold::Unread(s.observed.unread.join(", ")))
}

/// What has to be true before anything is changed, whatever it is.
fn guard(plan: Plan, s: &Situation<'_>) -> Plan {
    // The operator's rights in the namespace and what it reads with them leave nothing to be cleared up: a GpuModule that goes no
    // further can be deleted as if it had done nothing.
    let needs_finalizer = !matches!(
        plan,
        Plan::Act(Action::OpenNamespace) | Plan::ReadExisting { .. } | Plan::Look
    );
    let waits = match &plan {
        // Each node has a pause of its own.
        Plan::Act(Action::LabelNodes { .. }) => s.failed,
        Plan::Act(_)
        | Plan::Compare
        | Plan::ReadExisting { .. }
        | Plan::Look
        | Plan::ReadManifest { .. }
        | Plan::FindOrphans(_)
        | Plan::Inspect(_)
        | Plan::Read(_) => s.is_paused(),
        Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval { .. } => return plan,
    };
    if waits {
        return Plan::Wait {
            until: s.attempts.blocked_until(s.now).unwrap_or(s.now),
            why: Wait::Backoff,
        };
    }
    // These change nothing, so nothing has to be known first.
    if matches!(
        plan,
        Plan::ReadManifest { .. } | Plan::FindOrphans(_) | Plan::Inspect(_) | Plan::Read(_)
    ) {
        return plan;
    }
    if s.observed.surroundings.is_none() {
        return Plan::Look;
    }
    if needs_finalizer && !s.deleting && !s.finalizer {
        return Plan::Act(Action::AddFinalizer);
    }
    plan
}
