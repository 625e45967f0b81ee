//! Pods, Jobs and Deployments of a user.

use anyhow::{Result, ensure};
use e2e::cluster::FakeNode;
use gpu_manager::api::{ConditionType, State};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::team::Team;
use super::{administer, read, until_offered, until_ready};
use crate::lab::{Lab, STEP, reason};

/// The scheduler's words for a Pod that finds no GPU.
const NO_GPU: &str = "Insufficient nvidia.com/gpu";

#[tokio::test(flavor = "multi_thread")]
async fn pods_jobs_and_deployments_get_a_gpu_also_from_a_pool_at_zero() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    for node in ["gpu-0", "gpu-1"] {
        lab.cluster.delete_node(node).await?;
    }
    administer(&lab, "gpumodule-default.yaml").await?;
    lab.until_status("Ready without a GPU node", |status| {
        status.state == State::Ready && reason(status, ConditionType::OperandsReady) == "NoGpuNodes"
    })
    .await?;

    // The cluster autoscaler is not there; what it acts on is the scheduler's refusal.
    let team = Team::create(&lab, "team").await?;
    team.apply("pod.yaml").await?;
    let why = team.work.until_unschedulable("first-gpu", STEP).await?;
    ensure!(why.contains(NO_GPU), "{why}");
    let node = FakeNode::with_gpus("gpu-new", 3);
    lab.cluster.create_node(&node).await?;
    let node = team.until_runs("first-gpu").await?;
    ensure!(node == "gpu-new", "{node}");

    team.apply("deployment.yaml").await?;
    let nodes = team.until_available("inference").await?;
    ensure!(nodes == ["gpu-new"], "{nodes:?}");
    let pods = team
        .work
        .pods()
        .list(&ListParams::default().labels("app=inference"))
        .await?;
    ensure!(pods.iter().all(has_shared_memory), "{pods:?}");

    team.apply("job.yaml").await?;
    let nodes = team.until_complete("vector-add").await?;
    ensure!(nodes == ["gpu-new"], "{nodes:?}");
    Ok(())
}

fn has_shared_memory(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut mediums = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.medium.as_deref());
    mediums.any(|medium| medium == "Memory")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tainted_pool_takes_only_pods_that_tolerate_it() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let node = FakeNode::with_gpus("tainted-0", 1).pool("gpu-team");
    lab.cluster
        .create_node(&node.taint("workload", "gpu", "NoSchedule"))
        .await?;
    until_ready(&lab, "gpumodule-tainted-pool.yaml").await?;
    until_offered(&lab, "tainted-0", "nvidia.com/gpu", 1).await?;

    let team = Team::create(&lab, "team").await?;
    team.apply("pod-tainted-pool.yaml").await?;
    let node = team.until_runs("tolerant").await?;
    ensure!(node == "tainted-0", "{node}");

    let mut intolerant = read("pod-tainted-pool.yaml")?;
    intolerant["metadata"]["name"] = json!("intolerant");
    intolerant["spec"]["tolerations"] = Value::Null;
    team.apply_own(&intolerant).await?;
    let why = team.work.until_unschedulable("intolerant", STEP).await?;
    ensure!(why.contains("untolerated taint"), "{why}");
    Ok(())
}
