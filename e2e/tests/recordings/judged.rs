//! What the operator makes of what NVIDIA's controller leaves in a cluster: the same reduction, the same judgement, without a server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use gpu_manager::api::{
    ConditionType, DeletionCrds, DriftMode, GpuModuleSpec, GpuModuleStatus, NodeFeatureDiscovery, State,
    condition,
};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired;
use gpu_manager::facts::{DaemonSetRole, History, Observed, OperandPods, ReleaseFacts};
use gpu_manager::nodes::NodeRules;
use gpu_manager::observe::reduce;
use gpu_manager::plan::{DriftState, Labelled, Plan, Protection, Waiting};
use gpu_manager::status::{self, Report, STARTING_LIMIT, Sightings};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use e2e::simulated::{Faults, View};

use super::input::{self, Recordings};
use super::{KERNEL, compare, driver_layout, policy_layout};

/// When the release was made.
const START: Timestamp = Timestamp::UNIX_EPOCH;

fn read<T: DeserializeOwned>(object: impl serde::Serialize) -> Result<T> {
    Ok(serde_json::from_value(json!(object))?)
}

/// The objects as the operator's watches reduce them.
fn observe(view: &View) -> Result<Observed> {
    let revision = reduce::revision(&read(json!({ "metadata": {
        "name": "sh.helm.release.v1.gpu-operator.v1", "uid": "u", "creationTimestamp": START,
        "labels": { "owner": "helm", "name": "gpu-operator", "version": "1", "status": "deployed" },
    } }))?);
    let mut pods = Vec::new();
    for pod in &view.pods {
        pods.extend(reduce::operand_pod(&read(pod)?));
    }
    let sets = view.daemon_sets.iter().filter_map(reduce::daemon_set);
    Ok(Observed {
        unread: Vec::new(),
        release: ReleaseFacts::Read(History::new(revision.into_iter().collect())),
        comparison: None,
        existing: None,
        surroundings: None,
        gpu_work: None,
        driver_upgrades: None,
        gpu_clusters: None,
        left: BTreeMap::new(),
        maintenance: None,
        gpu_nodes: view
            .nodes
            .iter()
            .filter_map(reduce::node)
            .filter(|node| node.shows_gpu)
            .collect(),
        former_gpu_nodes: Vec::new(),
        pools_without_gpu: BTreeMap::new(),
        missing_pull_secrets: None,
        operand_pods: Some(OperandPods::new(pods)),
        policies: view.cluster_policies.iter().map(reduce::policy).collect(),
        drivers: view.nvidia_drivers.iter().map(reduce::driver).collect(),
        daemon_sets: sets
            .filter_map(|role| match role {
                DaemonSetRole::OfRelease(set) => Some(set),
                DaemonSetRole::Beside(_) => None,
            })
            .collect(),
        neighbours: Vec::new(),
        controller_runs: true,
        crds: std::collections::BTreeMap::new(),
        objects: std::collections::BTreeMap::new(),
        kubernetes: "1.36".parse().map_err(|error| anyhow::anyhow!("{error}"))?,
    })
}

/// The status that the operator gives for these objects.
fn judge(
    view: &View,
    spec: Value,
    previous: Option<&GpuModuleStatus>,
    now: Timestamp,
) -> Result<GpuModuleStatus> {
    let spec: GpuModuleSpec = serde_json::from_value(spec)?;
    let catalogue = Catalogue::compiled_in()?;
    let desired = desired::resolve(&spec, &catalogue, NodeFeatureDiscovery::Module, &[])
        .map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    let observed = observe(view)?;
    let computed = status::compute(&Report {
        now,
        generation: 1,
        deleting: None,
        adopt: false,
        previous,
        desired: Ok(&desired),
        observed: &observed,
        plan: &Plan::Keep,
        deletion_crds: DeletionCrds::default(),
        removal_began: None,
        waiting: &Waiting::Nothing,
        protection: Protection::Nothing,
        failure: None,
        ended: &[],
        next_attempt: None,
        drift_mode: DriftMode::Correct,
        drift: &DriftState::default(),
        undeleted: &[],
        labelled: &Labelled::default(),
        rules: NodeRules {
            spec: None,
            driver: Some(&desired.driver),
            matrix: &catalogue.drivers,
        },
        sightings: &Sightings::default(),
        handled_reconcile_at: None,
    });
    Ok(computed.status)
}

fn reason(status: &GpuModuleStatus) -> &str {
    condition(status, ConditionType::OperandsReady).map_or("", |operands| operands.reason.as_str())
}

fn policy_spec() -> Value {
    json!({ "chartVersion": "26.3.3", "driver": { "branch": 590 } })
}

