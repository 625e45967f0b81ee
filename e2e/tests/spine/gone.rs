//! A deletion leaves the cluster as it was before the install, whatever it meets.

mod again;
mod by_hand;
mod crds;
mod foreign;
mod interrupted;
mod kubectl;
mod moments;
mod namespace;
mod refused;
mod rights;
mod world;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::State;
use serde_json::json;

use crate::lab::Lab;
use crate::lab::wrapper::WrappedHelm;
use e2e::inventory::Inventory;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_quiet_cluster() -> Result<()> {
    let lab = Lab::start().await?;
    lab.label_as_user("gpu-0").await?;
    let _manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({ "chartVersion": "26.7.0" })).await?;
    lab.until(State::Ready).await?;
    lab.leave_lease().await?;
    let (seconds, steps) = lab.delete_and_watch().await?;
    for (begin, message) in steps {
        println!("{begin:6.2} s  {message}");
    }
    println!("{seconds:6.2} s  gone");
    before.ensure_is_back(&lab.cluster.client()).await
}

/// No hook can run, since no node takes its Pod, and NVIDIA's operator is dead, so that its finalizers stay.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_where_no_node_takes_pods_and_nvidias_operator_is_dead() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    helm.be_impatient()?;
    let _manager = lab.manager_with(&helm).await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({ "chartVersion": "26.7.0" })).await?;
    lab.until(State::Ready).await?;

    lab.nvidia.set_faults(|faults| faults.operator_dead = true);
    lab.add_finalizers("nvidia.com/cleanup").await?;
    let nodes = ["cpu-0", "gpu-0", "gpu-1"];
    for node in nodes {
        lab.cluster.kubectl(&["cordon", node]).await?;
    }
    lab.begin_to_delete().await?;
    // Nobody waits for a node that is gone either.
    lab.until_removal_tells("is being uninstalled").await?;
    lab.cluster.delete_node("gpu-1").await?;
    lab.until_gone().await?;
    let uninstalls: Vec<_> = helm.changes().into_iter().skip(1).collect();
    let without_hooks: Vec<_> = uninstalls
        .iter()
        .map(|args| args.contains("--no-hooks"))
        .collect();
    ensure!(without_hooks == [false, false, true], "{uninstalls:#?}");
    for node in &nodes[..2] {
        lab.cluster.kubectl(&["uncordon", node]).await?;
    }
    let is_its = |line: &str| line == "Node gpu-1 is gone" || line == "CSINode gpu-1 is gone";
    before.ensure_is_back_but_for(&lab.cluster.client(), is_its).await
}

/// The image of the hook cannot be pulled, both nodes are in a driver upgrade, one of them with a user's cordon, and the Secrets of the
/// release go in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_the_chart_before_in_a_driver_upgrade() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    helm.be_impatient()?;
    let _manager = lab.manager_with(&helm).await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    lab.until(State::Ready).await?;

    lab.cluster.kubectl(&["cordon", "gpu-1"]).await?;
    lab.begin_driver_upgrade(json!({ "chartVersion": "26.3.3" }))
        .await?;
    lab.hold_hooks().await?;
    let started = helm.changes().len();
    lab.begin_to_delete().await?;
    helm.until_started(started).await?;
    lab.until_hook_pod().await?;
    lab.delete_secrets().await?;
    lab.until_gone().await?;
    lab.ensure_cordoned("gpu-1", true).await?;
    lab.ensure_cordoned("gpu-0", false).await?;
    lab.cluster.kubectl(&["uncordon", "gpu-1"]).await?;
    lab.let_hooks_run().await?;
    before
        .ensure_is_back(&lab.cluster.client())
        .await
        .with_context(|| lab.logs())
}
