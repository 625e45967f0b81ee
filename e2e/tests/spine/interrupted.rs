//! What helm and the operator depend on goes away in the middle of the work, and comes back.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, Manager, Options};
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, State};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::killed::until_pending;
use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP, message};

fn mixed() -> Value {
    json!({ "values": { "mig": { "strategy": "mixed" } } })
}

/// What was asked for is there, in one release.
async fn ensure_mixed(lab: &Lab) -> Result<()> {
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let history = lab.history().await?;
    let deployed = history.iter().filter(|(_, status)| status == "deployed").count();
    ensure!(deployed == 1, "{history:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_stops_in_the_middle_of_an_upgrade() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let options = Options {
        // A longer absence ends a leader, as it must.
        lease_duration: 120,
        ..lab.options().with_helm(&helm.binary())
    };
    let mut manager = Manager::start(&lab.cluster, &options).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    helm.slow_down()?;
    lab.apply(mixed()).await?;
    until_pending(&lab, "pending-upgrade").await?;
    lab.cluster.stop_api_server();
    helm.let_go();
    eventually("helm to give up", STEP, async || {
        let log = manager.process.log();
        ensure!(
            log.contains("helm upgrade failed"),
            "{}",
            manager.process.log_tail()
        );
        Ok(())
    })
    .await?;
    lab.cluster.start_api_server().await?;
    lab.until(State::Ready).await?;
    ensure_mixed(&lab).await?;
    helm.ensure_one_by_one()?;
    manager.process.ensure_running()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_lost_during_a_helm_run() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let mut manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    helm.slow_down()?;
    lab.apply(mixed()).await?;
    until_pending(&lab, "pending-upgrade").await?;
    let leases = Api::<Lease>::namespaced(lab.cluster.client(), MANAGER);
    let stolen = json!({ "spec": { "holderIdentity": "somebody-else" } });
    leases
        .patch(MANAGER, &PatchParams::default(), &Patch::Merge(&stolen))
        .await?;
    let end = manager.process.wait(STEP).await?;
    ensure!(!end.success(), "a replica without the Lease ended well: {end}");
    helm.until_dead().await?;
    helm.let_go();

    // The thief never renews.
    let _next = Manager::start(
        &lab.cluster,
        &lab.options().with_helm(&helm.binary()).named("gpu-manager-1"),
    )
    .await?;
    lab.until(State::Ready).await?;
    ensure_mixed(&lab).await?;
    helm.ensure_one_by_one()
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_is_missing_from_one_moment_to_the_next() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let mut manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    let away = helm.binary().with_extension("away");
    std::fs::rename(helm.binary(), &away)?;
    lab.apply(mixed()).await?;
    let status = lab.until(State::Error).await?;
    let said = message(&status, ConditionType::Installed);
    ensure!(said.contains("there is no helm binary at"), "{said}");
    ensure!(status.next_attempt.is_some(), "{status:?}");
    std::fs::rename(&away, helm.binary())?;
    lab.until(State::Ready).await.context("after helm came back")?;
    ensure_mixed(&lab).await?;
    manager.process.ensure_running()
}
