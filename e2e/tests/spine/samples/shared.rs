//! GPUs that Pods share, and partitions. What a node then offers is simulated, as NVIDIA's device plugin documents it; that Pods
//! get it is the real scheduler's work.

use anyhow::{Result, ensure};
use e2e::cluster::FakeNode;
use kube::ResourceExt as _;

use super::team::Team;
use super::{until_offered, until_ready};
use crate::lab::{Lab, STEP};

#[tokio::test(flavor = "multi_thread")]
async fn four_pods_share_one_gpu() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    lab.cluster.delete_node("gpu-1").await?;
    until_ready(&lab, "gpumodule-shared.yaml").await?;
    let node = until_offered(&lab, "gpu-0", "nvidia.com/gpu", 4).await?;
    let labels = node.labels();
    for (label, value) in [
        ("nvidia.com/gpu.count", "1"),
        ("nvidia.com/gpu.replicas", "4"),
        ("nvidia.com/gpu.product", "Tesla-T4-SHARED"),
        ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
    ] {
        ensure!(
            labels.get(label).is_some_and(|found| found == value),
            "{label}: {labels:?}"
        );
    }

    let team = Team::create(&lab, "team").await?;
    team.apply("deployment-shared.yaml").await?;
    let nodes = team.until_available("shared-inference").await?;
    ensure!(nodes == ["gpu-0"; 4], "{nodes:?}");
    team.apply("pod.yaml").await?;
    let why = team.work.until_unschedulable("first-gpu", STEP).await?;
    ensure!(why.contains("Insufficient nvidia.com/gpu"), "{why}");

    // Without sharing, Pods that have a GPU keep it.
    until_ready(&lab, "gpumodule-default.yaml").await?;
    until_offered(&lab, "gpu-0", "nvidia.com/gpu", 1).await?;
    let nodes = team.until_available("shared-inference").await?;
    ensure!(nodes == ["gpu-0"; 4], "{nodes:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_a_partition() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let node = FakeNode::with_gpus("mig-0", 1)
        .pool("gpu-mig")
        .instance_type("p4d.24xlarge")
        .product("NVIDIA-A100-SXM4-40GB");
    lab.cluster.create_node(&node).await?;
    until_ready(&lab, "gpumodule-mig.yaml").await?;
    until_offered(&lab, "mig-0", "nvidia.com/gpu", 1).await?;

    let team = Team::create(&lab, "team").await?;
    team.apply("pod-mig.yaml").await?;
    let why = team.work.until_unschedulable("partition", STEP).await?;
    ensure!(why.contains("Insufficient nvidia.com/mig-1g.5gb"), "{why}");

    let layout = "nvidia.com/mig.config=all-1g.5gb";
    lab.cluster
        .kubectl(&["label", "node", "mig-0", "--overwrite", layout])
        .await?;
    let node = team.until_runs("partition").await?;
    ensure!(node == "mig-0", "{node}");
    until_offered(&lab, "mig-0", "nvidia.com/mig-1g.5gb", 7).await?;
    until_offered(&lab, "mig-0", "nvidia.com/gpu", 0).await?;
    Ok(())
}
