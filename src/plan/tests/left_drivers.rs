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
