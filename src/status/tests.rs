use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::api::{DeletionCrds, NodesSpec, OperationKind, Outcome, RELEASE_NAME, condition};
use crate::catalogue::{Catalogue, DriverLayout, DriverMatrix};
use crate::desired::{DriverUpgrades, Step};
use crate::facts::fixtures::{self, NOW, node, owner};
use crate::facts::{GpuPod, Leavings, NodeFacts, OperandPods};
use crate::helm::RevisionStatus;
use crate::nodes::NodeRules;
use crate::plan::{Action, Cause, Failure, Foreign, Held, Wait};

mod adoption;
mod deleted;
mod drift;
mod driver_change;
mod drivers;
mod history;
mod left_out;
mod operands;
mod pools;

const LATER: SignedDuration = SignedDuration::from_mins(30);

struct Case {
    now: Timestamp,
    generation: i64,
    adopt: bool,
    deleting: Option<Timestamp>,
    removal_began: Option<Timestamp>,
    previous: Option<GpuModuleStatus>,
    desired: Result<Desired, Refusal>,
    observed: Observed,
    plan: Plan,
    waiting: Waiting,
    work: Vec<GpuPod>,
    failure: Option<Failure>,
    ended: Vec<Ended>,
    drift_mode: DriftMode,
    drift: DriftState,
    undeleted: Vec<(ObjectRef, String)>,
    matrix: DriverMatrix,
    nodes: Option<NodesSpec>,
    sightings: Sightings,
    labelled: Labelled,
}

impl Case {
    /// A deployed release that NVIDIA's operator calls ready, with these GPU nodes.
    fn deployed(nodes: Vec<NodeFacts>) -> Self {
        let spec = serde_json::from_value(json!({})).unwrap();
        let desired = crate::desired::resolve(
            &spec,
            &Catalogue::compiled_in().unwrap(),
            crate::api::NodeFeatureDiscovery::Module,
            &[],
        );
        let mut observed = fixtures::observed();
        observed.release = fixtures::history(&[RevisionStatus::Deployed], "f");
        observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("ready"))];
        let working = nodes.iter().filter(|node| node.allocatable > 0);
        let pods = working
            .flat_map(|node| fixtures::ready_pods(&node.name))
            .collect();
        observed.operand_pods = Some(OperandPods::new(pods));
        observed.daemon_sets = fixtures::daemon_sets();
        observed.gpu_nodes = nodes;
        Self {
            now: NOW,
            generation: 1,
            adopt: false,
            deleting: None,
            removal_began: None,
            previous: None,
            desired,
            observed,
            plan: Plan::Keep,
            waiting: Waiting::Nothing,
            work: Vec::new(),
            failure: None,
            ended: Vec::new(),
            drift_mode: DriftMode::Correct,
            drift: DriftState::default(),
            undeleted: Vec::new(),
            matrix: Catalogue::compiled_in().unwrap().drivers,
            nodes: None,
            sightings: Sightings::default(),
            labelled: Labelled::default(),
        }
    }

    fn compute(&self) -> Computed {
        let computed = compute(&Report {
            now: self.now,
            generation: self.generation,
            adopt: self.adopt,
            deleting: self.deleting,
            removal_began: self.removal_began,
            previous: self.previous.as_ref(),
            desired: self.desired.as_ref(),
            observed: &self.observed,
            plan: &self.plan,
            waiting: &self.waiting,
            deletion_crds: DeletionCrds::Keep,
            protection: if self.work.is_empty() {
                Protection::Nothing
            } else {
                Protection::Held(Held::Work(&self.work))
            },
            failure: self.failure.as_ref(),
            ended: &self.ended,
            drift_mode: self.drift_mode,
            drift: &self.drift,
            undeleted: &self.undeleted,
            next_attempt: None,
            rules: NodeRules {
                spec: self.nodes.as_ref(),
                driver: self.desired.as_ref().ok().map(|desired| &desired.driver),
                matrix: &self.matrix,
            },
            sightings: &self.sightings,
            labelled: &self.labelled,
            handled_reconcile_at: None,
        });
        let ready = condition(&computed.status, ConditionType::Ready).unwrap();
        assert_eq!(
            ready.status == "True",
            computed.status.state == State::Ready,
            "{computed:?}"
        );
        assert!(!computed.status.description.is_empty());
        computed
    }

    /// What one pass leaves to the next.
    fn pass(&mut self) -> Computed {
        let computed = self.compute();
        self.previous = Some(computed.status.clone());
        self.sightings = computed.sightings.clone();
        computed
    }

    /// Time goes on until the status changes by itself.
    fn wait(&mut self) {
        let computed = self.pass();
        self.now = computed.recheck.expect("a deadline");
    }

    fn state(&self) -> State {
        self.compute().status.state
    }

    fn reason(&self, kind: ConditionType) -> String {
        condition(&self.compute().status, kind).unwrap().reason.clone()
    }

    fn status_of(&self, kind: ConditionType) -> String {
        condition(&self.compute().status, kind).unwrap().status.clone()
    }
}

