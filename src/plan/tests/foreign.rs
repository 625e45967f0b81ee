//! What somebody else runs.

use super::*;

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
    let mut by_hand = Case::new();
    by_hand.observed.policies = vec![fixtures::policy(None, None)];
    assert_eq!(held(&by_hand).reason(), "UnmanagedStack");

    let mut other_name = Case::new();
    other_name.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner("nvidia")));
    assert!(held(&other_name).to_string().contains("gpu-operator/nvidia"));

    let mut other_module = Case::ours(&[RevisionStatus::Deployed]);
    let crds = &mut other_module.observed.crds;
    crds.insert(OTHER_GPU_MODULE_CRD.to_owned(), fixtures::crd(None));
    assert_eq!(held(&other_module), Hold::Foreign(Foreign::OtherModule));

    for mut case in [by_hand, other_name] {
        case.deleting = true;
        assert_eq!(case.plan(), Plan::Act(Action::RemoveFinalizer));
    }
}

#[test]
fn a_release_of_the_modules_name_is_read_whoever_made_its_namespace() {
    for namespace in [SurroundingNamespace::Foreign, SurroundingNamespace::Ours] {
        let mut case = Case::new();
        case.finalizer = false;
        case.observed.release = ReleaseFacts::Unreadable;
        case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), None)];
        let around = case.observed.surroundings.as_mut().unwrap();
        around.cluster_role = Some(Some(owner(RELEASE_NAME)));
        around.namespace = namespace;
        // Without a finalizer: so far there is nothing to clear up.
        assert_eq!(case.plan(), Plan::Act(Action::OpenNamespace));
        case.observed.surroundings = None;
        assert_eq!(case.plan(), Plan::Look);
    }
    let mut other = Case::new();
    other.observed.release = ReleaseFacts::Unreadable;
    other.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner("nvidia")));
    assert_eq!(held(&other).reason(), "ForeignRelease");
}

fn beside(kind: NeighbourKind) -> Neighbour {
    Neighbour {
        kind,
        namespace: "kube-system".to_owned(),
        name: "theirs".to_owned(),
        ready: 1,
    }
}

#[test]
fn what_does_the_same_work_is_named_whether_anything_is_installed_or_not() {
    for mut case in [Case::new(), Case::ours(&[RevisionStatus::Deployed])] {
        case.observed.neighbours = vec![beside(NeighbourKind::DevicePlugin)];
        assert_eq!(held(&case).reason(), "ForeignDevicePlugin");
        assert!(
            held(&case)
                .to_string()
                .starts_with("DaemonSet kube-system/theirs ")
        );
        case.observed.neighbours.push(beside(NeighbourKind::GpuDriver));
        assert_eq!(held(&case).reason(), "GpuDriverModule");

        case.observed.neighbours.clear();
        let crd = fixtures::crd(None);
        case.observed.crds.insert(GPU_DRIVER_CRD.to_owned(), crd);
        assert_eq!(held(&case).reason(), "GpuDriverModule");
        assert!(
            held(&case)
                .to_string()
                .starts_with("CRD gpudrivers.gpu.kyma-project.io ")
        );

        case.deleting = true;
        assert!(!matches!(case.plan(), Plan::Hold(_)), "a deletion goes on");
    }
}

#[test]
fn a_stack_is_named_before_the_device_plugin_that_may_be_a_part_of_it() {
    let mut case = Case::new();
    case.observed.neighbours = vec![beside(NeighbourKind::DevicePlugin)];
    case.observed.policies = vec![fixtures::policy(Some(owner("nvidia")), None)];
    assert_eq!(held(&case).reason(), "ForeignRelease");
}
