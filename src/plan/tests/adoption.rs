//! Releases of the module's name that somebody else made.

use serde_json::{Map, Value};

use super::by_hand::{DEPLOYED, adopt, guide};
use super::*;
use crate::facts::ExistingRelease;

#[test]
fn it_is_read_before_anything_is_said_of_it_and_nothing_is_changed() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
    let read = case.observed.existing.take();
    assert_eq!(case.plan(), Plan::ReadExisting { revision: 1 });
    case.observed.existing = read;
    assert_eq!(case.reason(), "ReleaseNotAdopted");
    assert!(!case.finalizer, "a GpuModule that goes no further is let go");
    case.deleting = true;
    assert_eq!(case.plan(), Plan::Keep);

    // The chart that is wanted is another one now: other defaults, another list.
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
    case.desired = resolve(json!({ "chartVersion": "26.3.3" }));
    assert_eq!(case.plan(), Plan::ReadExisting { revision: 1 });
}

#[test]
fn what_took_the_place_of_the_modules_release_is_not_the_modules_whatever_was_recorded() {
    let mut case = Case::by_hand("26.7.0", guide(), DEPLOYED);
    case.recorded = Some(recorded(1));
    assert_eq!(case.reason(), "ReleaseNotAdopted");
    case.suspended = true;
    assert_eq!(case.reason(), "ReleaseNotAdopted", "suspension does not hide it");
    case.deleting = true;
    case.finalizer = true;
    assert_eq!(
        case.plan(),
        Plan::Act(Action::RemoveFinalizer),
        "it is not uninstalled"
    );
}

#[test]
fn it_is_taken_over_when_the_user_asks_for_it_after_the_list_was_shown() {
    let asked_later = Case::by_hand("26.3.3", guide(), DEPLOYED)
        .told(true)
        .compared_as("26.3.3");
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(asked_later.plan(), first);

    let asked_at_once = Case::by_hand("26.3.3", guide(), DEPLOYED).adopting();
    assert_eq!(asked_at_once.reason(), "AdoptionNotConfirmed");
    let changed_meanwhile = asked_at_once.told(true);
    assert_eq!(
        changed_meanwhile.reason(),
        "AdoptionNotConfirmed",
        "another change of the spec confirms nothing"
    );
    let taken_back = changed_meanwhile.told(false);
    assert_eq!(taken_back.reason(), "ReleaseNotAdopted");
    assert_eq!(taken_back.told(true).compared_as("26.3.3").plan(), first);
}

#[test]
fn only_what_was_listed_is_confirmed() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED).told(true);
    let mut more = guide();
    more["mig"] = json!({ "strategy": "mixed" });
    case.read("26.3.3", more);
    assert_eq!(case.reason(), "AdoptionNotConfirmed");

    // Of what is past the end of the list only the number is known.
    let many: Map<String, Value> = (0..60).map(|i| (format!("key{i:02}"), json!(i))).collect();
    let mut case = Case::by_hand("26.3.3", Value::Object(many.clone()), DEPLOYED).told(true);
    let listed = case.listed.clone().unwrap();
    assert_eq!(
        (listed.dropped_values.len(), listed.more_dropped_values),
        (50, 13)
    );
    case.observed.comparison = None;
    assert_eq!(case.plan(), Plan::Compare, "confirmed");
    let mut more = many;
    more.insert("key99".to_owned(), json!(1));
    case.read("26.3.3", Value::Object(more));
    assert_eq!(case.reason(), "AdoptionNotConfirmed");
}

#[test]
fn with_nothing_to_lose_one_yes_is_enough() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED)
        .adopting()
        .compared_as("26.3.3");
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(case.plan(), first);
    case.finalizer = false;
    assert_eq!(case.plan(), Plan::Act(Action::AddFinalizer));
    case.suspended = true;
    assert_eq!(held(&case), Hold::Suspended);
    case.suspended = false;
    case.desired = resolve(json!({ "chartVersion": "1.0.0" }));
    assert!(matches!(held(&case), Hold::Refused(_)));
}

#[test]
fn the_way_begins_with_what_the_release_has_not_with_what_its_chart_usually_has() {
    let from = |chart: &str| {
        Case::by_hand(chart, guide(), DEPLOYED)
            .told(true)
            .compared_as(chart)
    };
    let held_policy = |chart| adopt(chart, DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(from("25.10.0").plan(), held_policy("26.3.3"));
    assert_eq!(from("26.3.1").plan(), held_policy("26.7.0"));
    let moves = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::Held);
    assert_eq!(
        from("26.7.0").plan(),
        moves,
        "the guide's driver is in the ClusterPolicy"
    );
    assert_eq!(from("25.3.4").reason(), "UpgradePathRefused");
    assert!(
        held(&from("25.3.4"))
            .to_string()
            .contains("a 25.10 chart with Helm first")
    );
    assert_eq!(from("26.7.1").reason(), "DowngradeRefused");
}

