//! Whether a change that restarts drivers may go on to the nodes now, or what it waits for.
//!
//! Only the last step of an upgrade lets drivers go; the steps before it hold them anyway. Held drivers are an
//! `autoUpgrade: false`: a changed driver then reaches the DaemonSet and restarts nothing, and everything else goes on. With a
//! change of the driver's mode there is nothing to hold, since its Pods come or go with their object, so that all of it waits.

use jiff::{SignedDuration, Timestamp};

use super::Situation;
use crate::api::UpgradePolicy;
use crate::desired::{Desired, DriverDifference, DriverId};
use crate::facts::{DriverChange, GpuPod, Leavings, MaintenanceWindow, Revision, RevisionContent, WorkFacts};

/// How soon GPU work is looked at again while a change waits for its end.
pub const WORK_LOOK: SignedDuration = SignedDuration::from_secs(30);

/// How long NVIDIA's operator may take until a driver that was changed has reached the DaemonSets.
const REACHED: SignedDuration = SignedDuration::from_mins(1);

/// How soon the maintenance window is read again: somebody may move it.
pub const WINDOW_LOOK: SignedDuration = SignedDuration::from_mins(5);

/// What has to be read before it can be decided whether drivers may be replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The Pods that use GPUs.
    GpuWork,
    /// The maintenance window of the shoot.
    MaintenanceWindow,
    /// The nodes whose driver is being replaced.
    DriverUpgrades,
    /// Whether there is a GPUCluster.
    GpuClusters,
    /// What is left to be taken away.
    Left(Leavings),
}

/// What keeps a driver change from the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// These Pods use GPUs.
    Work(Vec<GpuPod>),
    /// Nobody knows whether Pods use GPUs.
    WorkUnreadable(String),
    /// The maintenance window is closed.
    Window {
        /// When it opens.
        window: MaintenanceWindow,
        /// The next time that it does.
        next: Timestamp,
    },
    /// Nobody knows when the maintenance window is.
    WindowUnreadable(String),
}

/// A driver change that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverWait {
    /// What the nodes were last told to run; `None` where nobody knows.
    pub from: Option<DriverId>,
    /// What is wanted.
    pub to: DriverId,
    /// Nothing of the change can be made before the driver's.
    pub whole: bool,
    /// What it waits for.
    pub blocker: Blocker,
}

/// Whether a driver change waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// None does.
    Nothing,
    /// Nobody has read what is needed to know it.
    Unknown,
    /// This one does.
    Driver(Box<DriverWait>),
}

impl Waiting {
    /// When to look again whether it may go on.
    pub fn recheck(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Driver(wait) => Some(wait.recheck(now)),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

impl DriverWait {
    /// The change in words.
    pub fn difference(&self) -> DriverDifference<'_> {
        DriverDifference {
            from: self.from.as_ref(),
            to: &self.to,
        }
    }

    /// When to look again.
    pub fn recheck(&self, now: Timestamp) -> Timestamp {
        match &self.blocker {
            Blocker::Work(_) | Blocker::WorkUnreadable(_) => now + WORK_LOOK,
            Blocker::Window { next, .. } => (*next).min(now + WINDOW_LOOK),
            Blocker::WindowUnreadable(_) => now + WINDOW_LOOK,
        }
    }
}

/// The driver of the release that runs.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// What the nodes were last told to run; `None` where nobody knows.
    pub driver: Option<&'a DriverId>,
    /// Drivers are held, so that the nodes may run something else than the release says.
    held: bool,
    /// Since when the driver that is held is the wanted one, if it is.
    held_as_wanted: Option<Timestamp>,
    /// Neither labels nor values of the revision are known.
    unread: bool,
}

impl<'a> Running<'a> {
    /// Nobody knows.
    pub const UNKNOWN: Self = Self {
        driver: None,
        held: false,
        held_as_wanted: None,
        unread: false,
    };

    /// What the labels of a revision say, or else its values.
    pub fn of(revision: &'a Revision, compared: Option<&'a RevisionContent>, is_newest: bool) -> Self {
        match (revision.own_driver(), compared) {
            (Some(driver), _) => Self {
                driver: Some(driver),
                held: revision.holds_drivers(),
                ..Self::UNKNOWN
            },
            (None, Some(compared)) => Self {
                driver: Some(&compared.driver).filter(|_| !compared.holds_drivers),
                held: compared.holds_drivers,
                ..Self::UNKNOWN
            },
            (None, None) => Self {
                unread: is_newest,
                ..Self::UNKNOWN
            },
        }
    }

