//! A cluster with Helm in a few lines, for runs of the plan from any state. Helm's part follows what helm 4.3.1 does.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::catalogue::MinorVersion;
use crate::desired::{DriverId, DriverUpgrades};
use crate::drift::ObjectRef;
use crate::facts::{ExistingContent, ExistingRelease, GpuPod, Leavings, NodeIds, Orphan, Orphans, WorkFacts};

mod left;
mod pass;
mod work;

use left::begun;

/// What strikes the next helm command that changes the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Nothing.
    None,
    /// It fails and says so.
    Fails,
    /// It and the operator are killed in the middle.
    Killed,
    /// It ends well and has changed nothing.
    Hollow,
}

impl Strike {
    pub const ALL: [Self; 4] = [Self::None, Self::Fails, Self::Killed, Self::Hollow];
}

/// A cluster, and what the operator keeps of it.
pub struct World<'a> {
    pub case: Case,
    pub catalogue: &'a Catalogue,
    /// What strikes the next helm commands, the last first.
    pub strikes: Vec<Strike>,
    /// Revisions that Helm cannot decode.
    pub undecodable: Vec<u32>,
    /// A Pod uses a GPU for as long as the run lasts.
    pub busy: bool,
    /// The driver that the nodes run.
    nodes_run: Option<DriverId>,
    /// What the revisions hold, by number.
    contents: BTreeMap<u32, RevisionContent>,
    /// The time.
    pub now: Timestamp,
    /// The release's one object is missing.
    pub is_object_lost: bool,
    /// Of what something is left.
    pub remains: BTreeSet<Leavings>,
    unmoved: Option<u32>,
    /// What was done in this pass and ended well.
    done: Vec<Action>,
    gone: bool,
    /// Everything that was decided, for the message of a failed test.
    pub told: Vec<Plan>,
}

/// How a run came to rest.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left to do.
    Kept,
    /// The plan waits for a person.
    Held(Hold),
    /// The plan waits for the end of GPU work.
    Protected,
    /// The GpuModule is gone.
    Gone,
    /// It did not, within the bound.
    Restless,
}

impl<'a> World<'a> {
    /// The case as the start of a run; every revision holds what the module wanted when it made it.
    pub fn new(case: Case, catalogue: &'a Catalogue, content: &RevisionContent) -> Self {
        let contents = revisions(&case)
            .iter()
            .map(|r| (r.number, content.clone()))
            .collect();
        Self {
            case,
            catalogue,
            strikes: Vec::new(),
            undecodable: Vec::new(),
            busy: false,
            nodes_run: None,
            contents,
            now: NOW,
            is_object_lost: false,
            remains: Leavings::ALL
                .into_iter()
                .filter(|what| *what != Leavings::Release)
                .collect(),
            unmoved: None,
            done: Vec::new(),
            gone: false,
            told: Vec::new(),
        }
    }

    /// Lets the plan decide and the world follow until it rests, at most so many steps.
    pub fn run(&mut self, bound: usize) -> Rest {
        for _ in 0..bound {
            self.case.comparison_due =
                self.unmoved.is_some() && self.unmoved == self.latest().map(|latest| latest.number);
            let plan = self.case.plan_in(self.now, self.catalogue);
            if self.is_in_vain(&plan) {
                continue;
            }
            self.told.push(plan.clone());
            match plan {
                Plan::Keep => return Rest::Kept,
                Plan::Hold(hold) => return Rest::Held(hold),
                Plan::Wait { why: Wait::Work, .. } => return Rest::Protected,
                Plan::Wait { until, .. } => {
                    self.now = until.max(self.now + SignedDuration::from_secs(1));
                    self.begin_pass();
                }
                Plan::ReadManifest { revision, uid } => self.read_manifest(revision, &uid),
                Plan::Inspect(objects) => self.inspect_objects(&objects),
                Plan::FindOrphans(_) => self.find_orphans(),
                Plan::Read(Reading::GpuWork) => self.look_for_work(),
                Plan::Read(Reading::DriverUpgrades) => {
                    self.case.observed.driver_upgrades = Some(NodeIds::new());
                }
                Plan::Read(Reading::MaintenanceWindow) => unreachable!("nobody asks for it"),
                Plan::Look => unreachable!("the surroundings are always known here"),
                Plan::Compare => self.compare(),
                Plan::ReadExisting { revision } => self.inspect(revision),
                Plan::Read(Reading::GpuClusters) => self.case.observed.gpu_clusters = Some(false),
                Plan::Read(Reading::Left(what)) => self.read_left(what),
                Plan::AwaitRemoval { .. } => {
                    // Only Pods end by themselves here.
                    self.remains.remove(&Leavings::Pods);
                    self.case.observed.left.clear();
                }
                Plan::Act(action) => self.act(&action),
            }
            if self.gone {
                return Rest::Gone;
            }
        }
        Rest::Restless
    }