#[test]
fn between_the_steps_of_an_adoption_the_new_controller_is_waited_for() {
    let mut case = Case::by_hand(
        "26.3.3",
        guide(),
        &[RevisionStatus::Superseded, RevisionStatus::Deployed],
    );
    case.adopt = true;
    case.finalizer = true;
    case.change_latest(|latest| {
        latest.by = Some("gpu-manager-0".to_owned());
        latest.meant = Some(2);
        latest.chart = Some("26.7.0".parse().unwrap());
        latest.layout = Some(DriverLayout::ClusterPolicy);
        latest.driver_upgrades = Some(DriverUpgrades::Held);
    });
    assert!(
        matches!(
            case.plan(),
            Plan::Wait {
                why: Wait::Step { .. },
                ..
            }
        ),
        "{:?}",
        case.plan()
    );
}

#[test]
fn a_release_that_is_as_wanted_is_marked_as_the_modules() {
    let desired = resolve(json!({})).unwrap();
    let case = Case::by_hand("26.7.0", desired.values, DEPLOYED);
    assert_eq!(
        case.dropped(),
        Vec::<String>::new(),
        "its NVIDIADriver is the module's"
    );
    let wanted = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(case.told(true).compared(1, json!({})).plan(), wanted);
}

#[test]
fn one_that_is_not_deployed_goes_by_the_rules_for_the_modules_own() {
    let good = RevisionStatus::Superseded;
    let of = |statuses: &[RevisionStatus]| Case::by_hand("26.3.3", guide(), statuses).told(true);
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(
        of(&[RevisionStatus::Deployed, RevisionStatus::Failed]).plan(),
        first
    );
    let none_worked = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(of(&[RevisionStatus::Failed]).plan(), none_worked);
    for status in [RevisionStatus::PendingUpgrade, RevisionStatus::Uninstalling] {
        let case = of(&[good, status]);
        let until = NOW + FOREIGN_OPERATION_LIMIT;
        let waits = Plan::Wait {
            until,
            why: Wait::ForeignOperation(status),
        };
        assert_eq!(case.plan(), waits);
        let to = if status.is_pending() { 1 } else { 2 };
        let freed = Plan::Act(Action::Rollback { to, found: status });
        assert_eq!(case.plan_at(until), freed);
        let mut not_asked = case;
        not_asked.adopt = false;
        assert_eq!(held_at(&not_asked, until).reason(), "ReleaseNotAdopted");
    }
}

fn held_at(case: &Case, now: Timestamp) -> Hold {
    match case.plan_at(now) {
        Plan::Hold(hold) => hold,
        plan => panic!("{plan:?}"),
    }
}

#[test]
fn after_a_first_step_that_failed_the_way_still_begins_with_what_the_release_has() {
    let mut case = Case::by_hand(
        "26.3.3",
        guide(),
        &[RevisionStatus::Deployed, RevisionStatus::Failed],
    );
    case.adopt = true;
    case.finalizer = true;
    case.change_latest(|latest| {
        latest.by = Some("gpu-manager-0".to_owned());
        latest.meant = Some(2);
        latest.chart = Some("26.7.0".parse().unwrap());
    });
    let retry = Action::Upgrade {
        to: step("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held),
        cause: Cause::Retry,
    };
    assert_eq!(case.plan(), Plan::Act(retry));
    // Another process has not read it yet.
    case.observed.existing = None;
    assert_eq!(case.plan(), Plan::ReadExisting { revision: 1 });
    case.change_latest(|latest| latest.status = RevisionStatus::PendingUpgrade);
    assert_eq!(case.plan(), Plan::ReadExisting { revision: 1 });
    case.read("26.3.3", guide());
    let why = Obstacle::AnotherLine;
    assert_eq!(case.plan(), Plan::Act(Action::Discard { revision: 2, why }));
}

fn latest_uid(case: &Case) -> String {
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    history.latest().unwrap().uid.clone()
}

#[test]
fn one_that_helm_cannot_decode_is_left_alone() {
    for adopt in [false, true] {
        let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
        case.adopt = adopt;
        case.observed.existing = Some(std::sync::Arc::new(ExistingRelease {
            uid: latest_uid(&case),
            revision: 1,
            wanted_chart: "26.7.0".parse().unwrap(),
            content: None,
        }));
        assert_eq!(held(&case), Hold::Foreign(Foreign::Undecodable { revision: 1 }));
        assert_eq!(held(&case).reason(), "ReleaseUnreadable");
    }
}

#[test]
fn objects_whose_secrets_are_gone_are_installed_over_when_the_user_asks_for_it() {
    let mut case = Case::new();
    case.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner(RELEASE_NAME)));
    assert_eq!(case.reason(), "ReleaseUnrecorded");
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), None)];
    assert_eq!(case.reason(), "ReleaseUnrecorded");
    let mut asked = case.adopting();
    let unknown = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(asked.plan(), unknown);
    // The chart that made them, with the driver where it is, and then on from there.
    asked.observed.policies[0].chart = Some("26.3.3".parse().unwrap());
    let again = adopt("26.3.3", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(asked.plan(), again);
    asked.observed.policies[0].chart = Some("26.7.0".parse().unwrap());
    let moves = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::Held);
    assert_eq!(asked.plan(), moves);
    asked.observed.policies[0].owner = None;
    assert_eq!(asked.reason(), "UnmanagedStack");
}
