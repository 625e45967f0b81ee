//! The removal once nothing holds it.

use super::super::deletion::LAST_TRIES;
use super::super::unrecorded::RECORDING_TRIES;
use super::*;
use crate::drift::ObjectRef;
use crate::facts::{Leavings, Left, Leftover, NodeIds, Remedy};

#[test]
fn hooks_are_left_out_after_failed_uninstalls_and_not_after_other_failures() {
    let mut case = Case::ours(&[RevisionStatus::Uninstalling]);
    case.deleting = true;
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.attempts.failed(failure(), NOW, 0.0);
    case.attempts.failed(failure(), NOW, 0.0);
    for _ in 0..UNINSTALL_TRIES_WITH_HOOKS {
        assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
        let failed = Failure {
            reason: UNINSTALL_FAILED,
            message: "a hook hangs".to_owned(),
        };
        case.attempts.failed(failed, NOW, 0.0);
    }
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: false }));
}

fn left(what: Leavings, remedy: Remedy) -> Case {
    let mut case = Case::new();
    case.deleting = true;
    case.recorded = Some(recorded(1));
    let object = Leftover {
        object: ObjectRef::crd("left"),
        uid: String::new(),
        remedy,
    };
    let left = case.observed.left.get_mut(&what).unwrap();
    left.objects = vec![object];
    case
}

#[test]
fn the_finalizer_stays_until_nothing_is_left() {
    let after = Leavings::ALL.into_iter().filter(|what| {
        !matches!(
            what,
            Leavings::DriverUpgrades | Leavings::Release | Leavings::Rights
        )
    });
    for what in after {
        let mut case = left(what, Remedy::Delete);
        let objects = case.observed.left[&what].objects.clone();
        assert_eq!(case.plan(), Plan::Act(Action::Clear { what, objects }));
        case = left(what, Remedy::Wait);
        let names = vec!["CustomResourceDefinition left".to_owned()];
        assert_eq!(case.plan(), Plan::AwaitRemoval { what, names });
        case.observed.left.remove(&what);
        assert_eq!(case.plan(), Plan::Read(Reading::Left(what)), "it is read back");
        case.observed.left.insert(what, Left::default());
        assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
    }
}

#[test]
fn what_is_awaited_is_told_past_what_was_given_up() {
    let mut case = left(Leavings::Hooks, Remedy::Delete);
    let hook = case.observed.left[&Leavings::Hooks].objects[0].clone();
    for _ in 0..LAST_TRIES {
        let thing = Refusable::of(Leavings::Hooks, &hook);
        case.refused.tried(thing, "a policy says no".to_owned(), NOW, 0.0);
    }
    case.observed.left.extend(
        left(Leavings::Namespace, Remedy::Wait)
            .observed
            .left
            .remove_entry(&Leavings::Namespace),
    );
    let names = vec!["CustomResourceDefinition left".to_owned()];
    let what = Leavings::Namespace;
    assert_eq!(case.plan(), Plan::AwaitRemoval { what, names });
}

#[test]
fn what_is_there_again_after_it_was_taken_away_is_given_up_like_what_is_refused() {
    let mut case = left(Leavings::Hooks, Remedy::Delete);
    let mut now = NOW;
    for made in 0..6 {
        // Whoever makes it anew gives it another UID.
        let objects = &mut case.observed.left.get_mut(&Leavings::Hooks).unwrap().objects;
        objects[0].uid = format!("made anew {made}");
        let (what, objects) = (Leavings::Hooks, objects.clone());
        assert_eq!(
            case.plan_at(now),
            Plan::Act(Action::Clear {
                what,
                objects: objects.clone()
            })
        );
        case.refused.note(what, &objects[0], None, now, 1.0);
        match case.plan_at(now) {
            Plan::Wait {
                until,
                why: Wait::Refused { why, .. },
            } => {
                assert!(why.contains("undone"), "{why}");
                now = until;
            }
            plan => assert_eq!((plan, made), (Plan::Act(Action::RemoveFinalizer), 5)),
        }
    }
    let stack = left(Leavings::Stack, Remedy::Delete);
    let pods = &stack.observed.left[&Leavings::Stack].objects;
    let mut case = left(Leavings::Stack, Remedy::Delete);
    for _ in 0..9 {
        case.refused.note(Leavings::Stack, &pods[0], None, NOW, 1.0);
    }
    assert!(
        matches!(
            case.plan(),
            Plan::Wait {
                why: Wait::Refused { .. },
                ..
            }
        ),
        "what runs is never given up"
    );
}