fn step(chart: &str, drivers: DriverUpgrades) -> Step {
    Step {
        chart: chart.parse().unwrap(),
        layout: DriverLayout::NvidiaDriver,
        drivers,
    }
}

fn awaits(what: Leavings, names: &[&str]) -> Plan {
    Plan::AwaitRemoval {
        what,
        names: names.iter().map(ToString::to_string).collect(),
    }
}

fn upgrade(cause: Cause) -> Action {
    Action::Upgrade {
        to: step("26.7.0", DriverUpgrades::AsConfigured),
        cause,
    }
}

#[test]
fn no_change_gives_an_equal_status() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    let first = case.pass();
    case.now = NOW + LATER;
    assert_eq!(case.compute(), first);
}

#[test]
fn a_transition_time_moves_only_with_its_own_condition() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.previous = Some(case.compute().status);
    case.now = NOW + LATER;
    case.failure = Some(Failure {
        reason: "UpgradeFailed",
        message: "no".to_owned(),
    });
    let status = case.compute().status;
    let at = |kind| condition(&status, kind).unwrap().last_transition_time.0;
    assert_eq!(at(ConditionType::Installed), case.now);
    assert_eq!(at(ConditionType::OperandsReady), NOW);
    assert_eq!(at(ConditionType::Configured), NOW);
}

#[test]
fn a_refused_spec_is_a_warning_and_leaves_what_runs_in_the_status() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.previous = Some(case.compute().status);
    let refusal = Refusal::OwnedValue {
        path: "driver".to_owned(),
    };
    case.plan = Plan::Hold(Hold::Refused(refusal.clone()));
    case.desired = Err(refusal);
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert_eq!(case.reason(ConditionType::Configured), "OwnedValue");
    assert_eq!(case.status_of(ConditionType::Installed), "True");
    assert_eq!(status.release.unwrap().revision, 1);
    assert!(status.driver.is_some());
    assert_eq!(
        status.description,
        "spec.values.driver is set by the module, remove it from spec.values"
    );
}

#[test]
fn suspension_keeps_the_status_true() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.plan = Plan::Hold(Hold::Suspended);
    assert_eq!(case.state(), State::Ready);
    assert_eq!(case.reason(ConditionType::Configured), "Suspended");
    assert!(case.compute().status.description.contains("spec.suspend"));
    case.observed.gpu_nodes[0].allocatable = 0;
    case.previous = Some(case.compute().status);
    case.now = NOW + LATER;
    assert_eq!(case.state(), State::Error);
}

#[test]
fn a_suspended_module_without_a_running_release_waits_for_a_user() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.plan = Plan::Hold(Hold::Suspended);
    for release in [
        fixtures::history(&[], "f"),
        fixtures::history(&[RevisionStatus::Failed], "f"),
    ] {
        case.observed.release = release;
        assert_eq!(case.state(), State::Warning);
        assert!(case.compute().status.description.contains("set it to false"));
    }
}

