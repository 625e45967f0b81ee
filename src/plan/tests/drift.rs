use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use crate::drift::{Finding, Kind, Manifest, Mark, Repair, refused};
use crate::facts::Seen;
use crate::plan::drift::describe;

const DOCUMENTS: &str = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {name: cluster-policy}}
";

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        kind: Kind::new("v1", "ConfigMap"),
        namespace: None,
        name: name.to_owned(),
    }
}

fn policy() -> ObjectRef {
    ObjectRef {
        kind: Kind::new("nvidia.com/v1", "ClusterPolicy"),
        namespace: None,
        name: "cluster-policy".to_owned(),
    }
}

fn mark(version: &str) -> Mark {
    Mark::of(&ObjectMeta {
        uid: Some(version.to_owned()),
        ..ObjectMeta::default()
    })
}

fn finding(repair: Repair) -> Finding {
    Finding {
        fields: vec!["data.x".to_owned()],
        managers: vec!["kubectl-edit".to_owned()],
        repair,
    }
}

/// What the newest revision consists of.
fn manifest(case: &Case) -> Manifest {
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    let latest = history.latest().unwrap();
    Manifest::parse(latest.number, &latest.uid, DOCUMENTS).unwrap()
}

/// A deployed release whose manifest is known, all objects compared and as wanted, all CRDs there.
fn in_sync() -> Case {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.drift_mode = DriftMode::Correct;
    for crd in &case.desired.as_ref().unwrap().chart.crds {
        case.observed.crds.insert(crd.clone(), fixtures::crd(Some("d")));
    }
    let manifest = manifest(&case);
    case.drift.begin(manifest);
    for object in [object("a"), object("b"), policy()] {
        see(&mut case, &object, "1");
        case.drift.note(object, Some(mark("1")), None, NOW, 0.0);
    }
    case
}

fn see(case: &mut Case, object: &ObjectRef, version: &str) {
    let seen = Seen::Marked(mark(version));
    case.observed.objects.insert(object.clone(), seen);
}

fn note(case: &mut Case, object: &ObjectRef, found: Option<Finding>, now: Timestamp) {
    let seen = case.observed.objects[object].clone();
    let mark = match seen {
        Seen::Absent => None,
        Seen::Marked(mark) => Some(mark),
    };
    case.drift.note(object.clone(), mark, found, now, 1.0);
}

fn reapplied(plan: Plan) -> Vec<ObjectRef> {
    match plan {
        Plan::Act(Action::Reapply { objects, .. }) => objects,
        plan => panic!("{plan:?}"),
    }
}

fn secs(secs: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(secs)
}

#[test]
fn the_manifest_of_each_new_revision_is_read_and_every_object_compared_once() {
    let mut case = in_sync();
    assert_eq!(case.plan(), Plan::Keep);
    case.drift = DriftState::default();
    let read = |uid: &str| Plan::ReadManifest {
        revision: 1,
        uid: uid.to_owned(),
    };
    let wanted = manifest(&case);
    assert_eq!(case.plan(), read(&wanted.uid));
    case.drift.begin(wanted);
    let all = BTreeSet::from([object("a"), object("b"), policy()]).into_iter();
    assert_eq!(case.plan(), Plan::Inspect(all.collect()));

    // Installed anew, the release counts from 1 again.
    let mut anew = in_sync();
    anew.change_latest(|latest| latest.uid = "another".to_owned());
    assert_eq!(anew.plan(), read("another"));
}

#[test]
fn only_what_somebody_wrote_or_deleted_is_compared() {
    let mut case = in_sync();
    see(&mut case, &object("b"), "2");
    assert_eq!(case.plan(), Plan::Inspect(vec![object("b")]));
    note(&mut case, &object("b"), None, NOW);
    assert_eq!(case.plan(), Plan::Keep, "a write that changed nothing");
    case.observed.objects.insert(policy(), Seen::Absent);
    assert_eq!(case.plan(), Plan::Inspect(vec![policy()]));
    note(&mut case, &policy(), Some(finding(Repair::Create)), NOW);
    assert_eq!(reapplied(case.plan()), [policy()]);
    // What no watch has told of yet is no news.
    let mut silent = in_sync();
    silent.observed.objects.clear();
    assert_eq!(silent.plan(), Plan::Keep);
}

#[test]
fn every_mode_does_what_it_says() {
    let mut case = in_sync();
    see(&mut case, &object("a"), "2");
    note(&mut case, &object("a"), Some(finding(Repair::Apply)), NOW);
    assert_eq!(reapplied(case.plan()), [object("a")]);
    case.drift_mode = DriftMode::Report;
    assert_eq!(case.plan(), Plan::Keep);
    see(&mut case, &object("b"), "2");
    assert_eq!(case.plan(), Plan::Inspect(vec![object("b")]));
    case.observed.crds.clear();
    assert_eq!(case.plan(), Plan::Inspect(vec![object("b")]));
    case.drift_mode = DriftMode::Ignore;
    assert_eq!(case.plan(), Plan::Keep);
}

