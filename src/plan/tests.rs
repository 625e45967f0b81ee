use std::collections::BTreeMap;
use std::fmt::Write as _;

use semver::Version;
use serde_json::json;

use super::*;
use crate::api::{GPU_DRIVER_CRD, NodesSpec, OTHER_GPU_MODULE_CRD, RELEASE_NAME, UpgradePolicy};
use crate::catalogue::{Catalogue, DriverLayout};
use crate::desired::{DriverUpgrades, Step};
use crate::facts::fixtures::{self, NOW, owner, recorded};
use crate::facts::{
    Comparison, DaemonSetFacts, DriverImage, History, Neighbour, NeighbourKind, ReleaseFacts, Revision,
    RevisionContent, SurroundingNamespace,
};
use crate::helm::RevisionStatus;

mod adoption;
mod by_hand;
mod deletion;
mod drift;
mod dropped;
mod foreign;
mod keep_out;
mod left_drivers;
mod nfd;
mod objects;
mod pauses;
mod protection;
mod recovery;
mod route;
mod runs;
mod work;
mod world;

/// As by default.
const FOREIGN_OPERATION_LIMIT: SignedDuration = SignedDuration::from_mins(10);

/// One situation that tests change before they ask.
#[expect(clippy::struct_excessive_bools, reason = "as in the situation itself")]
struct Case {
    deleting: bool,
    finalizer: bool,
    removal: Option<Removal>,
    only_removes: bool,
    deletion_workloads: DeletionWorkloads,
    deletion_crds: DeletionCrds,
    refused: Refused,
    suspended: bool,
    upgrade_policy: UpgradePolicy,
    desired: Result<Desired, Refusal>,
    stand_in: Option<Desired>,
    recorded: Option<ReleaseStatus>,
    observed: Observed,
    pruned: Pruned,
    attempts: Attempts,
    failed: bool,
    comparison_due: bool,
    interrupted: Option<Operation>,
    generation: i64,
    adopt: bool,
    listed: Option<AdoptionStatus>,
    orphans: Option<Orphans>,
    drift_mode: DriftMode,
    drift: DriftState,
    nodes: NodesSpec,
    labelled: Labelled,
}

fn resolve(spec: serde_json::Value) -> Result<Desired, Refusal> {
    let spec = serde_json::from_value(spec).unwrap();
    crate::desired::resolve(
        &spec,
        &Catalogue::compiled_in().unwrap(),
        crate::api::NodeFeatureDiscovery::Module,
        &[],
    )
}

impl Case {
    /// Nothing installed, everything readable, finalizer there, default spec.
    fn new() -> Self {
        Self::wanting(resolve(json!({})))
    }

    /// The same with what is wanted.
    fn wanting(desired: Result<Desired, Refusal>) -> Self {
        Self {
            deleting: false,
            finalizer: true,
            // How a removal begins is tested on its own.
            removal: Some(Removal::default()),
            only_removes: false,
            deletion_workloads: DeletionWorkloads::Block,
            deletion_crds: DeletionCrds::Delete,
            refused: Refused::default(),
            suspended: false,
            upgrade_policy: UpgradePolicy::WhenIdle,
            desired,
            stand_in: None,
            recorded: None,
            observed: fixtures::observed(),
            pruned: Pruned::default(),
            attempts: Attempts::default(),
            failed: false,
            comparison_due: false,
            interrupted: None,
            generation: 1,
            adopt: false,
            listed: None,
            orphans: None,
            // Objects are compared in tests of their own.
            drift_mode: DriftMode::Ignore,
            drift: DriftState::default(),
            nodes: NodesSpec::default(),
            labelled: Labelled::default(),
        }
    }

    /// A release that the module made, its newest revision in that status.
    fn ours(statuses: &[RevisionStatus]) -> Self {
        let mut case = Self::new();
        let fingerprint = case.desired.as_ref().unwrap().fingerprint.to_string();
        case.observed.release = fixtures::history(statuses, &fingerprint);
        case.recorded = Some(recorded(i64::try_from(statuses.len()).unwrap()));
        case
    }