    /// The same where the driver that is held has been the wanted one since then.
    pub fn held_as_wanted(self, since: Timestamp) -> Self {
        Self {
            held_as_wanted: Some(since).filter(|_| self.held),
            ..self
        }
    }

    /// True where driver Pods come or go as a whole: a change of the driver's mode.
    pub fn changes_mode(self, desired: &Desired) -> bool {
        let managed = self.driver.is_none_or(DriverId::is_managed);
        managed != desired.driver.is_managed()
    }
}

/// Whether drivers may be replaced now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, or none would be.
    Now,
    /// It depends on what is to be read first.
    Ask(Reading),
    /// It depends on what runs, which is to be read through Helm first.
    Compare,
    /// No.
    Later(Box<DriverWait>),
}

/// Judges the last step from what runs to what is wanted.
pub fn judge(s: &Situation<'_>, desired: &Desired, running: Running<'_>) -> Verdict {
    if s.upgrade_policy == UpgradePolicy::Immediate || !is_pending(s, desired, running) {
        return Verdict::Now;
    }
    if running.unread {
        return Verdict::Compare;
    }
    let blocker = match s.upgrade_policy {
        UpgradePolicy::Immediate => return Verdict::Now,
        UpgradePolicy::WhenIdle => match &s.observed.gpu_work {
            None => return Verdict::Ask(Reading::GpuWork),
            Some(work) if work.is_idle() => return Verdict::Now,
            Some(WorkFacts::Read(pods) | WorkFacts::Remembered(pods)) => Blocker::Work(pods.clone()),
            Some(WorkFacts::Unreadable(why)) => Blocker::WorkUnreadable(why.clone()),
        },
        UpgradePolicy::Window => match &s.observed.maintenance {
            None => return Verdict::Ask(Reading::MaintenanceWindow),
            Some(Ok(window)) if window.contains(s.now) => return Verdict::Now,
            Some(Ok(window)) => Blocker::Window {
                window: *window,
                next: window.next_begin(s.now),
            },
            Some(Err(why)) => Blocker::WindowUnreadable(why.clone()),
        },
    };
    Verdict::Later(Box::new(DriverWait {
        from: running.driver.cloned(),
        to: desired.driver_id.clone(),
        whole: running.changes_mode(desired),
        blocker,
    }))
}

/// True where the last step would replace drivers that run.
fn is_pending(s: &Situation<'_>, desired: &Desired, running: Running<'_>) -> bool {
    let managed = desired.driver.is_managed();
    let no_node = s.observed.nodes_in_reach().next().is_none();
    let nothing_runs = no_node || (!managed && !running.changes_mode(desired));
    // The user's own values hold drivers: who has them replaced is the user's affair.
    let nothing_to_hold = managed && desired.held.is_none();
    if nothing_runs || nothing_to_hold || is_rolling(s) {
        return false;
    }
    let same = running.driver == Some(&desired.driver_id);
    // Back to what ran: free, unless a node has come to the held driver meanwhile.
    match running.held_as_wanted {
        _ if !same => true,
        Some(since) => !all_run_the_held_one(s, since),
        None => running.held && some_run_the_held_one(s),
    }
}

/// True where NVIDIA's operator has begun to replace drivers. It would leave a node cordoned for ever if it were held now, and a
/// driver that does not start could not be replaced by a better one, so a further change joins in. It looks at nodes with a driver's
/// Pod only (`BuildState` in NVIDIA's k8s-operator-libs), so what the labels of one that is left out or going say is never ended.
fn is_rolling(s: &Situation<'_>) -> bool {
    let stay = s.observed.nodes_in_reach().filter(|node| !node.leaving);
    let mut take_part = stay.filter(|node| s.nodes.judge(node).kept_out.is_none());
    take_part.any(|node| {
        matches!(
            node.driver_change,
            Some(DriverChange::UnderWay | DriverChange::Failed)
        )
    })
}

fn some_run_the_held_one(s: &Situation<'_>) -> bool {
    let mut drivers = s.observed.daemon_sets.iter().filter(|set| set.driver.is_some());
    drivers.any(|set| set.updated > 0)
}

/// True where every node is known to run the driver that is held.
fn all_run_the_held_one(s: &Situation<'_>, since: Timestamp) -> bool {
    let has_reached_nodes = s.now >= since + REACHED && s.observed.controller_runs;
    let mut drivers = s.observed.daemon_sets.iter().filter(|set| set.driver.is_some());
    has_reached_nodes && drivers.all(|set| set.updated >= set.desired)
}
