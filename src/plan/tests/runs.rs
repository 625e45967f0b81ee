//! Runs from every state: each ends where it should within a bound, and none does on the way what must never be done.

use super::world::{Rest, Strike, World, revisions};
use super::*;
use crate::facts::Leavings;

/// Most steps of a run; the longest goes through two chart lines after a recovery.
const BOUND: usize = 52;

/// Whose the newest revision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newest {
    /// The module's.
    Ours,
    /// Somebody ran Helm on the module's release: Helm copied the labels of the revision before.
    ByHand,
    /// The module's, and Helm cannot decode it.
    Undecodable,
    /// No revision is the module's.
    Foreign,
    /// No revision is the module's, and the user gives the release to it.
    Given,
}

const NEWEST: [Newest; 5] = [
    Newest::Ours,
    Newest::ByHand,
    Newest::Undecodable,
    Newest::Foreign,
    Newest::Given,
];

/// What the GpuModule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// What the newest revision holds.
    Same,
    /// Another driver branch.
    Changed,
    /// The newest chart, while the release has the oldest.
    NewerChart,
    /// An older chart than the release has.
    OlderChart,
    /// Nothing that could be made.
    Refused,
}

const WANTED: [Wanted; 5] = [
    Wanted::Same,
    Wanted::Changed,
    Wanted::NewerChart,
    Wanted::OlderChart,
    Wanted::Refused,
];

const DRIFT_MODES: [DriftMode; 3] = [DriftMode::Correct, DriftMode::Report, DriftMode::Ignore];

/// Every history of up to two revisions, and the longer ones that differ from them.
fn shapes() -> Vec<Vec<RevisionStatus>> {
    use RevisionStatus::{Deployed, Failed, PendingRollback, PendingUpgrade, Superseded};
    let one = RevisionStatus::ALL.map(|status| vec![status]);
    let two = RevisionStatus::ALL
        .iter()
        .flat_map(|first| RevisionStatus::ALL.map(|second| vec![*first, second]));
    let longer = [
        vec![Deployed, Deployed, Deployed],
        vec![Superseded, Deployed, Failed, Failed],
        vec![Failed, Failed, Failed],
        vec![Superseded, Deployed, PendingUpgrade, PendingRollback],
        vec![PendingUpgrade, Superseded, Deployed],
    ];
    [vec![]].into_iter().chain(one).chain(two).chain(longer).collect()
}

/// Up to two strikes, one after the other.
fn strikes() -> Vec<Vec<Strike>> {
    let two = |first| Strike::ALL.map(|second| vec![second, first]);
    [vec![]]
        .into_iter()
        .chain(Strike::ALL.into_iter().flat_map(two))
        .collect()
}

/// One start of a run.
#[derive(Clone, Debug)]
struct Start {
    shape: Vec<RevisionStatus>,
    newest: Newest,
    wanted: Wanted,
    deleting: bool,
    suspended: bool,
    busy: bool,
    strikes: Vec<Strike>,
    failures: u32,
}

fn starts() -> Vec<Start> {
    let mut starts = Vec::new();
    for shape in shapes() {
        for newest in NEWEST {
            for wanted in WANTED {
                for (deleting, suspended) in [(false, false), (false, true), (true, false), (true, true)] {
                    for strikes in strikes() {
                        for (failures, busy) in [(0, false), (4, false), (0, true), (4, true)] {
                            let strikes = strikes.clone();
                            starts.push(Start {
                                shape: shape.clone(),
                                newest,
                                wanted,
                                deleting,
                                suspended,
                                busy,
                                strikes,
                                failures,
                            });
                        }
                    }
                }
            }
        }
    }
    starts
}

