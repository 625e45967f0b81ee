//! The way along the chart lines.

use super::*;

const OLD: DriverLayout = DriverLayout::ClusterPolicy;
const NEW: DriverLayout = DriverLayout::NvidiaDriver;

/// A release that the module made with that chart and layout, recorded as running.
fn running(chart: &str, layout: DriverLayout) -> Case {
    let mut case = Case::ours(&[RevisionStatus::Deployed]);
    case.recorded.as_mut().unwrap().chart_version = chart.to_owned();
    case.change_latest(|latest| {
        latest.fingerprint = None;
        latest.chart = Some(chart.parse().unwrap());
        latest.layout = Some(layout);
    });
    case
}

fn to(chart: &str, layout: DriverLayout, drivers: DriverUpgrades) -> Plan {
    Plan::Act(Action::Upgrade {
        to: step(chart, layout, drivers),
        cause: Cause::Changed,
    })
}

#[test]
fn upgrades_follow_the_lines_and_never_go_back() {
    let version = |text: &str| Version::parse(text).unwrap();
    let at = |installed: &str, wanted: &str| {
        let layout = if installed.starts_with("26.7") { NEW } else { OLD };
        let mut case = running(installed, layout);
        case.desired = resolve(json!({ "chartVersion": wanted }));
        case.plan()
    };
    assert_eq!(
        at("26.3.0", "26.3.3"),
        to("26.3.3", OLD, DriverUpgrades::AsConfigured)
    );
    assert_eq!(
        at("25.10.1", "26.3.3"),
        to("26.3.3", OLD, DriverUpgrades::AsConfigured)
    );
    assert_eq!(
        at("25.10.1", "26.7.0"),
        to("26.3.3", OLD, DriverUpgrades::Held),
        "no line is skipped"
    );
    let down = Hold::Downgrade {
        installed: version("26.7.0"),
        wanted: version("26.3.3"),
    };
    assert_eq!(at("26.7.0", "26.3.3"), Plan::Hold(down));
    let via = "25.10".parse().unwrap();
    let skips = Hold::SkipsLine {
        installed: version("25.3.4"),
        wanted: version("26.7.0"),
        via,
    };
    assert_eq!(at("25.3.4", "26.7.0"), Plan::Hold(skips));
}

#[test]
fn a_failed_step_does_not_shorten_the_way() {
    let mut case = Case::ours(&[RevisionStatus::Deployed, RevisionStatus::Failed]);
    case.recorded.as_mut().unwrap().chart_version = "25.10.1".to_owned();
    case.change(1, |worked| {
        (worked.chart, worked.layout) = (Some(Version::new(25, 10, 1)), Some(OLD));
    });
    case.change_latest(|tried| (tried.chart, tried.layout) = (Some(Version::new(26, 3, 3)), Some(OLD)));
    let again = Action::Upgrade {
        to: step("26.3.3", OLD, DriverUpgrades::Held),
        cause: Cause::Retry,
    };
    assert_eq!(case.plan(), Plan::Act(again));
}

#[test]
fn a_chart_that_never_worked_can_be_given_up() {
    let mut case = Case::ours(&[RevisionStatus::Failed]);
    case.recorded = None;
    case.desired = resolve(json!({ "chartVersion": "26.3.3" }));
    let older = Action::Upgrade {
        to: step("26.3.3", OLD, DriverUpgrades::AsConfigured),
        cause: Cause::Install,
    };
    assert_eq!(case.plan(), Plan::Act(older));
}

#[test]
fn the_driver_moves_into_its_object_in_three_steps_and_rolls_in_the_last() {
    assert_eq!(
        running("26.3.3", OLD).plan(),
        to("26.7.0", OLD, DriverUpgrades::Held)
    );
    assert_eq!(
        running("26.7.0", OLD).plan(),
        to("26.7.0", NEW, DriverUpgrades::Held)
    );
    assert_eq!(
        running("26.7.0", NEW).plan(),
        to("26.7.0", NEW, DriverUpgrades::AsConfigured)
    );
}

#[test]
fn without_a_driver_of_ours_there_is_nothing_to_move() {
    let mut case = running("26.3.3", OLD);
    case.desired = resolve(json!({ "driver": { "mode": "Preinstalled" } }));
    assert_eq!(case.plan(), to("26.7.0", NEW, DriverUpgrades::AsConfigured));
}