#[test]
fn a_suspended_module_looks_and_does_not_touch() {
    let mut case = in_sync();
    case.suspended = true;
    assert_eq!(held(&case), Hold::Suspended);
    see(&mut case, &object("a"), "2");
    assert_eq!(case.plan(), Plan::Inspect(vec![object("a")]));
    note(&mut case, &object("a"), Some(finding(Repair::Apply)), NOW);
    case.observed.crds.clear();
    assert_eq!(held(&case), Hold::Suspended);
    // Helm is not started either.
    case.drift = DriftState::default();
    assert_eq!(held(&case), Hold::Suspended);
}

#[test]
fn nothing_is_put_right_while_the_release_is_not_as_wanted() {
    for status in RevisionStatus::ALL {
        let mut case = in_sync();
        case.change_latest(|latest| latest.status = status);
        note(&mut case, &object("a"), Some(finding(Repair::Apply)), NOW);
        let is_drift = matches!(case.plan(), Plan::Act(Action::Reapply { .. }));
        assert_eq!(is_drift, status == RevisionStatus::Deployed, "{status}");
    }
    let mut changed = in_sync();
    note(&mut changed, &object("a"), Some(finding(Repair::Apply)), NOW);
    changed.desired = resolve(json!({ "driver": { "branch": 590 } }));
    assert_eq!(changed.plan(), upgrade(Cause::Changed));
}

#[test]
fn a_crd_comes_before_the_objects_of_its_kind() {
    let mut case = in_sync();
    let crd = "clusterpolicies.nvidia.com";
    case.observed.objects.insert(policy(), Seen::Absent);
    case.observed.crds.get_mut(crd).unwrap().terminating = true;
    assert_eq!(
        case.plan(),
        Plan::Keep,
        "it is still going, and nothing could be made meanwhile"
    );
    case.observed.crds.remove(crd);
    let crds = vec![ObjectRef::crd(crd)];
    let restore = Plan::Act(Action::RestoreCrds { crds });
    assert_eq!(case.plan(), restore);
    case.drift.corrected(&ObjectRef::crd(crd), NOW, 1.0);
    case.observed
        .crds
        .insert(crd.to_owned(), fixtures::crd(Some("d")));
    assert_eq!(case.plan(), Plan::Inspect(vec![policy()]));

    // Gone once more: not before the pause is over, but then without any event.
    case.observed.crds.remove(crd);
    assert!(matches!(case.plan(), Plan::Inspect(_)), "nothing waits for it");
    assert_eq!(case.drift.due(NOW), Some(secs(1)));
    assert_eq!(case.plan_at(secs(1)), restore);
    case.observed
        .crds
        .insert(crd.to_owned(), fixtures::crd(Some("d")));

    // Changed by somebody, or never the module's.
    case.observed.crds.get_mut(crd).unwrap().as_applied = false;
    assert_eq!(case.plan_at(secs(1)), restore);
    case.observed.crds.insert(crd.to_owned(), fixtures::crd(None));
    assert_eq!(case.plan_at(secs(1)), restore);
    let mut foreign = in_sync();
    let nfd = "nodefeatures.nfd.k8s-sigs.io".to_owned();
    foreign.observed.crds.insert(nfd, fixtures::crd(None));
    assert_eq!(foreign.plan(), Plan::Keep, "NFD's CRDs may be somebody else's");
}

#[test]
fn what_comes_back_is_put_right_more_and_more_rarely_and_forgotten_when_it_stays_good() {
    let mut case = in_sync();
    let (a, mut now, mut pauses) = (object("a"), NOW, Vec::new());
    for version in 2..15 {
        see(&mut case, &a, &version.to_string());
        note(&mut case, &a, Some(finding(Repair::Apply)), now);
        if let Some(due) = case.drift.due(now) {
            assert_eq!(case.plan_at(now), Plan::Keep);
            pauses.push((due - now).get_seconds());
            now = due;
        }
        assert_eq!(reapplied(case.plan_at(now)), std::slice::from_ref(&a));
        case.drift.corrected(&a, now, 1.0);
        let known = case.drift.returning().count();
        assert_eq!(known, usize::from(version >= 4), "after {} times", version - 1);
        see(&mut case, &a, "good");
        note(&mut case, &a, None, now);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);

    let again = case.drift.due(now).unwrap();
    assert_eq!(again, now + SignedDuration::from_mins(10));
    let forgotten = case.drift.due(again).unwrap();
    assert_eq!(forgotten, now + SignedDuration::from_mins(20));
    case.drift.fade(forgotten - SignedDuration::from_secs(1));
    assert_eq!(case.drift.returning().count(), 1);
    case.drift.fade(forgotten);
    assert_eq!((case.drift.returning().count(), case.drift.due(now)), (0, None));
}

