//! Whose Node Feature Discovery labels the nodes.

use NodeFeatureDiscovery::{Cluster, Module};

use super::*;
use crate::api::{NFD_WORKER, NODE_FEATURE_RULE_CRD, NodeFeatureDiscovery};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

fn theirs(ready: i32) -> Neighbour {
    Neighbour {
        kind: NeighbourKind::NodeFeatureDiscovery,
        namespace: "nfd".to_owned(),
        name: "nfd-worker".to_owned(),
        ready,
    }
}

/// What the module's release has; `None` for no release.
fn observed(installed: Option<NodeFeatureDiscovery>) -> Observed {
    let Some(installed) = installed else {
        return fixtures::observed();
    };
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.change_latest(|latest| latest.node_feature_discovery = Some(installed));
    if installed == Module {
        case.observed.daemon_sets = vec![DaemonSetFacts {
            terminating: false,
            name: NFD_WORKER.to_owned(),
            desired: 3,
            ready: 3,
            updated: 3,
            driver: None,
        }];
    }
    case.observed
}

fn with(installed: Option<NodeFeatureDiscovery>, ready: Option<i32>) -> Observed {
    let mut observed = observed(installed);
    observed.neighbours.extend(ready.map(theirs));
    observed
}

#[test]
fn the_first_release_takes_what_is_there() {
    for (ready, whose) in [(None, Module), (Some(0), Cluster), (Some(3), Cluster)] {
        assert_eq!(Settling::default().settle(&with(None, ready), NOW), whose);
    }
    // A release that somebody else made has its own.
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.change_latest(|latest| (latest.by, latest.meant) = (None, None));
    case.observed.neighbours = vec![theirs(0)];
    assert_eq!(Settling::default().settle(&case.observed, NOW), Cluster);
}

#[test]
fn what_runs_is_changed_only_after_the_world_has_settled() {
    let cases = [
        (Module, Some(3), Cluster),
        (Module, Some(4), Cluster),
        (Module, Some(2), Module),
        (Module, None, Module),
        (Cluster, Some(0), Cluster),
        (Cluster, None, Module),
    ];
    for (installed, ready, then) in cases {
        let (mut settling, observed) = (Settling::default(), with(Some(installed), ready));
        assert_eq!(settling.settle(&observed, NOW), installed);
        assert_eq!(settling.settle(&observed, NOW + SETTLING - SECOND), installed);
        assert_eq!(
            settling.settle(&observed, NOW + SETTLING),
            then,
            "{installed:?} {ready:?}"
        );
        assert_eq!(settling.due(), (installed != then).then_some(NOW + SETTLING));
    }
}

#[test]
fn one_that_comes_and_goes_changes_nothing() {
    for (installed, contrary, as_before) in [(Module, Some(3), None), (Cluster, None, Some(3))] {
        let (contrary, as_before) = (with(Some(installed), contrary), with(Some(installed), as_before));
        let mut settling = Settling::default();
        for round in 0..20 {
            let now = NOW + SETTLING * round;
            assert_eq!(settling.settle(&contrary, now), installed);
            assert_eq!(settling.settle(&contrary, now + SETTLING - SECOND), installed);
            assert_eq!(settling.settle(&as_before, now + SETTLING - SECOND), installed);
            assert_eq!(settling.due(), None);
        }
    }
}

#[test]
fn a_release_from_before_the_label_has_the_modules() {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.change_latest(|latest| latest.node_feature_discovery = None);
    case.observed.neighbours = vec![theirs(0)];
    assert_eq!(Settling::default().settle(&case.observed, NOW), Module);
}

#[test]
fn without_rules_nothing_is_installed_beside_it() {
    let mut case = Case::new();
    case.observed.neighbours = vec![theirs(3)];
    case.desired = crate::desired::resolve(
        &crate::api::GpuModuleSpec::default(),
        &Catalogue::compiled_in().unwrap(),
        Cluster,
        &[],
    );
    assert_eq!(held(&case).reason(), "NodeFeatureRulesMissing");
    assert!(
        held(&case)
            .to_string()
            .starts_with("DaemonSet nfd/nfd-worker labels the nodes")
    );
    let crd = fixtures::crd(None);
    case.observed.crds.insert(NODE_FEATURE_RULE_CRD.to_owned(), crd);
    assert_eq!(case.plan(), upgrade(Cause::Install));
}

#[test]
fn its_crds_are_left_alone() {
    let of = |whose, ready| NfdCrds::of(whose, &with(None, ready));
    assert_eq!(of(Cluster, Some(3)), NfdCrds::None);
    assert_eq!(of(Cluster, None), NfdCrds::None);
    assert_eq!(of(Module, Some(1)), NfdCrds::Own);
    assert_eq!(of(Module, None), NfdCrds::All);
}
