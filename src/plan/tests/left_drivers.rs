use super::*;
use crate::facts::Orphan;

/// A release that is as wanted, without drivers; those of before are still there.
fn switched_off() -> Case {
    let desired = resolve(json!({ "driver": { "mode": "Preinstalled" } }));
    let mut case = Case::wanting(desired);
    let fingerprint = case.desired.as_ref().unwrap().fingerprint.to_string();
    case.observed.release = fixtures::history(&[RevisionStatus::Deployed], &fingerprint);
    case.recorded = Some(recorded(1));
    let mut policy = fixtures::policy(Some(owner(RELEASE_NAME)), Some("ready"));
    policy.drivers_enabled = false;
    case.observed.policies = vec![policy];
    case.observed.daemon_sets = fixtures::daemon_sets();
    case
}

#[test]
fn drivers_that_are_switched_off_are_removed_once_nobody_asks_for_them() {
    let case = switched_off();
    let left = case
        .observed
        .daemon_sets
        .iter()
        .find(|set| set.driver.is_some())
        .unwrap();
    let Plan::Act(Action::Prune { objects, left_by }) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    let names: Vec<_> = objects
        .iter()
        .map(|orphan: &Orphan| orphan.object.name.as_str())
        .collect();
    assert_eq!((names, left_by), (vec![left.name.as_str()], LeftBy::FormerDriver));

    // It goes already, after Pods that may be on a node that is gone.
    let mut going = switched_off();
    for set in &mut going.observed.daemon_sets {
        set.terminating = true;
    }
    assert_eq!(going.plan(), Plan::Keep);
    // NVIDIA's operator has not been told, or would make it anew.
    let mut enabled = switched_off();
    enabled.observed.policies[0].drivers_enabled = true;
    assert_eq!(enabled.plan(), Plan::Keep);
    // Its NVIDIADriver is about to take it along.
    let mut asked_for = switched_off();
    asked_for.observed.drivers = vec![crate::facts::DriverFacts {
        name: left.driver.as_ref().unwrap().owner.clone(),
        owner: Some(owner(RELEASE_NAME)),
        state: None,
        error: None,
    }];
    assert_eq!(asked_for.plan(), Plan::Keep);
    let mut managed = Case::ours(&[RevisionStatus::Deployed]);
    managed.observed.policies = case.observed.policies.clone();
    managed.observed.daemon_sets = fixtures::daemon_sets();
    assert_eq!(managed.plan(), Plan::Keep);
}

#[test]
fn a_driver_that_cannot_be_deleted_is_told_and_keeps_nothing_back() {
    let mut case = switched_off();
    let more = fixtures::daemon_sets().into_iter().filter_map(|set| {
        let driver = set.driver.clone()?;
        let (name, uid) = ("another".to_owned(), "another".to_owned());
        Some(DaemonSetFacts {
            name,
            driver: Some(DriverImage { uid, ..driver }),
            ..set
        })
    });
    case.observed.daemon_sets.extend(more);
    let Plan::Act(Action::Prune { objects, .. }) = case.plan() else {
        panic!("{:?}", case.plan());
    };
    assert_eq!(objects.len(), 2);
    let bad = objects[0].object.clone();
    let (mut now, mut pauses) = (NOW, Vec::new());
    for tries in 1..=12 {
        case.pruned
            .tried(bad.clone(), Some("a policy says no".to_owned()), now, 1.0);
        let Plan::Act(Action::Prune { objects: others, .. }) = case.plan_at(now) else {
            panic!("{:?}", case.plan_at(now));
        };
        assert_eq!(others, objects[1..], "each has its own pause");
        let told = undeleted(&case.situation(now, &Catalogue::compiled_in().unwrap()));
        let expected = (bad.clone(), "a policy says no".to_owned());
        assert_eq!(told, [expected].get(..usize::from(tries > 2)).unwrap());
        let due = case.pruned.due(now).unwrap();
        pauses.push((due - now).get_seconds());
        now = due;
    }
    assert_eq!(pauses[..6], [1, 2, 4, 8, 16, 32]);
    assert_eq!(pauses[11], 600);
    // Deleted, and there again: somebody makes it anew.
    case.pruned.tried(bad.clone(), None, now, 1.0);
    case.observed
        .daemon_sets
        .retain(|set| set.name != objects[1].object.name);
    assert_eq!(case.plan_at(now), Plan::Keep);
    let told = undeleted(&case.situation(now, &Catalogue::compiled_in().unwrap()));
    assert_eq!(told, [(bad, "it is made anew each time".to_owned())]);
}