    /// Helm did not get past the newest revision.
    pub fn doubt(&mut self) {
        self.unmoved = self.latest().map(|latest| latest.number);
    }

    /// The newest revision.
    pub fn latest(&self) -> Option<Revision> {
        revisions(&self.case).pop()
    }

    /// What the newest revision holds.
    pub fn content(&self) -> Option<&RevisionContent> {
        self.contents.get(&self.latest()?.number)
    }

    fn compare(&mut self) {
        self.unmoved = None;
        self.case.observed.comparison = self.latest().map(|latest| Comparison {
            uid: latest.uid.clone(),
            content: (!self.undecodable.contains(&latest.number))
                .then(|| self.contents[&latest.number].clone()),
        });
    }

    /// Reads a revision that the module did not make, and that has no values.
    fn inspect(&mut self, revision: u32) {
        let found = revisions(&self.case);
        let found = found.iter().find(|found| found.number == revision).unwrap();
        self.case.observed.existing = Some(Arc::new(ExistingRelease {
            uid: found.uid.clone(),
            revision,
            wanted_chart: self.case.desired.as_ref().unwrap().chart.version.clone(),
            content: Some(ExistingContent {
                chart_version: self.contents[&revision].chart_version.clone(),
                values: serde_json::Map::new(),
                all_values: serde_json::Map::new(),
                defaults: serde_json::Map::new(),
            }),
        }));
    }

    /// There is always something.
    fn find_orphans(&mut self) {
        let orphan = Orphan {
            object: ObjectRef::crd("left-behind"),
            uid: String::new(),
        };
        self.case.orphans = self.latest().map(|latest| Orphans {
            of: latest.uid,
            objects: vec![orphan],
        });
    }

    fn act(&mut self, action: &Action) {
        let before = self.latest().map(|latest| latest.number);
        self.case.interrupted = begun(action, before);
        let result = match action {
            Action::AddFinalizer => {
                self.case.finalizer = true;
                Ok(())
            }
            Action::BeginRemoval { removal } => {
                self.case.removal = Some(removal.clone());
                Ok(())
            }
            Action::RemoveFinalizer => {
                self.gone = true;
                Ok(())
            }
            Action::OpenNamespace => {
                self.case.observed.release = ReleaseFacts::Read(History::default());
                Ok(())
            }
            Action::Discard { revision, .. } => {
                self.set(|all| all.retain(|one| one.number != *revision));
                self.undecodable.retain(|one| one != revision);
                Ok(())
            }
            Action::Prune { .. } => {
                self.case.orphans.as_mut().unwrap().objects.clear();
                Ok(())
            }
            Action::LabelNodes { .. } => unreachable!("every node is good here"),
            Action::RestoreCrds { crds } => {
                self.restore_crds(crds);
                Ok(())
            }
            Action::Reapply { objects, .. } => {
                self.reapply(objects);
                Ok(())
            }
            Action::Upgrade { to, .. } => self.upgrade(to),
            Action::Rollback { to, .. } => self.rollback(*to),
            Action::Clear { what, objects } => self.clear(*what, objects),
            Action::Uninstall { .. } => self.uninstall(),
        };
        self.case.observed.left = self.case.observed.take_cleared();
        if action.changes_release() {
            self.unmoved = before;
        }
        match result {
            Ok(()) => {
                note(&mut self.done, action);
                self.case.interrupted = None;
            }
            Err(Strike::Killed) => {
                // Another process begins, with what the status says.
                self.case.attempts = Attempts::default();
                self.case.refused = Refused::default();
                self.begin_pass();
                self.case.observed.comparison = None;
                self.case.observed.existing = None;
                self.case.observed.left.clear();
                self.unmoved = None;
            }
            Err(_) => {
                let reason = match action {
                    Action::Uninstall { .. } => UNINSTALL_FAILED,
                    Action::Rollback { .. } => RECOVERY_FAILED,
                    Action::Upgrade {
                        cause: Cause::RecordLost,
                        ..
                    } => RECORDING_FAILED,
                    _ => "UpgradeFailed",
                };
                let message = "helm says no".to_owned();
                self.fail(Failure { reason, message });
                self.case.interrupted = None;
            }
        }
    }