    fn change_latest(&mut self, change: impl FnOnce(&mut Revision)) {
        let ReleaseFacts::Read(history) = &self.observed.release else {
            panic!("unreadable")
        };
        self.change(history.latest().unwrap().number, change);
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Revision)) {
        let ReleaseFacts::Read(history) = &self.observed.release else {
            panic!("unreadable")
        };
        let mut all = history.all().to_vec();
        change(all.iter_mut().find(|revision| revision.number == number).unwrap());
        self.observed.release = ReleaseFacts::Read(History::new(all));
    }

    fn compared(mut self, revision: u32, spec: serde_json::Value) -> Self {
        let desired = resolve(spec).unwrap();
        self.observed.comparison = Some(Comparison {
            uid: revision.to_string(),
            content: Some(RevisionContent {
                chart_version: desired.chart.version,
                values_digest: desired.values_digest,
                driver: desired.driver_id,
                holds_drivers: false,
            }),
        });
        self
    }

    fn situation<'a>(&'a self, now: Timestamp, catalogue: &'a Catalogue) -> Situation<'a> {
        Situation {
            now,
            foreign_operation_limit: FOREIGN_OPERATION_LIMIT,
            deleting: self.deleting,
            finalizer: self.finalizer,
            removal: self.removal.as_ref(),
            only_removes: self.only_removes,
            deletion_workloads: self.deletion_workloads,
            deletion_crds: self.deletion_crds,
            uid: "module",
            refused: &self.refused,
            suspended: self.suspended,
            upgrade_policy: self.upgrade_policy,
            desired: self.desired.as_ref(),
            stand_in: self.stand_in.as_ref(),
            recorded: self.recorded.as_ref(),
            observed: &self.observed,
            catalogue,
            orphans: self.orphans.as_ref(),
            pruned: &self.pruned,
            attempts: &self.attempts,
            failed: self.failed,
            comparison_due: self.comparison_due,
            interrupted: self.interrupted.as_ref(),
            generation: self.generation,
            adopt: self.adopt,
            listed: self.listed.as_ref(),
            nodes: self.node_rules(catalogue),
            labelled: &self.labelled,
            drift_mode: self.drift_mode,
            drift: &self.drift,
        }
    }

    fn plan_at(&self, now: Timestamp) -> Plan {
        self.plan_in(now, &Catalogue::compiled_in().unwrap())
    }

    fn plan_in(&self, now: Timestamp, catalogue: &Catalogue) -> Plan {
        decide(&self.situation(now, catalogue))
    }

    fn plan(&self) -> Plan {
        self.plan_at(NOW)
    }
}

fn failure() -> Failure {
    Failure {
        reason: "UpgradeFailed",
        message: "helm says no".to_owned(),
    }
}

fn step(chart: &str, layout: DriverLayout, drivers: DriverUpgrades) -> Step {
    Step {
        chart: chart.parse().unwrap(),
        layout,
        drivers,
    }
}

