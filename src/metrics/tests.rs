//! The exposition as a whole, and what must hold between two scrapes.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;
use crate::api::{GpuCounts, GpuModule, WorkerPoolStatus};

fn labels(chart_version: &str) -> ReleaseLabels {
    ReleaseLabels {
        chart_version: chart_version.to_owned(),
        app_version: format!("v{chart_version}"),
        driver_branch: "580".to_owned(),
    }
}

fn pool(name: &str) -> WorkerPoolStatus {
    WorkerPoolStatus {
        name: name.to_owned(),
        nodes: 3,
        participating: 3,
        usable: 2,
        gpus: GpuCounts {
            capacity: 12,
            allocatable: 8,
        },
        ..WorkerPoolStatus::default()
    }
}

/// The exposition's samples whose name starts with `prefix`.
fn samples(metrics: &Metrics, prefix: &str) -> Vec<String> {
    metrics
        .encode()
        .lines()
        .filter(|line| line.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

/// The exposition with the samples of each family in a fixed order; buckets keep theirs.
fn sorted(metrics: &Metrics) -> String {
    let exposition = metrics.encode();
    let lines: Vec<&str> = exposition.lines().collect();
    let is_comment = |line: &str| line.starts_with('#');
    let mut blocks: Vec<Vec<&str>> = lines
        .chunk_by(|one, two| is_comment(one) == is_comment(two))
        .map(<[&str]>::to_vec)
        .collect();
    for block in blocks.iter_mut().filter(|block| !is_comment(block[0])) {
        block.sort_by_key(|line| match line.split_once("le=\"") {
            Some((name, rest)) => (
                name,
                rest.split_once(',').map(|(_, labels)| labels.split('}').next()),
            ),
            None => (*line, None),
        });
    }
    blocks.concat().join("\n")
}

#[test]
fn a_fresh_process_exposes_only_what_it_knows() {
    insta::assert_snapshot!(sorted(&Metrics::new()));
}

#[test]
fn everything_has_its_place_in_the_exposition() {
    let metrics = Metrics::new();
    metrics.set_module(Some(State::Processing));
    metrics.set_release(Some(&labels("26.3.3")));
    metrics.record_helm(
        HelmOperation::Install,
        HelmResult::Failure,
        Duration::from_millis(1_500),
    );
    metrics.record_helm(
        HelmOperation::Install,
        HelmResult::Success,
        Duration::from_secs(45),
    );
    metrics.record_helm(
        HelmOperation::Uninstall,
        HelmResult::Timeout,
        Duration::from_hours(1),
    );
    metrics.set_gpu_nodes(Some((3, 2)));
    metrics.families().pools.show(&[pool("gpu")]);
    metrics.set_driver_change(Timestamp::from_second(1_800_000_000).ok());
    metrics.set_deletion(Some((Timestamp::from_second(1_800_000_001).unwrap(), true)));
    metrics.set_last_success(Timestamp::from_millisecond(1_800_000_000_250).unwrap());
    metrics.set_leader(true);
    metrics.record_correction("Deployment");
    metrics
        .api_requests()
        .get_or_create(&Verb::Watch.into())
        .inc_by(7);
    insta::assert_snapshot!(sorted(&metrics));
}

#[test]
fn exactly_one_state_holds_or_none() {
    let metrics = Metrics::new();
    let holding = || {
        let all = samples(&metrics, "gpu_manager_module_state{");
        assert_eq!(all.len(), State::ALL.len());
        all.into_iter()
            .filter(|line| line.ends_with(" 1"))
            .collect::<Vec<_>>()
    };
    assert!(holding().is_empty());
    for state in State::ALL {
        metrics.set_module(Some(state));
        assert_eq!(
            holding(),
            [format!(
                "gpu_manager_module_state{{state=\"{}\"}} 1",
                state.as_str()
            )]
        );
    }
    metrics.set_module(None);
    assert!(holding().is_empty());
}

#[test]
fn a_worker_pool_that_is_gone_has_no_samples() {
    let metrics = Metrics::new();
    let show = |pools: &[WorkerPoolStatus]| {
        metrics.families().pools.show(pools);
        samples(&metrics, "gpu_manager_pool_gpu_nodes_usable")
    };
    assert_eq!(show(&[pool("a"), pool("b")]).len(), 2);
    let left = r#"gpu_manager_pool_gpu_nodes_usable{pool="b"} 2"#;
    assert_eq!(show(&[pool("b")]), [left]);
    assert!(show(&[]).is_empty());
}

/// The worker pools for which `one < other` holds.
fn pools_below(metrics: &Metrics, one: &str, other: &str) -> Vec<String> {
    let values = |name: &str| -> BTreeMap<String, i64> {
        let samples = samples(metrics, &format!("{name}{{"));
        let samples = samples.iter().filter_map(|line| line.rsplit_once(' '));
        samples
            .map(|(series, value)| (series[name.len()..].to_owned(), value.parse().unwrap()))
            .collect()
    };
    let other = values(other);
    let below = |(pool, value): &(String, i64)| other.get(pool).is_some_and(|other| value < other);
    let pools = values(one).into_iter().filter(below);
    pools.map(|(pool, _)| pool).collect()
}

#[test]
fn the_alert_of_the_documentation_fires_for_pools_in_trouble_and_for_none_that_is_left_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/user/01-20-monitoring.md");
    let mut code = page.split('`').skip(1).step_by(2);
    let alert = code.find_map(|code| code.split_once(" < ").filter(|(one, _)| one.contains("_pool_")));
    let (usable, taking_part) = alert.unwrap();
    for (sample, expected) in [
        ("ready-pool-excluded", vec![]),
        ("error-nodes", vec![r#"{pool="gpu"}"#]),
    ] {
        let sample = read(&format!("e2e/tests/busola/samples/{sample}.yaml"));
        let module: GpuModule = serde_saphyr::from_str(&sample).unwrap();
        let metrics = Metrics::new();
        metrics.show(module.status.as_ref(), None);
        assert!(!samples(&metrics, &format!("{taking_part}{{")).is_empty());
        assert_eq!(pools_below(&metrics, usable, taking_part), expected, "{sample}");
    }
}

#[test]
fn a_new_release_replaces_the_old_labels() {
    let metrics = Metrics::new();
    metrics.set_release(Some(&labels("26.3.3")));
    metrics.set_release(Some(&labels("26.7.0")));
    let expected =
        r#"gpu_manager_release_info{chart_version="26.7.0",app_version="v26.7.0",driver_branch="580"} 1"#;
    assert_eq!(samples(&metrics, "gpu_manager_release_info"), [expected]);
    metrics.set_release(None);
    assert!(samples(&metrics, "gpu_manager_release_info").is_empty());
}

#[test]
fn a_driver_change_that_no_longer_waits_has_no_time() {
    let metrics = Metrics::new();
    let since = || samples(&metrics, "gpu_manager_driver_change_pending_since");
    metrics.set_driver_change(Timestamp::from_second(7).ok());
    assert_eq!(
        since(),
        ["gpu_manager_driver_change_pending_since_timestamp_seconds 7"]
    );
    metrics.show(None, None);
    assert!(since().is_empty());
}

#[test]
fn without_a_module_no_node_count_stays() {
    let metrics = Metrics::new();
    metrics.set_gpu_nodes(Some((3, 2)));
    assert_eq!(samples(&metrics, "gpu_manager_gpu_nodes").len(), 2);
    metrics.show(None, None);
    assert!(samples(&metrics, "gpu_manager_gpu_nodes").is_empty());
}

#[test]
fn a_deletion_is_held_by_what_only_others_can_end() {
    let metrics = Metrics::new();
    let deletion = || samples(&metrics, "gpu_manager_deletion");
    assert!(deletion().is_empty());
    for (reason, held) in [("WorkloadsUsingGpu", 1), ("WorkUnreadable", 1), ("Removing", 0)] {
        let mut status = crate::status::unreadable("", 1, None, Timestamp::UNIX_EPOCH);
        status.conditions = vec![Condition {
            type_: ConditionType::Deleted.as_str().to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(Timestamp::from_second(7).unwrap()),
            observed_generation: None,
        }];
        // Not when that was first written down.
        metrics.show(Some(&status), Timestamp::from_second(5).ok());
        let mut shown = deletion();
        shown.sort();
        assert_eq!(
            shown,
            [
                format!("gpu_manager_deletion_held {held}"),
                "gpu_manager_deletion_since_timestamp_seconds 5".to_owned()
            ]
        );
    }
    metrics.show(None, None);
    assert!(deletion().is_empty());
}