#[test]
fn driver_upgrades_are_paused_and_nodes_uncordoned_before_the_uninstall() {
    for what in [Leavings::DriverUpgrades, Leavings::Cordons] {
        let left = left(what, Remedy::Delete).observed.left;
        let mut case = Case::ours(&[RevisionStatus::Deployed]);
        case.deleting = true;
        case.observed.left = left;
        assert!(matches!(case.plan(), Plan::Act(Action::Clear { what: first, .. }) if first == what));
    }
}

#[test]
fn hooks_run_again_and_again_where_one_has_a_gpu_cluster_to_clean_up() {
    let mut case = Case::ours(&[RevisionStatus::Uninstalling]);
    case.deleting = true;
    for _ in 0..UNINSTALL_TRIES_WITH_HOOKS {
        let failed = Failure {
            reason: UNINSTALL_FAILED,
            message: "a hook hangs".to_owned(),
        };
        case.attempts.failed(failed, NOW, 0.0);
    }
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.observed.gpu_clusters = None;
    assert_eq!(case.plan_at(later), Plan::Read(Reading::GpuClusters));
    case.observed.gpu_clusters = Some(true);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
}

#[test]
fn an_install_that_was_killed_is_uninstalled_without_hooks() {
    let mut case = Case::ours(&[RevisionStatus::PendingInstall]);
    case.deleting = true;
    let later = NOW + FOREIGN_OPERATION_LIMIT;
    case.observed.gpu_clusters = Some(false);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: false }));
    case.observed.gpu_clusters = Some(true);
    assert_eq!(case.plan_at(later), Plan::Act(Action::Uninstall { hooks: true }));
}