fn wanted_step() -> Step {
    step("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured)
}

fn upgrade(cause: Cause) -> Plan {
    Plan::Act(Action::Upgrade {
        to: wanted_step(),
        cause,
    })
}

#[test]
fn truth_table() {
    let mut table = String::new();
    let first = [None].into_iter().chain(RevisionStatus::ALL.map(Some));
    for (status, changed, deleting, suspended) in first.flat_map(|status| {
        [false, true].into_iter().flat_map(move |changed| {
            [false, true].into_iter().flat_map(move |deleting| {
                [false, true].map(move |suspended| (status, changed, deleting, suspended))
            })
        })
    }) {
        let mut case = match status {
            None => Case::new(),
            Some(status) => Case::ours(&[RevisionStatus::Superseded, status]),
        };
        if changed {
            case.desired = resolve(json!({ "driver": { "branch": 590 } }));
        }
        (case.deleting, case.suspended) = (deleting, suspended);
        let plan = case.plan();

        let uninstalls = matches!(plan, Plan::Act(Action::Uninstall { .. }));
        assert!(deleting || !uninstalls, "uninstalls without a deletion");
        if suspended && !deleting {
            assert_eq!(plan, Plan::Hold(Hold::Suspended));
        }
        let status = status.map_or("none", RevisionStatus::as_str);
        let word = |is: bool, word: &'static str| if is { word } else { "-" };
        let (changed, deleting, suspended) = (
            word(changed, "changed"),
            word(deleting, "deleting"),
            word(suspended, "suspended"),
        );
        writeln!(
            table,
            "{status:16} {changed:8} {deleting:9} {suspended:10} {plan:?}"
        )
        .unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn nothing_is_changed_before_the_surroundings_were_read() {
    for deleting in [false, true] {
        let mut case = Case::new();
        case.deleting = deleting;
        case.observed.surroundings = None;
        assert_eq!(case.plan(), Plan::Look);
    }
}

#[test]
fn the_finalizer_comes_before_the_first_change_and_not_for_a_refused_module() {
    let mut case = Case::new();
    case.finalizer = false;
    assert_eq!(case.plan(), Plan::Act(Action::AddFinalizer));
    case.desired = resolve(json!({ "chartVersion": "1.0.0" }));
    assert!(matches!(case.plan(), Plan::Hold(Hold::Refused(_))));
}

#[test]
fn an_unreadable_release_leads_to_rights_first() {
    let mut case = Case::new();
    case.observed.release = ReleaseFacts::Unreadable;
    assert_eq!(case.plan(), Plan::Act(Action::OpenNamespace));
    case.deleting = true;
    case.recorded = Some(recorded(1));
    assert_eq!(case.plan(), Plan::Act(Action::OpenNamespace));
}

#[test]
fn an_own_revision_needs_no_helm_process_to_be_known() {
    let case = Case::ours(&[RevisionStatus::Deployed]);
    assert_eq!(case.plan(), Plan::Keep);
}

#[test]
fn copied_labels_prove_nothing() {
    // `helm upgrade` and `helm rollback` by hand copy fingerprint, by and revision of the revision before.
    let mut case = Case::ours(&[RevisionStatus::Superseded, RevisionStatus::Deployed]);
    case.change_latest(|latest| latest.meant = Some(1));
    case.recorded = Some(recorded(1));
    assert_eq!(case.plan(), Plan::Compare);

    let same = case.compared(2, json!({}));
    assert_eq!(same.plan(), Plan::Keep, "what is as wanted is accepted");
    let other = same.compared(2, json!({ "values": { "mig": { "strategy": "mixed" } } }));
    assert_eq!(other.plan(), upgrade(Cause::ForeignChange));
}

#[test]
fn an_accepted_revision_follows_a_later_change_of_the_spec() {
    let mut case = Case::ours(&[RevisionStatus::Superseded, RevisionStatus::Deployed]).compared(2, json!({}));
    case.change_latest(|latest| latest.meant = Some(1));
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    assert_eq!(case.plan(), upgrade(Cause::Changed));
}

#[test]
fn a_due_comparison_is_made_even_where_labels_are_right() {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.comparison_due = true;
    assert_eq!(case.plan(), Plan::Compare);
}

#[test]
fn a_lost_status_is_known_again_by_the_labels_or_read_back_through_helm() {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.recorded = None;
    assert_eq!(case.plan(), Plan::Keep);
    case.change_latest(|latest| latest.chart = None);
    assert_eq!(case.plan(), Plan::Compare);
    assert_eq!(case.compared(1, json!({})).plan(), Plan::Keep);
}

#[test]
fn a_stuck_operation_of_our_own_is_freed_at_once_and_a_foreign_one_after_its_deadline() {
    let pending = [RevisionStatus::Deployed, RevisionStatus::PendingUpgrade];
    let mut case = Case::ours(&pending);
    let freed = Plan::Act(Action::Rollback {
        to: 1,
        found: RevisionStatus::PendingUpgrade,
    });
    assert_eq!(case.plan(), freed);

    case.change_latest(|latest| latest.meant = Some(1));
    let deadline = NOW + FOREIGN_OPERATION_LIMIT;
    let wait = Plan::Wait {
        until: deadline,
        why: Wait::ForeignOperation(RevisionStatus::PendingUpgrade),
    };
    assert_eq!(case.plan(), wait);
    assert_eq!(case.plan_at(deadline), freed);
    case.deleting = true;
    assert_eq!(case.plan(), wait);
    assert_eq!(
        case.plan_at(deadline),
        Plan::Act(Action::Uninstall { hooks: true })
    );
}

#[test]
fn a_first_install_that_hangs_is_rolled_back_to_itself_and_never_uninstalled() {
    let case = Case::ours(&[RevisionStatus::PendingInstall]);
    assert_eq!(
        case.plan(),
        Plan::Act(Action::Rollback {
            to: 1,
            found: RevisionStatus::PendingInstall
        })
    );
}

#[test]
fn an_uninstall_by_hand_is_given_time_and_then_undone() {
    let case = Case::ours(&[RevisionStatus::Uninstalling]);
    assert!(matches!(
        case.plan(),
        Plan::Wait {
            why: Wait::ForeignOperation(_),
            ..
        }
    ));
    let undone = Plan::Act(Action::Rollback {
        to: 1,
        found: RevisionStatus::Uninstalling,
    });
    assert_eq!(case.plan_at(NOW + FOREIGN_OPERATION_LIMIT), undone);
}

#[test]
fn nothing_is_done_on_the_grounds_of_what_cannot_be_read() {
    for mut case in [Case::new(), Case::ours(&[RevisionStatus::Failed])] {
        case.observed.unread = vec!["CustomResourceDefinitions", "Nodes"];
        assert_eq!(
            held(&case),
            Hold::Unread("CustomResourceDefinitions, Nodes".to_owned())
        );
        case.observed.release = ReleaseFacts::Read(History::default());
        case.recorded = Some(recorded(1));
        case.deleting = true;
        assert!(
            matches!(held(&case), Hold::Unread(_)),
            "what cannot be read may still be there"
        );
    }
}

fn held(case: &Case) -> Hold {
    match case.plan() {
        Plan::Hold(hold) => hold,
        plan => panic!("{plan:?}"),
    }
}

#[test]
fn nothing_new_is_installed_on_an_old_kubernetes_but_what_runs_stays() {
    let mut case = Case::new();
    case.observed.kubernetes = "1.32".parse().unwrap();
    assert_eq!(held(&case).reason(), "UnsupportedKubernetes");
    let mut running = Case::ours(&[RevisionStatus::Deployed]);
    running.observed.kubernetes = "1.32".parse().unwrap();
    assert_eq!(running.plan(), Plan::Keep);
}

#[test]
fn a_namespace_that_is_being_deleted_is_waited_for() {
    let mut case = Case::new();
    case.observed.surroundings.as_mut().unwrap().namespace = SurroundingNamespace::Terminating;
    assert!(matches!(
        case.plan(),
        Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        }
    ));
}
