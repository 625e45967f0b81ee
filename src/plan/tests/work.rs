//! Driver changes that wait, and what they wait for.

use super::*;
use crate::catalogue::DriverLayout::{ClusterPolicy, NvidiaDriver};
use crate::desired::DriverUpgrades::{AsConfigured, Held};
use crate::facts::{DriverChange, GpuPod, MaintenanceWindow, NodeFacts, OperandsLabel, WorkFacts};

/// Branch 580 runs on one node, branch 590 is wanted; nobody has looked for GPU work.
fn changed() -> Case {
    let mut case = running(&json!({}), AsConfigured);
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    case
}

/// A release of that spec, made by the module.
fn running(spec: &serde_json::Value, drivers: DriverUpgrades) -> Case {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    let desired = resolve(spec.clone()).unwrap();
    case.observed.gpu_nodes = vec![fixtures::node("gpu-0", 1)];
    let held = desired.held.clone().map(|held| held.fingerprint);
    case.change_latest(|latest| {
        latest.fingerprint = Some(match drivers {
            AsConfigured => desired.fingerprint.to_string(),
            Held => held.unwrap().to_string(),
        });
        latest.driver = Some(desired.driver_id.clone());
        latest.driver_upgrades = Some(drivers);
    });
    case.desired = Ok(desired);
    case
}

/// The same, with branch 590 in the release, which is held, and 580 on the nodes.
fn held() -> Case {
    let mut case = running(&json!({ "driver": { "branch": 590 } }), Held);
    let before = resolve(json!({})).unwrap().driver_id;
    case.change_latest(|latest| latest.driver = Some(before));
    case
}

fn busy() -> WorkFacts {
    WorkFacts::Read(vec![GpuPod {
        namespace: "team".to_owned(),
        name: "train".to_owned(),
        node: "gpu-0".to_owned(),
    }])
}

fn idle() -> WorkFacts {
    WorkFacts::Read(Vec::new())
}

fn to(drivers: DriverUpgrades, cause: Cause) -> Plan {
    Plan::Act(Action::Upgrade {
        to: step("26.7.0", NvidiaDriver, drivers),
        cause,
    })
}

impl Case {
    fn waits(&self) -> Waiting {
        let catalogue = Catalogue::compiled_in().unwrap();
        super::super::waiting(&self.situation(NOW, &catalogue))
    }

    fn blocker(&self) -> Blocker {
        match self.waits() {
            Waiting::Driver(wait) => wait.blocker,
            waiting => panic!("{waiting:?}"),
        }
    }
}

#[test]
fn a_driver_change_looks_for_gpu_work_and_waits_for_its_end() {
    let mut case = changed();
    assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
    assert_eq!(case.waits(), Waiting::Unknown);
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan(), to(Held, Cause::Changed));
    assert!(matches!(case.blocker(), Blocker::Work(_)));
    case.observed.gpu_work = Some(WorkFacts::Unreadable("no".to_owned()));
    assert_eq!(case.plan(), to(Held, Cause::Changed), "it fails closed");
    assert_eq!(case.blocker(), Blocker::WorkUnreadable("no".to_owned()));
    case.observed.gpu_work = Some(idle());
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed), "one upgrade");
    assert_eq!(case.waits(), Waiting::Nothing);
}

#[test]
fn a_held_driver_stays_held_until_it_may_go_on() {
    let mut case = held();
    assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan(), Plan::Keep);
    assert!(matches!(case.blocker(), Blocker::Work(_)));
    case.observed.gpu_work = Some(idle());
    assert_eq!(case.plan(), to(AsConfigured, Cause::DriversLetGo));
    case.upgrade_policy = UpgradePolicy::Immediate;
    case.observed.gpu_work = None;
    assert_eq!(case.plan(), to(AsConfigured, Cause::DriversLetGo));
    case.upgrade_policy = UpgradePolicy::WhenIdle;
    case.observed.gpu_nodes.clear();
    assert_eq!(case.plan(), to(AsConfigured, Cause::DriversLetGo));
}