#[test]
fn labels_stay_where_somebody_else_runs_the_stack() {
    let mut case = left(Leavings::Nodes, Remedy::Delete);
    case.observed.policies = vec![fixtures::policy(None, None)];
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn crds_stay_unless_the_spec_says_otherwise() {
    let mut case = left(Leavings::Crds, Remedy::Delete);
    assert!(matches!(
        case.plan(),
        Plan::Act(Action::Clear {
            what: Leavings::Crds,
            ..
        })
    ));
    case.deletion_crds = DeletionCrds::Keep;
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn crds_that_somebody_else_needs_hold_nothing_up() {
    let mut case = left(Leavings::Crds, Remedy::Delete);
    let crds = case.observed.left.get_mut(&Leavings::Crds).unwrap();
    crds.objects.clear();
    crds.stays = vec!["the CRDs of NVIDIA, since somebody else has ClusterPolicy other".to_owned()];
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn the_operator_gives_back_its_rights_last_and_notes_it_first() {
    let mut case = left(Leavings::Rights, Remedy::Delete);
    let crds = case.observed.left.get_mut(&Leavings::Crds).unwrap();
    crds.stays = vec!["a CRD".to_owned()];
    let Plan::Act(Action::BeginRemoval { removal }) = case.plan() else {
        panic!("{:?}", case.plan())
    };
    assert_eq!(removal.stays, Some(vec!["a CRD".to_owned()]));
    case.removal = Some(removal);
    // Whatever can be read without the rights.
    case.observed.release = ReleaseFacts::Unreadable;
    case.observed.left.retain(|what, _| *what == Leavings::Rights);
    assert!(matches!(
        case.plan(),
        Plan::Act(Action::Clear {
            what: Leavings::Rights,
            ..
        })
    ));
    case.observed.left.clear();
    assert_eq!(case.plan(), Plan::Read(Reading::Left(Leavings::Rights)));
    case.observed.left.insert(Leavings::Rights, Left::default());
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn the_modules_labels_go_before_the_note_of_what_stays() {
    let mut case = left(Leavings::OwnLabels, Remedy::Unapply);
    let rights = left(Leavings::Rights, Remedy::Delete).observed.left;
    case.observed
        .left
        .insert(Leavings::Rights, rights[&Leavings::Rights].clone());
    let Plan::Act(Action::Clear { what, .. }) = case.plan() else {
        panic!("{:?}", case.plan())
    };
    assert_eq!(what, Leavings::OwnLabels);
    // Also where nothing else is the module's.
    case.observed.release = fixtures::history(&[RevisionStatus::Deployed], "other");
    case.change_latest(|latest| latest.by = None);
    assert!(matches!(
        case.plan(),
        Plan::Act(Action::Clear {
            what: Leavings::OwnLabels,
            ..
        })
    ));
    case.observed.left.insert(Leavings::OwnLabels, Left::default());
    assert!(matches!(case.plan(), Plan::Act(Action::BeginRemoval { .. })));
}

#[test]
fn what_is_refused_for_ever_is_given_up_and_named() {
    for what in [Leavings::Nodes, Leavings::OwnLabels, Leavings::Stack] {
        let mut case = left(what, Remedy::Delete);
        let leftover = case.observed.left[&what].objects[0].clone();
        let mut now = NOW;
        for tries in 1..=LAST_TRIES {
            let plan = case.plan_at(now);
            assert!(matches!(plan, Plan::Act(Action::Clear { .. })), "{plan:?}");
            let thing = Refusable::of(what, &leftover);
            case.refused.tried(thing, "a policy says no".to_owned(), now, 0.0);
            if tries < LAST_TRIES || what == Leavings::Stack {
                let Plan::Wait { until, why } = case.plan_at(now) else {
                    panic!("{tries} tries: {:?}", case.plan_at(now))
                };
                assert!(matches!(why, Wait::Refused { .. }), "{why:?}");
                now = until;
            }
        }
        let gone = case.plan_at(now) == Plan::Act(Action::RemoveFinalizer);
        // What runs on the nodes would go on.
        assert_eq!(gone, what != Leavings::Stack);
        let waited = now.duration_since(NOW).as_secs();
        assert!(
            what == Leavings::Stack || (24..=31).contains(&waited),
            "half a minute: {waited} s"
        );
        let catalogue = Catalogue::compiled_in().unwrap();
        let told = stays(&case.situation(now, &catalogue));
        let is_named = told.iter().any(|what| {
            what.ends_with("of nodes (CustomResourceDefinition left), since it could not be taken away: a policy says no")
                || what.ends_with("leaves them out (CustomResourceDefinition left), since it could not be taken away: a policy says no")
        });
        assert_eq!(is_named, gone, "{told:?}");
    }
}

#[test]
fn what_somebody_else_may_need_is_looked_at_again_and_stays_in_the_end() {
    let mut case = left(Leavings::Namespace, Remedy::Blocked("an API is away".to_owned()));
    let leftover = case.observed.left[&Leavings::Namespace].objects[0].clone();
    let mut now = NOW;
    while case.plan_at(now) != Plan::Act(Action::RemoveFinalizer) {
        let Plan::Act(Action::Clear { what, objects }) = case.plan_at(now) else {
            panic!("{:?}", case.plan_at(now))
        };
        assert_eq!(objects, std::slice::from_ref(&leftover));
        let thing = Refusable::of(what, &leftover);
        case.refused.tried(thing, "an API is away".to_owned(), now, 0.0);
        if let Plan::Wait { until, .. } = case.plan_at(now) {
            now = until;
        }
    }
    assert!(now > NOW + SignedDuration::from_secs(10), "{now}");
    let catalogue = Catalogue::compiled_in().unwrap();
    let told = stays(&case.situation(now, &catalogue));
    assert!(
        told.iter().any(|what| what.contains("an API is away")),
        "{told:?}"
    );
}

#[test]
fn helm_has_to_know_again_what_stands_where_that_is_the_modules() {
    let mut case = Case::new();
    case.deleting = true;
    let around = case.observed.surroundings.as_mut().unwrap();
    around.cluster_role = Some(Some(owner(RELEASE_NAME)));
    around.namespace = SurroundingNamespace::Ours;
    assert!(matches!(
        case.plan(),
        Plan::Act(Action::Upgrade {
            cause: Cause::RecordLost,
            ..
        })
    ));
    // In somebody else's namespace nobody knows who made it; the module was never more than a guest there.
    let rights = left(Leavings::Rights, Remedy::Delete).observed.left;
    case.observed.left = rights;
    case.observed.surroundings.as_mut().unwrap().namespace = SurroundingNamespace::Foreign;
    case.removal = None;
    let Plan::Act(Action::BeginRemoval { removal }) = case.plan() else {
        panic!("{:?}", case.plan())
    };
    assert!(removal.stays.is_some());
}

#[test]
fn what_helm_cannot_be_made_to_know_goes_without_it() {
    let mut case = left(Leavings::Release, Remedy::Delete);
    let around = case.observed.surroundings.as_mut().unwrap();
    around.cluster_role = Some(Some(owner(RELEASE_NAME)));
    around.namespace = SurroundingNamespace::Ours;
    let is_recorded = |plan: &Plan| {
        matches!(
            plan,
            Plan::Act(Action::Upgrade {
                cause: Cause::RecordLost,
                ..
            })
        )
    };
    let failed = |reason| Failure {
        reason,
        message: "no".to_owned(),
    };
    let later = NOW + SignedDuration::from_hours(1);
    for _ in 0..RECORDING_TRIES {
        assert!(is_recorded(&case.plan_at(later)), "{:?}", case.plan_at(later));
        // Of an API server that does not answer nothing follows.
        case.attempts.failed(failed("ApiCallFailed"), NOW, 0.0);
        case.attempts.failed(failed(RECORDING_FAILED), NOW, 0.0);
    }
    case.observed.gpu_clusters = None;
    assert_eq!(case.plan_at(later), Plan::Read(Reading::GpuClusters));
    case.observed.gpu_clusters = Some(true);
    assert!(
        is_recorded(&case.plan_at(later)),
        "a hook has something to clean up"
    );
    case.observed.gpu_clusters = Some(false);
    let cleared = |case: &Case| match case.plan_at(later) {
        Plan::Act(Action::Clear { what, .. }) => what,
        plan => panic!("{plan:?}"),
    };
    assert_eq!(cleared(&case), Leavings::Release);
    // Driver upgrades are paused before, as ever.
    let upgrades = left(Leavings::DriverUpgrades, Remedy::Delete).observed.left;
    let upgrades = upgrades[&Leavings::DriverUpgrades].clone();
    case.observed.left.insert(Leavings::DriverUpgrades, upgrades);
    assert_eq!(cleared(&case), Leavings::DriverUpgrades);
}

#[test]
fn nothing_is_said_to_be_removed_of_what_was_never_the_modules() {
    let catalogue = Catalogue::compiled_in().unwrap();
    let told = |case: &Case| farewell(&case.situation(NOW, &catalogue));
    let mut case = left(Leavings::Rights, Remedy::Delete);
    case.removal = None;
    case.observed.release = fixtures::history(&[RevisionStatus::Deployed], "other");
    case.change_latest(|latest| latest.by = None);
    let Plan::Act(Action::BeginRemoval { removal }) = case.plan() else {
        panic!("{:?}", case.plan())
    };
    case.removal = Some(removal);
    assert_eq!(told(&case), Some(Farewell::Untouched));
    case.removal = None;
    case.observed.left.insert(Leavings::Rights, Left::default());
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
    assert_eq!(told(&case), Some(Farewell::Untouched));

    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.deleting = true;
    case.removal = None;
    case.observed.driver_upgrades = Some(NodeIds::new());
    let Plan::Act(Action::BeginRemoval { removal }) = case.plan() else {
        panic!("{:?}", case.plan())
    };
    case.removal = Some(removal);
    assert!(matches!(told(&case), Some(Farewell::Removed { .. })));
    // Nothing was there.
    let mut case = Case::new();
    case.removal = None;
    assert_eq!(told(&case), None);
}