#[test]
fn what_cannot_be_read_is_an_error_with_what_to_do() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.observed.unread = vec!["Nodes"];
    case.plan = Plan::Hold(Hold::Unread("Nodes".to_owned()));
    assert_eq!(case.state(), State::Error);
    assert_eq!(case.reason(ConditionType::Configured), "Forbidden");
}

#[test]
fn a_foreign_release_is_a_warning_and_its_operands_are_not_ours() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    let kind = "ClusterPolicy";
    let name = "cluster-policy".to_owned();
    case.plan = Plan::Hold(Hold::Foreign(Foreign::Unmanaged { kind, name }));
    assert_eq!(case.state(), State::Warning);
    assert_eq!(case.reason(ConditionType::Configured), "UnmanagedStack");
    assert_eq!(case.reason(ConditionType::Installed), "NotInstalled");
    assert_eq!(case.status_of(ConditionType::OperandsReady), "Unknown");
    assert_eq!(case.compute().status.release, None);
}

#[test]
fn facts_about_nodes_never_change_configured() {
    for nodes in [vec![], vec![node("a", 0)], vec![node("a", 1)]] {
        for now in [NOW, NOW + LATER] {
            let mut case = Case::deployed(nodes.clone());
            case.now = now;
            assert_eq!(case.reason(ConditionType::Configured), "Configured");
        }
    }
}

#[test]
fn a_failure_is_an_error_with_helms_own_words_also_while_it_is_waited() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.failure = Some(Failure {
        reason: "UpgradeFailed",
        message: "helm says no".to_owned(),
    });
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Backoff,
    };
    let status = case.compute().status;
    assert_eq!(status.state, State::Error);
    assert_eq!(case.status_of(ConditionType::Installed), "False");
    assert_eq!(status.description, "helm says no; it is tried again");
}

#[test]
fn work_under_way_is_processing_and_deletion_is_deleting() {
    let mut case = Case::deployed(vec![]);
    for (action, reason) in [
        (upgrade(Cause::Install), "Installing"),
        (upgrade(Cause::ForeignChange), "Upgrading"),
        (
            Action::Rollback {
                to: 1,
                found: RevisionStatus::PendingUpgrade,
            },
            "Recovering",
        ),
    ] {
        case.plan = Plan::Act(action);
        assert_eq!(case.state(), State::Processing);
        assert_eq!(case.reason(ConditionType::Installed), reason);
    }
    case.deleting = Some(NOW);
    case.plan = Plan::Act(Action::Uninstall { hooks: true });
    assert_eq!(case.state(), State::Deleting);
    case.plan = awaits(Leavings::Stack, &["a", "b", "c", "d"]);
    assert_eq!(case.state(), State::Deleting);
    let status = case.compute().status;
    assert!(
        status.description.ends_with("(4 left: a, b, c and 1 more)"),
        "{}",
        status.description
    );
    case.wait();
    assert_eq!(case.state(), State::Error, "what is stuck is said to be");
}

#[test]
fn a_step_on_the_way_is_named_and_bounded() {
    let mut case = Case::deployed(vec![node("a", 0)]);
    case.plan = Plan::Act(Action::Upgrade {
        to: step("26.3.3", DriverUpgrades::Held),
        cause: Cause::Changed,
    });
    let status = case.compute().status;
    assert!(
        status
            .description
            .ends_with("on the way from chart 26.3.3 to 26.7.0"),
        "{}",
        status.description
    );
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::Step {
            at: "26.3.3".parse().unwrap(),
        },
    };
    assert_eq!(case.state(), State::Processing);
    case.wait();
    assert_eq!(case.state(), State::Error);
}

#[test]
fn somebody_elses_operation_is_bounded() {
    let mut case = Case::deployed(vec![]);
    case.plan = Plan::Wait {
        until: NOW,
        why: Wait::ForeignOperation(RevisionStatus::PendingUpgrade),
    };
    assert_eq!(case.state(), State::Processing);
    case.wait();
    assert_eq!(case.state(), State::Error);
}
