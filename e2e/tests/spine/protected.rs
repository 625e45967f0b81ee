//! Running GPU work holds a deletion, and everything else goes on meanwhile.

use anyhow::{Result, ensure};
use e2e::cluster::FakeNode;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, MODULE_NAME, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use rustix::process::Signal;
use serde_json::json;

use crate::lab::{Lab, STEP, message, reason};
use crate::work::Busy;

/// A module that is being deleted while a Pod uses a GPU.
async fn held(lab: Lab) -> Result<Busy> {
    let busy = Busy::begin(lab).await?;
    busy.lab
        .modules
        .delete(MODULE_NAME, &DeleteParams::default())
        .await?;
    until_held(&busy.lab).await?;
    Ok(busy)
}

async fn until_held(lab: &Lab) -> Result<()> {
    let status = lab
        .until_status("a deletion that is held", |status| {
            status.state == State::Warning && reason(status, ConditionType::Deleted) == "WorkloadsUsingGpu"
        })
        .await?;
    let text = message(&status, ConditionType::Deleted);
    ensure!(
        text.starts_with("1 Pod uses a GPU in namespace team (team/train), so the module, whose deletion was asked for at 20"),
        "{text}"
    );
    ensure!(status.description == text, "{}", status.description);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_is_held_by_a_gpu_pod_also_beyond_a_restart() -> Result<()> {
    let lab = Lab::start().await?;
    let mut manager = lab.ready().await?;
    let busy = held(lab).await?;
    let lab = &busy.lab;

    // Somebody's change is put right, and a new node gets its driver.
    let maps = Api::<ConfigMap>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let name = "gpu-operator-node-feature-discovery-worker-conf";
    maps.delete(name, &DeleteParams::default()).await?;
    eventually("the ConfigMap to be back", STEP, async || {
        maps.get(name).await?;
        Ok(())
    })
    .await?;
    lab.cluster.create_node(&FakeNode::with_gpus("gpu-2", 1)).await?;
    lab.until_status("three usable nodes", |status| status.gpu_nodes.usable == 3)
        .await?;
    // Another chart or driver is not installed any more.
    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    until_held(lab).await?;

    manager.process.signal(Signal::KILL)?;
    manager.process.wait(STEP).await?;
    let _again = lab.manager().await?;
    until_held(lab).await?;
    ensure!(lab.history().await? == [(1, "deployed".to_owned())]);
    busy.ensure_runs().await?;

    busy.end().await?;
    lab.until_gone().await?;
    ensure!(lab.history().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_can_have_running_work_ignored() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let busy = held(lab).await?;
    busy.lab
        .apply(json!({ "deletion": { "workloads": "Ignore" } }))
        .await?;
    busy.lab.until_gone().await?;
    ensure!(busy.lab.history().await?.is_empty());
    Ok(())
}