#[test]
fn a_due_comparison_accepts_the_held_release() {
    let mut case = held();
    case.observed.gpu_work = Some(busy());
    let desired = case.desired.clone().unwrap();
    case.observed.comparison = Some(Comparison {
        uid: "1".to_owned(),
        content: Some(RevisionContent {
            chart_version: desired.chart.version.clone(),
            values_digest: desired.held.unwrap().values_digest,
            driver: desired.driver_id,
            holds_drivers: true,
        }),
    });
    assert_eq!(case.plan(), Plan::Keep);
    case.change_latest(|latest| latest.meant = Some(7));
    assert_eq!(case.plan(), Plan::Keep, "somebody rolled back to it");
    case.observed.gpu_work = Some(idle());
    assert_eq!(case.plan(), to(AsConfigured, Cause::DriversLetGo));
}

#[test]
fn what_restarts_no_driver_never_waits() {
    let other_values = json!({ "values": { "mig": { "strategy": "mixed" } } });
    let mut case = running(&json!({}), AsConfigured);
    case.desired = resolve(other_values.clone());
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
    assert_eq!(case.waits(), Waiting::Nothing);

    let mut held = held();
    held.observed.gpu_work = Some(busy());
    held.desired = resolve(json!({ "driver": { "branch": 590 }, "values": other_values["values"] }));
    assert_eq!(
        held.plan(),
        to(Held, Cause::Changed),
        "at once, beside the driver"
    );
}

#[test]
fn nothing_is_held_where_nothing_runs() {
    let mut case = changed();
    case.observed.gpu_nodes.clear();
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
    case.upgrade_policy = UpgradePolicy::Immediate;
    assert_eq!(changed_with(UpgradePolicy::Immediate).plan(), case.plan());
}

fn changed_with(policy: UpgradePolicy) -> Case {
    Case {
        upgrade_policy: policy,
        ..changed()
    }
}

#[test]
fn the_window_decides_whatever_runs() {
    let mut case = changed_with(UpgradePolicy::Window);
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan(), Plan::Read(Reading::MaintenanceWindow));
    case.observed.maintenance = Some(Err("there is none".to_owned()));
    assert_eq!(case.plan(), to(Held, Cause::Changed), "never by surprise");
    assert_eq!(
        case.blocker(),
        Blocker::WindowUnreadable("there is none".to_owned())
    );

    let window = |begin, end| Some(Ok(MaintenanceWindow::parse(begin, end).unwrap()));
    case.observed.maintenance = window("010000+0000", "020000+0000");
    assert_eq!(case.plan(), to(Held, Cause::Changed));
    let Waiting::Driver(wait) = case.waits() else {
        panic!("{:?}", case.waits())
    };
    let next = NOW + SignedDuration::from_hours(1);
    assert!(matches!(wait.blocker, Blocker::Window { next: at, .. } if at == next));
    assert_eq!(wait.recheck(next - SignedDuration::from_secs(9)), next);
    assert!(wait.recheck(NOW) < next, "the window may be moved");
    case.observed.maintenance = window("233000+0000", "003000+0000");
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
}

#[test]
fn going_back_ends_the_wait_unless_a_node_has_come_to_the_held_driver() {
    let mut case = held();
    case.desired = resolve(json!({}));
    case.observed.gpu_work = Some(busy());
    let set = |updated| DaemonSetFacts {
        terminating: false,
        name: "d".to_owned(),
        desired: 2,
        ready: 2,
        updated,
        driver: Some(DriverImage {
            uid: String::new(),
            owner: "gardenlinux-precompiled".to_owned(),
            image: String::new(),
        }),
    };
    case.observed.daemon_sets = vec![set(0)];
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
    assert_eq!(case.waits(), Waiting::Nothing);
    case.observed.daemon_sets = vec![set(0), set(1)];
    assert_eq!(case.plan(), to(Held, Cause::Changed));

    // So it was held again, and that ends once each node is known to run what is wanted.
    let mut back = running(&json!({}), Held);
    back.observed.gpu_work = Some(busy());
    back.observed.controller_runs = true;
    let soon = NOW + SignedDuration::from_secs(59);
    let later = NOW + SignedDuration::from_mins(1);
    for (updated, now, free) in [(2, soon, false), (1, later, false), (2, later, true)] {
        back.observed.daemon_sets = vec![set(updated)];
        let plan = if free {
            to(AsConfigured, Cause::DriversLetGo)
        } else {
            Plan::Keep
        };
        assert_eq!(back.plan_at(now), plan, "{updated} at {now}");
    }
    back.observed.controller_runs = false;
    assert_eq!(back.plan_at(later), Plan::Keep, "nobody has told the nodes");
}