    /// Revisions that Helm sees.
    fn seen(&self) -> Vec<Revision> {
        let mut all = revisions(&self.case);
        all.retain(|revision| !self.undecodable.contains(&revision.number));
        all
    }

    fn strike(&mut self) -> Strike {
        self.strikes.pop().unwrap_or(Strike::None)
    }

    /// A chart of an earlier line never comes back by a rollback, unless that is asked for.
    fn assert_no_way_back(&self, to: u32) {
        let line = |content: &RevisionContent| MinorVersion::of(&content.chart_version);
        let wanted = self.case.desired.as_ref().unwrap();
        let (now, then) = (self.content().map(line), self.contents.get(&to).map(line));
        let asked = MinorVersion::of(&wanted.chart.version) < now.unwrap();
        assert!(then >= now || asked, "back to revision {to}: {:#?}", self.told);
    }

    fn upgrade(&mut self, to: &Step) -> Result<(), Strike> {
        let strike = self.strike();
        let seen = self.seen();
        let runs = seen
            .iter()
            .any(|revision| revision.status == RevisionStatus::Deployed);
        let last = seen.last();
        let refused = match last.map(|last| last.status) {
            None => !revisions(&self.case).is_empty(),
            Some(status) if status.is_pending() => true,
            Some(RevisionStatus::Uninstalling | RevisionStatus::Unknown) => !runs,
            Some(_) => false,
        };
        let number = last.map_or(1, |last| last.number + 1);
        if refused || self.undecodable.contains(&number) {
            return Err(Strike::Fails);
        }
        if strike == Strike::Hollow {
            return Ok(());
        }
        let desired = self.case.desired.as_ref().ok().or(self.case.stand_in.as_ref());
        let desired = desired.unwrap();
        let (values, fingerprint) = match &desired.held {
            _ if *to == desired.step => (desired.values_digest.clone(), desired.fingerprint.to_string()),
            Some(held) if *to == desired.held_step() => {
                (held.values_digest.clone(), held.fingerprint.to_string())
            }
            _ => (format!("{to:?}"), format!("{to:?}")),
        };
        let running = running_driver(&self.case.situation(self.now, self.catalogue));
        let driver = match to.drivers {
            DriverUpgrades::AsConfigured => Some(desired.driver_id.clone()),
            DriverUpgrades::Held => running,
        };
        self.contents.insert(
            number,
            RevisionContent {
                chart_version: to.chart.clone(),
                values_digest: values,
                driver: desired.driver_id.clone(),
                holds_drivers: to.drivers == DriverUpgrades::Held,
            },
        );
        self.roll(to);
        let status = match strike {
            Strike::None | Strike::Hollow => RevisionStatus::Deployed,
            Strike::Fails => RevisionStatus::Failed,
            Strike::Killed if last.is_none() => RevisionStatus::PendingInstall,
            Strike::Killed => RevisionStatus::PendingUpgrade,
        };
        let revision = Revision {
            number,
            uid: self.new_uid(),
            status,
            created: self.now,
            changed: self.now,
            fingerprint: Some(fingerprint),
            by: Some("gpu-manager-0".to_owned()),
            meant: Some(number),
            chart: Some(to.chart.clone()),
            node_feature_discovery: None,
            layout: Some(to.layout),
            driver,
            driver_upgrades: Some(to.drivers),
        };
        self.add(revision);
        if strike == Strike::None {
            self.stands(&to.chart);
        }
        (strike == Strike::None).then_some(()).ok_or(strike)
    }