#[test]
fn recorded_clusters_in_which_all_is_well_are_ready() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    memory.settle(&Faults::default())?;
    let status = judge(&memory.view, policy_spec(), None, START)?;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Ready, "2/2"),
        "{status:?}"
    );

    let mut memory = driver_layout(&recordings, [KERNEL, "6.18.50-cloud-amd64"])?;
    input::set_branch(&mut memory, "580");
    memory.settle(&Faults::default())?;
    let status = judge(&memory.view, json!({}), None, START)?;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Ready, "2/2"),
        "{status:?}"
    );
    Ok(())
}

/// `clusterpolicy-ready.yaml` in a cluster that has lost its last GPU node says `ready`, and so it does when there never was one.
#[test]
fn a_ready_cluster_policy_without_nodes_means_no_gpu_nodes() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    memory.view.nodes.truncate(1);
    memory.view.cluster_policies = vec![serde_json::from_value(
        recordings.value("clusterpolicy-ready.yaml")?,
    )?];
    let status = judge(&memory.view, policy_spec(), None, START)?;
    assert_eq!((status.state, reason(&status)), (State::Ready, "NoGpuNodes"));
    Ok(())
}

/// `driver-pods-pending.yaml` beside the DaemonSets and the ClusterPolicy of that moment.
#[test]
fn recorded_driver_pods_that_do_not_start_are_the_missing_link() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    memory.view.cluster_policies = vec![serde_json::from_value(
        recordings.value("clusterpolicy-driver-not-ready.yaml")?,
    )?];
    for set in recordings.list("daemonsets-v26.3.3-gardenlinux.yaml")? {
        memory.view.daemon_sets.push(serde_json::from_value(set)?);
    }
    for pod in recordings.list("driver-pods-pending.yaml")? {
        memory.view.pods.push(serde_json::from_value(pod)?);
    }
    // The Pods did not start after the release was made, but at the time that they were recorded.
    let scheduled: Timestamp = "2026-11-30T08:26:45Z".parse()?;
    let status = judge(&memory.view, policy_spec(), None, START)?;
    assert_eq!(
        (status.state, reason(&status)),
        (State::Processing, "RollingOut"),
        "{status:?}"
    );
    let problem = status.worker_pools[0].problems.first().context("no problem")?;
    assert_eq!((problem.reason.as_str(), problem.nodes), ("DriverNotReady", 2));
    let status = judge(
        &memory.view,
        policy_spec(),
        Some(&status),
        scheduled + STARTING_LIMIT,
    )?;
    assert_eq!(
        (status.state, reason(&status)),
        (State::Error, "DriverNotReady"),
        "{status:?}"
    );
    Ok(())
}

/// ClusterPolicy said `ready` all the time while a node was cordoned for its driver (the last table of the recordings' README).
#[test]
fn a_ready_cluster_policy_hides_no_driver_change() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = driver_layout(&recordings, [KERNEL, KERNEL])?;
    let faults = Faults::default();
    input::set_branch(&mut memory, "580");
    memory.settle(&faults)?;
    input::set_branch(&mut memory, "590");
    compare::run_until(&mut memory, &faults, |row| row.counts == [2, 1, 2])?;
    memory.view.cluster_policies[0] =
        serde_json::from_value(recordings.value("clusterpolicy-v26.7.0-nvidiadriver-mode.yaml")?)?;
    let spec = json!({ "driver": { "branch": 590 } });
    let status = judge(&memory.view, spec.clone(), None, START)?;
    assert_eq!(
        (status.state, reason(&status)),
        (State::Processing, "DriverRollingOut"),
        "{status:?}"
    );
    assert!(
        status.description.contains("cordoned for it"),
        "{}",
        status.description
    );
    memory.settle(&faults)?;
    assert_eq!(judge(&memory.view, spec, None, START)?.state, State::Ready);
    Ok(())
}

/// With the driver switched off NVIDIA's operator says `ready`, whatever the nodes can do.
#[test]
fn a_ready_cluster_policy_without_a_driver_makes_no_node_usable() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    memory.view.cluster_policies = vec![serde_json::from_value(
        recordings.value("clusterpolicy-ready.yaml")?,
    )?];
    let spec = json!({ "chartVersion": "26.3.3", "driver": { "mode": "Preinstalled" } });
    let status = judge(&memory.view, spec.clone(), None, START)?;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Processing, "0/2"),
        "{status:?}"
    );
    let status = judge(&memory.view, spec, Some(&status), START + STARTING_LIMIT)?;
    assert_eq!(
        (status.state, reason(&status)),
        (State::Error, "NoAllocatableGpu"),
        "{status:?}"
    );
    Ok(())
}