#[test]
fn a_person_ends_the_pause() {
    let returning = || {
        let mut case = in_sync();
        case.drift.observe_generation(1);
        for _ in 0..5 {
            case.drift.corrected(&object("a"), NOW, 1.0);
        }
        see(&mut case, &object("a"), "2");
        note(&mut case, &object("a"), Some(finding(Repair::Apply)), NOW);
        assert_eq!(case.plan(), Plan::Keep);
        case
    };
    let mut edited = returning();
    edited.drift.observe_generation(1);
    assert_eq!(edited.plan(), Plan::Keep);
    edited.drift.observe_generation(2);
    assert_eq!(reapplied(edited.plan()), [object("a")]);
    let mut forced = returning();
    forced.drift.force();
    assert!(matches!(forced.plan(), Plan::Inspect(all) if all.len() == 3));
}

#[test]
fn what_the_api_server_refuses_is_tried_again_later_and_keeps_nothing_else_back() {
    let mut case = in_sync();
    see(&mut case, &object("a"), "2");
    see(&mut case, &object("b"), "2");
    note(
        &mut case,
        &object("a"),
        Some(refused("the field is immutable")),
        NOW,
    );
    note(&mut case, &object("b"), Some(finding(Repair::Apply)), NOW);
    assert_eq!(reapplied(case.plan()), [object("b")]);
    case.drift.corrected(&object("b"), NOW, 1.0);
    note(&mut case, &object("b"), None, NOW);
    assert_eq!(case.plan(), Plan::Keep);
    let due = case.drift.due(NOW).unwrap();
    assert_eq!(case.plan_at(due), Plan::Inspect(vec![object("a")]));
}

#[test]
fn what_cannot_be_compared_has_its_own_pause_and_ends_it_when_it_changes() {
    let mut case = in_sync();
    see(&mut case, &object("a"), "2");
    see(&mut case, &object("b"), "2");
    let moved = Plan::Inspect(vec![object("a"), object("b")]);
    assert_eq!(case.plan(), moved);
    let Some(Seen::Marked(seen)) = case.observed.objects.get(&object("a")).cloned() else {
        panic!("not seen");
    };
    case.drift
        .unread(&object("a"), Some(seen), "a webhook says 500", NOW, 1.0);
    note(&mut case, &object("b"), Some(finding(Repair::Apply)), NOW);
    assert_eq!(
        reapplied(case.plan()),
        [object("b")],
        "not the one that nobody has compared"
    );
    case.drift.corrected(&object("b"), NOW, 1.0);
    note(&mut case, &object("b"), None, NOW);
    assert_eq!(case.plan(), Plan::Keep);
    let due = case.drift.due(NOW).unwrap();
    assert_eq!(case.plan_at(due), Plan::Inspect(vec![object("a")]));
    see(&mut case, &object("a"), "3");
    assert_eq!(case.plan(), Plan::Inspect(vec![object("a")]));
}

#[test]
fn what_could_not_be_put_right_is_no_fight_once_it_is_right() {
    let mut case = in_sync();
    for _ in 0..4 {
        case.drift
            .unread(&object("a"), None, "a webhook says 500", NOW, 1.0);
        case.drift
            .refused(&object("b"), refused("the field is immutable"), NOW, 1.0);
    }
    assert_eq!(case.drift.returning().count(), 2);
    note(&mut case, &object("a"), None, NOW);
    case.drift.corrected(&object("b"), NOW, 1.0);
    assert_eq!(case.drift.returning().count(), 0);
}

#[test]
fn a_failure_puts_off_looking_too() {
    let mut case = in_sync();
    see(&mut case, &object("a"), "2");
    case.attempts.failed(failure(), NOW, 1.0);
    let until = case.attempts.blocked_until(NOW).unwrap();
    let wait = Plan::Wait {
        until,
        why: Wait::Backoff,
    };
    assert_eq!(case.plan(), wait);
    assert_eq!(case.plan_at(until), Plan::Inspect(vec![object("a")]));
    case.suspended = true;
    assert_eq!(held(&case), Hold::Suspended);
}

#[test]
fn putting_right_is_preceded_by_a_look_at_the_release_itself() {
    let mut case = in_sync();
    note(&mut case, &object("a"), Some(finding(Repair::Apply)), NOW);
    case.observed.surroundings = None;
    assert_eq!(case.plan(), Plan::Look);
    case.observed.objects.insert(object("b"), Seen::Absent);
    assert_eq!(
        case.plan(),
        Plan::Inspect(vec![object("b")]),
        "looking needs none"
    );
}

#[test]
fn a_sentence_names_three_objects() {
    let added = finding(Repair::Apply);
    let gone = finding(Repair::Create);
    let many = [object("a"), object("b"), object("c"), object("d"), policy()];
    let named = describe(many.iter().map(|object| (object, &added)));
    assert_eq!(
        named,
        "ConfigMap a (data.x, by kubectl-edit), ConfigMap b (data.x, by kubectl-edit), ConfigMap c (data.x, by kubectl-edit) and 2 more"
    );
    assert_eq!(
        describe([(&policy(), &gone)].into_iter()),
        "ClusterPolicy cluster-policy (missing)"
    );
}
