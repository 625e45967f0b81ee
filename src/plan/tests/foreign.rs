//! What somebody else runs.

use super::*;

#[test]
fn a_release_that_took_the_place_of_ours_is_foreign_whatever_was_recorded() {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.change_latest(|latest| (latest.by, latest.meant, latest.fingerprint) = (None, None, None));
    assert_eq!(held(&case), Hold::Foreign(Foreign::Release));
    case.suspended = true;
    assert_eq!(
        held(&case),
        Hold::Foreign(Foreign::Release),
        "suspension does not hide it"
    );
    case.deleting = true;
    assert_eq!(
        case.plan(),
        Plan::Act(Action::RemoveFinalizer),
        "it is not uninstalled"
    );
}

#[test]
fn somebody_elses_stack_does_not_hold_the_finalizer() {
    let mut case = Case::new();
    case.deleting = true;
    case.recorded = Some(recorded(1));
    case.observed.policies = vec![
        fixtures::policy(Some(owner("nvidia")), None),
        fixtures::policy(None, None),
    ];
    assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
}

#[test]
fn a_foreign_stack_is_never_touched() {
    let mut release = Case::ours(&[RevisionStatus::Deployed]);
    release.recorded = None;
    release.change_latest(|latest| (latest.by, latest.meant, latest.fingerprint) = (None, None, None));
    assert_eq!(held(&release), Hold::Foreign(Foreign::Release));

    let mut by_hand = Case::new();
    by_hand.observed.policies = vec![fixtures::policy(None, None)];
    assert_eq!(held(&by_hand).reason(), "ForeignRelease");

    let mut other_name = Case::new();
    other_name.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner("nvidia")));
    assert!(held(&other_name).to_string().contains("gpu-operator/nvidia"));

    let mut other_module = Case::ours(&[RevisionStatus::Deployed]);
    let crds = &mut other_module.observed.crds;
    crds.insert(OTHER_GPU_MODULE_CRD.to_owned(), fixtures::crd(None));
    assert_eq!(held(&other_module), Hold::Foreign(Foreign::OtherModule));

    for mut case in [release, by_hand, other_name] {
        case.deleting = true;
        assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
    }
}

#[test]
fn a_foreign_release_in_an_unreadable_namespace_is_seen_by_its_cluster_role() {
    let mut case = Case::new();
    case.observed.release = ReleaseFacts::Unreadable;
    let around = case.observed.surroundings.as_mut().unwrap();
    around.cluster_role = Some(Some(owner(RELEASE_NAME)));
    around.namespace = SurroundingNamespace::Foreign;
    assert_eq!(held(&case).reason(), "ForeignRelease");
    case.observed.surroundings.as_mut().unwrap().namespace = SurroundingNamespace::Ours;
    assert_eq!(
        case.plan(),
        Plan::Act(Action::OpenNamespace),
        "our own namespace: its release can be read first"
    );
}

#[test]
fn whose_the_namespace_is_is_read_before_a_stack_is_called_foreign() {
    let mut case = Case::new();
    case.observed.release = ReleaseFacts::Unreadable;
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), None)];
    let around = case.observed.surroundings.take();
    assert_eq!(case.plan(), Plan::Look);
    case.observed.surroundings = around;
    assert_eq!(case.plan(), Plan::Act(Action::OpenNamespace));
}