#[test]
fn a_roll_that_has_begun_is_not_stopped_half_way() {
    for (change, holds) in [
        (None, true),
        (Some(DriverChange::Waiting), true),
        (Some(DriverChange::UnderWay), false),
        (Some(DriverChange::Failed), false),
    ] {
        let mut case = changed();
        case.observed.gpu_work = Some(busy());
        case.observed.gpu_nodes[0].driver_change = change;
        let drivers = if holds { Held } else { AsConfigured };
        assert_eq!(case.plan(), to(drivers, Cause::Changed), "{change:?}");
    }
}

#[test]
fn a_driver_change_that_got_stuck_on_a_node_without_drivers_lets_no_other_one_go() {
    let stuck = |alter: &dyn Fn(&mut Case, &mut NodeFacts)| {
        let mut case = changed();
        case.observed.gpu_work = Some(busy());
        // NVIDIA's operator may take the label off a moment later.
        case.observed.operand_pods = None;
        let mut node = fixtures::node("gpu-1", 1);
        node.driver_change = Some(DriverChange::Failed);
        alter(&mut case, &mut node);
        case.observed.gpu_nodes.push(node);
        case.plan()
    };
    assert_eq!(
        stuck(&|_, _| {}),
        to(AsConfigured, Cause::Changed),
        "it takes part"
    );
    let kept_off = |is_ours: bool| {
        move |case: &mut Case, node: &mut NodeFacts| {
            node.pool = Some("other".to_owned());
            case.nodes.exclude = vec!["other".to_owned()];
            node.operands = Some(OperandsLabel {
                value: "false".to_owned(),
                is_ours,
            });
        }
    };
    for is_ours in [true, false] {
        assert_eq!(stuck(&kept_off(is_ours)), to(Held, Cause::Changed));
    }
    assert_eq!(stuck(&|_, node| node.leaving = true), to(Held, Cause::Changed));
}

#[test]
fn work_on_nodes_that_are_left_out_holds_no_driver_change() {
    let mut case = changed();
    let mut other = fixtures::node("gpu-1", 1);
    other.operands = Some(OperandsLabel {
        value: "false".to_owned(),
        is_ours: false,
    });
    case.observed.gpu_nodes.push(other);
    let looked_at: Vec<_> = case.observed.nodes_in_reach().map(|node| &node.name).collect();
    assert_eq!(looked_at, ["gpu-0"]);
    assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
    // Without any other node there is nothing to look at, and nothing that a new driver interrupts.
    case.observed.gpu_nodes.remove(0);
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
}

#[test]
fn a_change_of_the_mode_waits_as_a_whole_in_both_directions() {
    let preinstalled = json!({ "driver": { "mode": "Preinstalled" } });
    for (from, wanted) in [
        (json!({}), preinstalled.clone()),
        (preinstalled.clone(), json!({})),
    ] {
        let mut case = running(&from, AsConfigured);
        case.desired = resolve(wanted);
        assert_eq!(case.plan(), Plan::Read(Reading::GpuWork));
        case.observed.gpu_work = Some(busy());
        let until = NOW + WORK_LOOK;
        let why = Wait::Drivers;
        assert_eq!(case.plan(), Plan::Wait { until, why });
        assert!(matches!(case.waits(), Waiting::Driver(wait) if wait.whole));
        // What runs is put right for as long as that takes.
        case.drift_mode = DriftMode::Correct;
        for crd in &case.desired.as_ref().unwrap().chart.crds {
            case.observed.crds.insert(crd.clone(), fixtures::crd(Some("d")));
        }
        assert!(matches!(case.plan(), Plan::ReadManifest { revision: 1, .. }));
        case.drift_mode = DriftMode::Ignore;
        case.observed.gpu_work = Some(idle());
        assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
    }
    // No step on the way may take the driver away either.
    let mut old = running(&json!({}), AsConfigured);
    old.recorded.as_mut().unwrap().chart_version = "25.10.1".to_owned();
    old.change_latest(|latest| {
        (latest.chart, latest.layout) = (Some(Version::new(25, 10, 1)), Some(ClusterPolicy));
    });
    old.desired = resolve(preinstalled);
    old.observed.gpu_work = Some(busy());
    assert!(matches!(
        old.plan(),
        Plan::Wait {
            why: Wait::Drivers,
            ..
        }
    ));
}

