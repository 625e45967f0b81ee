//! A deletion leaves the cluster as it was before the install.

mod crds;
mod inventory;

use anyhow::{Result, ensure};
use e2e::simulated::Where;
use e2e::wait::eventually;
use gpu_manager::api::State;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use crate::lab::{Lab, STEP};
use inventory::Inventory;

/// A key of NVIDIA's that a user has set on a node, and its value.
const OF_USER: (&str, &str) = ("nvidia.com/device-plugin.config", "team-a");

/// Sets a user's label on a node.
async fn label_by_hand(lab: &Lab, node: &str) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { OF_USER.0: OF_USER.1 } } });
    let params = PatchParams {
        field_manager: Some("kubectl-label".to_owned()),
        ..PatchParams::default()
    };
    let nodes = Api::<Node>::all(lab.cluster.client());
    nodes.patch(node, &params, &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Installs a chart and deletes the module again.
async fn comes_and_goes(chart: &str) -> Result<()> {
    let lab = Lab::start().await?;
    label_by_hand(&lab, "gpu-0").await?;
    let _manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({ "chartVersion": chart })).await?;
    lab.until(State::Ready).await?;
    let started = std::time::Instant::now();
    lab.delete().await?;
    println!("chart {chart}: gone within {:?}", started.elapsed());
    before.ensure_is_back(&lab.cluster.client()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_newest_chart_nothing_is_left() -> Result<()> {
    comes_and_goes("26.7.0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_chart_before_nothing_is_left() -> Result<()> {
    comes_and_goes("26.3.3").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_upgrade_under_way_leaves_no_cordon() -> Result<()> {
    let lab = Lab::start().await?;
    let mut manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    // A driver whose image does not exist: its first node stays cordoned.
    lab.nvidia
        .set_faults(|faults| faults.driver_crash_loop = Where::Everywhere);
    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    let nodes = Api::<Node>::all(lab.cluster.client());
    eventually("a cordoned node", STEP, async || {
        let all = nodes.list(&kube::api::ListParams::default()).await?;
        let cordoned = |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        ensure!(all.iter().any(cordoned), "no node is cordoned");
        Ok(())
    })
    .await?;
    // The operator dies in the middle, and the next one goes on.
    lab.modules
        .delete(gpu_manager::api::MODULE_NAME, &kube::api::DeleteParams::default())
        .await?;
    eventually("the removal to have begun", STEP, async || {
        use kube::ResourceExt as _;
        let module = lab.modules.get_opt(gpu_manager::api::MODULE_NAME).await?;
        let begun = module.is_none_or(|module| {
            module
                .annotations()
                .contains_key(gpu_manager::api::ANNOTATION_REMOVAL)
        });
        ensure!(begun, "no annotation");
        Ok(())
    })
    .await?;
    manager.process.signal(Signal::KILL)?;
    manager.process.wait(STEP).await?;
    let _again = lab.manager().await?;
    lab.until_gone().await?;
    before.ensure_is_back(&lab.cluster.client()).await
}