#[test]
fn a_step_waits_for_nvidias_controller_and_for_nothing_else() {
    let mut case = stuck("26.7.0", "26.3.3");
    case.observed.gpu_nodes = vec![fixtures::node("broken", 0)];
    let settled = NOW + SignedDuration::from_mins(1);
    let waits = |case: &Case, now| {
        matches!(
            case.plan_at(now),
            Plan::Wait {
                why: Wait::Step { .. },
                ..
            }
        )
    };

    assert!(waits(&case, settled));
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("notReady"))];
    case.observed.controller_runs = false;
    assert!(waits(&case, settled));
    case.observed.controller_runs = true;
    assert!(waits(&case, NOW), "the old controller may still lead");
    assert_eq!(case.plan_at(settled), to("26.7.0", NEW, DriverUpgrades::Held));
}

#[test]
fn drivers_roll_only_when_none_is_left_to_the_cluster_policy() {
    let mut case = stuck("26.7.0", "26.3.3");
    case.change_latest(|latest| latest.layout = Some(NEW));
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), Some("ready"))];
    case.observed.controller_runs = true;
    let driver_of = |owner: &str| DaemonSetFacts {
        terminating: false,
        name: "driver".to_owned(),
        desired: 1,
        ready: 1,
        updated: 1,
        driver: Some(DriverImage {
            uid: String::new(),
            owner: owner.to_owned(),
            image: String::new(),
        }),
    };
    let settled = NOW + SignedDuration::from_mins(1);
    case.observed.daemon_sets = vec![driver_of("cluster-policy"), driver_of("gardenlinux-precompiled")];
    assert!(matches!(
        case.plan_at(settled),
        Plan::Wait {
            why: Wait::Step { .. },
            ..
        }
    ));
    case.observed.daemon_sets.remove(0);
    assert_eq!(
        case.plan_at(settled),
        to("26.7.0", NEW, DriverUpgrades::AsConfigured)
    );
}

/// On the way at that chart, and NVIDIA's controller does not come up.
fn stuck(chart: &str, before: &str) -> Case {
    let mut case = running(chart, OLD);
    case.recorded.as_mut().unwrap().chart_version = before.to_owned();
    case.change_latest(|latest| latest.driver_upgrades = Some(DriverUpgrades::Held));
    case
}

#[test]
fn a_step_that_does_not_come_to_its_end_is_taken_again() {
    for (chart, before) in [("26.3.3", "25.10.1"), ("26.7.0", "26.3.3")] {
        let mut case = stuck(chart, before);
        let minutes = |minutes| NOW + SignedDuration::from_mins(minutes);
        assert!(matches!(case.plan_at(minutes(9)), Plan::Wait { .. }));
        let again = Plan::Act(Action::Upgrade {
            to: step(chart, OLD, DriverUpgrades::Held),
            cause: Cause::Retry,
        });
        assert_eq!(
            case.plan_at(minutes(10)),
            again,
            "the values may be others by now"
        );
        // Even then no driver is taken away from running work.
        let driver = resolve(json!({})).unwrap().driver_id;
        case.change_latest(|latest| latest.driver = Some(driver));
        case.observed.gpu_nodes = vec![fixtures::node("gpu-0", 1)];
        case.desired = resolve(json!({ "driver": { "mode": "Preinstalled" } }));
        assert_eq!(case.plan_at(minutes(10)), Plan::Read(Reading::GpuWork));
    }
}

#[test]
fn objects_are_put_right_while_a_step_is_waited_for() {
    for (chart, before) in [("26.3.3", "25.10.1"), ("26.7.0", "26.3.3")] {
        let mut case = stuck(chart, before);
        case.drift_mode = DriftMode::Correct;
        for crd in &case.desired.as_ref().unwrap().chart.crds {
            case.observed.crds.insert(crd.clone(), fixtures::crd(Some("d")));
        }
        assert!(matches!(case.plan(), Plan::ReadManifest { revision: 1, .. }));
        case.suspended = true;
        assert_eq!(case.plan(), Plan::Hold(Hold::Suspended));
    }
}

#[test]
fn an_installation_that_a_process_died_over_is_no_step_to_wait_for() {
    let mut case = running("26.7.0", NEW);
    case.recorded = None;
    assert_eq!(case.plan(), to("26.7.0", NEW, DriverUpgrades::AsConfigured));
}