    fn rollback(&mut self, to: u32) -> Result<(), Strike> {
        let strike = self.strike();
        let seen = self.seen();
        self.assert_no_way_back(to);
        let Some(target) = seen.iter().find(|revision| revision.number == to) else {
            return Err(Strike::Fails);
        };
        let number = seen.last().map_or(1, |last| last.number + 1);
        if self.undecodable.contains(&number) {
            return Err(Strike::Fails);
        }
        if strike == Strike::Hollow {
            return Ok(());
        }
        let status = match strike {
            Strike::None | Strike::Hollow => RevisionStatus::Deployed,
            Strike::Fails => RevisionStatus::Failed,
            Strike::Killed => RevisionStatus::PendingRollback,
        };
        self.contents.insert(number, self.contents[&to].clone());
        let uid = self.new_uid();
        self.add(Revision {
            number,
            uid,
            status,
            created: self.now,
            changed: self.now,
            ..target.clone()
        });
        (strike == Strike::None).then_some(()).ok_or(strike)
    }

    fn uninstall(&mut self) -> Result<(), Strike> {
        let strike = self.strike();
        let Some(last) = self.seen().pop() else {
            return Ok(());
        };
        if strike == Strike::Hollow {
            return Ok(());
        }
        if strike != Strike::None {
            self.set(|all| {
                for revision in all.iter_mut().filter(|revision| revision.number == last.number) {
                    revision.status = RevisionStatus::Uninstalling;
                }
            });
            return Err(strike);
        }
        let undecodable = self.undecodable.clone();
        self.set(|all| all.retain(|revision| undecodable.contains(&revision.number)));
        self.owns_role(false);
        Ok(())
    }

    fn new_uid(&self) -> String {
        format!("made in step {}", self.told.len())
    }

    /// A new revision; where it is deployed, it takes the place of all others.
    fn add(&mut self, revision: Revision) {
        self.set(|all| {
            if revision.status == RevisionStatus::Deployed {
                for old in all
                    .iter_mut()
                    .filter(|old| old.status == RevisionStatus::Deployed)
                {
                    old.status = RevisionStatus::Superseded;
                }
            }
            all.push(revision);
        });
    }

    fn set(&mut self, change: impl FnOnce(&mut Vec<Revision>)) {
        let mut all = revisions(&self.case);
        change(&mut all);
        self.case.observed.release = ReleaseFacts::Read(History::new(all));
    }

    /// Whether the ClusterRole of the release is there.
    fn owns_role(&mut self, there: bool) {
        let around = self.case.observed.surroundings.as_mut().unwrap();
        around.cluster_role = there.then(|| Some(owner(RELEASE_NAME)));
    }

    /// NVIDIA's controller runs and has judged, long enough ago.
    pub fn stands(&mut self, chart: &Version) {
        self.case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("ready"))];
        self.owns_role(true);
        self.case.observed.controller_runs = true;
        let mut told = recorded(1);
        told.chart_version = chart.to_string();
        // What the status says of a release is written when nothing is left to do; on the way it stays.
        self.case.recorded.get_or_insert(told);
    }
}

/// The revisions of a case, oldest first.
pub fn revisions(case: &Case) -> Vec<Revision> {
    match &case.observed.release {
        ReleaseFacts::Read(history) => history.all().to_vec(),
        ReleaseFacts::Unreadable => Vec::new(),
    }
}