fn world<'a>(
    start: &Start,
    specs: &BTreeMap<&'static str, Result<Desired, Refusal>>,
    catalogue: &'a Catalogue,
) -> World<'a> {
    let (installed, asked) = match start.wanted {
        Wanted::Same => ("new", "new"),
        Wanted::Changed => ("new", "branch"),
        Wanted::NewerChart => ("old", "new"),
        Wanted::OlderChart => ("new", "old"),
        Wanted::Refused => ("new", "refused"),
    };
    let made = specs[installed].as_ref().unwrap();
    let mut case = Case::wanting(specs[asked].clone());
    case.observed.release = fixtures::history(&start.shape, made.fingerprint.as_str());
    case.recorded = (!start.shape.is_empty()).then(|| ReleaseStatus {
        chart_version: made.chart.version.to_string(),
        ..recorded(i64::try_from(start.shape.len()).unwrap())
    });
    for revision in revisions(&case) {
        case.change(revision.number, |revision| {
            revision.chart = Some(made.chart.version.clone());
            revision.layout = Some(made.step.layout);
            revision.driver = Some(made.driver_id.clone());
            revision.driver_upgrades = Some(DriverUpgrades::AsConfigured);
            if matches!(start.newest, Newest::Foreign | Newest::Given) {
                (revision.by, revision.meant, revision.fingerprint) = (None, None, None);
            }
        });
    }
    if start.newest == Newest::ByHand && !start.shape.is_empty() {
        case.change_latest(|latest| latest.meant = Some(latest.number - 1));
    }
    if start.newest == Newest::Given {
        case.adopt = true;
        case.recorded = None;
    }
    case.removal = None;
    case.observed.left.clear();
    case.observed.gpu_clusters = None;
    (case.deleting, case.suspended) = (start.deleting, start.suspended);
    // As a pass has one.
    case.stand_in = case
        .desired
        .is_err()
        .then(|| made.clone())
        .filter(|_| start.deleting);
    for _ in 0..start.failures {
        let failed = Failure {
            reason: "UpgradeFailed",
            message: "helm says no".to_owned(),
        };
        case.attempts.failed(failed, NOW, 0.5);
    }
    let content = RevisionContent {
        chart_version: made.chart.version.clone(),
        values_digest: made.values_digest.clone(),
        driver: made.driver_id.clone(),
        holds_drivers: false,
    };
    let mut world = World::new(case, catalogue, &content);
    if !matches!(start.newest, Newest::Foreign | Newest::Given) && !start.shape.is_empty() {
        world.stands(&content.chart_version);
        world.uses_gpus(content.driver.clone(), start.busy);
    }
    world.strikes.clone_from(&start.strikes);
    if start.newest == Newest::Undecodable {
        world
            .undecodable
            .extend(world.latest().map(|latest| latest.number));
        // What led to it: helm did not get past this revision.
        world.doubt();
    }
    world
}

fn specs() -> BTreeMap<&'static str, Result<Desired, Refusal>> {
    BTreeMap::from([
        ("new", resolve(json!({}))),
        ("branch", resolve(json!({ "driver": { "branch": 590 } }))),
        ("old", resolve(json!({ "chartVersion": "26.3.3" }))),
        ("refused", resolve(json!({ "chartVersion": "1.0.0" }))),
    ])
}

#[test]
fn every_state_leads_to_its_goal_within_a_bound() {
    let (specs, catalogue) = (specs(), Catalogue::compiled_in().unwrap());
    let starts = starts();
    for start in &starts {
        let mut world = world(start, &specs, &catalogue);
        let rest = world.run(BOUND);
        check(start, &world, &rest);
    }
    println!("{} runs", starts.len());
}

#[test]
fn lost_objects_come_back_exactly_where_that_is_wanted() {
    let (specs, catalogue) = (specs(), Catalogue::compiled_in().unwrap());
    let mut starts = starts();
    starts.retain(|start| start.failures == 0 && !start.busy && start.strikes.len() < 2);
    for (start, mode) in starts
        .iter()
        .flat_map(|start| DRIFT_MODES.map(|mode| (start, mode)))
    {
        // What strikes a repair: the first one of a run, or nothing.
        for strikes in [vec![], vec![Strike::Fails]] {
            let mut world = world(start, &specs, &catalogue);
            world.lose_objects(mode);
            world.strikes = strikes;
            let mut rest = world.run(BOUND);
            let mut pauses = 0;
            while rest == Rest::Kept && world.await_correction() && pauses < 5 {
                rest = world.run(BOUND);
                pauses += 1;
            }
            check(start, &world, &rest);
            check_objects(start, mode, &world, &rest);
        }
    }
    println!("{} runs", starts.len() * 6);
}