#[test]
fn without_a_driver_of_ours_no_chart_waits() {
    let preinstalled = |chart: &str| json!({ "driver": { "mode": "Preinstalled" }, "chartVersion": chart });
    let mut case = running(&preinstalled("26.3.3"), AsConfigured);
    case.recorded.as_mut().unwrap().chart_version = "26.3.3".to_owned();
    case.change_latest(|latest| {
        (latest.chart, latest.layout) = (Some(Version::new(26, 3, 3)), Some(ClusterPolicy));
    });
    case.desired = resolve(preinstalled("26.7.0"));
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
}

#[test]
fn only_the_last_step_of_a_way_asks_for_gpu_work() {
    let mut case = running(&json!({ "chartVersion": "26.3.3" }), AsConfigured);
    case.recorded.as_mut().unwrap().chart_version = "26.3.3".to_owned();
    case.change_latest(|latest| {
        (latest.chart, latest.layout) = (Some(Version::new(26, 3, 3)), Some(ClusterPolicy));
    });
    case.desired = resolve(json!({}));
    let first = Action::Upgrade {
        to: step("26.7.0", ClusterPolicy, Held),
        cause: Cause::Changed,
    };
    assert_eq!(case.plan(), Plan::Act(first));
}

#[test]
fn a_driver_that_the_user_holds_is_the_users_affair() {
    let spec = |branch| {
        let policy = json!({ "upgradePolicy": { "autoUpgrade": false } });
        json!({ "chartVersion": "26.3.3", "driver": { "branch": branch }, "values": { "driver": policy } })
    };
    let mut case = running(&spec(580), AsConfigured);
    case.recorded.as_mut().unwrap().chart_version = "26.3.3".to_owned();
    case.change_latest(|latest| {
        (latest.chart, latest.layout) = (Some(Version::new(26, 3, 3)), Some(ClusterPolicy));
    });
    case.desired = resolve(spec(590));
    let at_once = Action::Upgrade {
        to: step("26.3.3", ClusterPolicy, AsConfigured),
        cause: Cause::Changed,
    };
    assert_eq!(case.plan(), Plan::Act(at_once));
}

#[test]
fn an_unknown_driver_is_read_through_helm_and_else_taken_for_another_one() {
    let mut case = changed();
    case.change_latest(|latest| latest.driver = None);
    assert_eq!(case.plan(), Plan::Compare);
    let found = |spec, holds_drivers| {
        let desired = resolve(spec).unwrap();
        Some(Comparison {
            uid: "1".to_owned(),
            content: Some(RevisionContent {
                chart_version: desired.chart.version,
                values_digest: String::new(),
                driver: desired.driver_id,
                holds_drivers,
            }),
        })
    };
    case.observed.gpu_work = Some(busy());
    case.observed.comparison = found(json!({ "driver": { "branch": 590 } }), false);
    assert_eq!(case.plan(), to(AsConfigured, Cause::Changed));
    case.observed.comparison = found(json!({}), false);
    assert_eq!(case.plan(), to(Held, Cause::Changed));
    case.observed.comparison = found(json!({ "driver": { "branch": 590 } }), true);
    assert_eq!(
        case.plan(),
        to(Held, Cause::Changed),
        "the nodes may run anything"
    );
}

#[test]
fn a_failed_upgrade_is_tried_again_with_drivers_held() {
    let mut case = Case::ours(&[RevisionStatus::Deployed, RevisionStatus::Failed]);
    case.observed.gpu_nodes = vec![fixtures::node("gpu-0", 1)];
    case.observed.gpu_work = Some(busy());
    assert_eq!(case.plan(), to(Held, Cause::Retry), "nothing says what runs");
    let driver = case.desired.as_ref().unwrap().driver_id.clone();
    case.change(1, |good| good.driver = Some(driver));
    assert_eq!(case.plan(), to(AsConfigured, Cause::Retry));
}

#[test]
fn deletion_and_suspension_go_before_every_wait() {
    let mut case = held();
    case.observed.gpu_work = Some(busy());
    case.suspended = true;
    assert_eq!(case.plan(), Plan::Hold(Hold::Suspended));
    assert_eq!(case.waits(), Waiting::Unknown);
    case.deleting = true;
    case.deletion_workloads = DeletionWorkloads::Ignore;
    assert!(matches!(case.plan(), Plan::Act(Action::Uninstall { .. })));
    assert_eq!(case.waits(), Waiting::Nothing);
}