fn check_objects(start: &Start, mode: DriftMode, world: &World<'_>, rest: &Rest) {
    let told = &world.told;
    let corrects = mode == DriftMode::Correct;
    let reapplied = |plan: &Plan| matches!(plan, Plan::Act(Action::Reapply { .. }));
    if !corrects || start.suspended || start.deleting {
        assert!(!told.iter().any(reapplied), "{start:?} {mode:?} {told:#?}");
    }
    if *rest == Rest::Kept {
        assert_eq!(world.is_object_lost, !corrects, "{start:?} {mode:?} {told:#?}");
        assert!(!(corrects && world.has_lost_crds()), "{start:?} {told:#?}");
    }
    if mode == DriftMode::Ignore {
        let looked = |plan: &Plan| matches!(plan, Plan::Inspect(_) | Plan::ReadManifest { .. });
        assert!(!told.iter().any(looked), "{start:?} {told:#?}");
    }
}

fn check(start: &Start, world: &World<'_>, rest: &Rest) {
    let told = &world.told;
    let acted = told.iter().filter_map(|plan| match plan {
        Plan::Act(action) => Some(action),
        _ => None,
    });
    let changes = acted
        .clone()
        .filter(|action| action.changes_release() || matches!(action, Action::Discard { .. }));
    let uninstalls = acted
        .clone()
        .any(|action| matches!(action, Action::Uninstall { .. }));
    assert!(
        start.deleting || !uninstalls,
        "an uninstall as a repair: {start:?} {told:#?}"
    );
    // As long as it is not taken over, which a deletion never does.
    let foreign = !start.shape.is_empty()
        && (start.newest == Newest::Foreign || (start.newest == Newest::Given && start.deleting));

    if foreign {
        assert_eq!(
            changes.count(),
            0,
            "a foreign release was changed: {start:?} {told:#?}"
        );
        let left_alone = match rest {
            Rest::Gone => start.deleting,
            Rest::Held(Hold::Unadopted(_)) => !start.deleting,
            _ => false,
        };
        assert!(left_alone, "{start:?} came to rest as {rest:?}: {told:#?}");
    } else if start.deleting && world.is_protected() {
        assert_eq!(
            changes.count(),
            0,
            "running work lost its driver: {start:?} {told:#?}"
        );
        assert_eq!(*rest, Rest::Protected, "{start:?} {told:#?}");
    } else if start.deleting {
        let made = world.case.removal.is_some();
        assert!(
            !made || world.remains.iter().all(|what| *what == Leavings::DriverUpgrades),
            "left behind: {:?} {start:?} {told:#?}",
            world.remains
        );
        assert_eq!(*rest, Rest::Gone, "{start:?} {told:#?}");
        assert!(revisions(&world.case).is_empty(), "{start:?} {told:#?}");
    } else if start.suspended {
        assert_eq!(changes.count(), 0, "{start:?} {told:#?}");
        assert_eq!(*rest, Rest::Held(Hold::Suspended), "{start:?}");
    } else {
        match (start.wanted, rest) {
            (Wanted::Refused, Rest::Held(Hold::Refused(_))) => assert_eq!(changes.count(), 0, "{start:?}"),
            (Wanted::OlderChart, Rest::Held(Hold::Downgrade { .. })) => {
                let upgrades = acted.clone().any(
                    |action| matches!(action, Action::Upgrade { cause, .. } if *cause != Cause::RecordLost),
                );
                // Where nothing runs, any chart may be tried first.
                let runs = start.shape.last() != Some(&RevisionStatus::Uninstalled);
                assert!(!(runs && upgrades), "{start:?} {told:#?}");
            }
            // Nothing that ever worked is there to go back from.
            (_, Rest::Kept) if start.wanted != Wanted::Refused => {
                let latest = world.latest().unwrap();
                let desired = world.case.desired.as_ref().unwrap();
                assert_eq!(latest.status, RevisionStatus::Deployed, "{start:?} {told:#?}");
                let digest = &world.content().unwrap().values_digest;
                let held = desired.held.as_ref().unwrap();
                assert!(
                    *digest == desired.values_digest || start.busy && *digest == held.values_digest,
                    "{start:?} {told:#?}"
                );
                assert_eq!(
                    world.content().unwrap().chart_version,
                    desired.chart.version,
                    "{start:?} {told:#?}"
                );
            }
            _ => panic!("{start:?} came to rest as {rest:?}: {told:#?}"),
        }
    }
}
