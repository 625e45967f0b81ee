//! The API server goes away and comes back.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, Manager, Options};
use e2e::wait::eventually;
use gpu_manager::api::State;
use serde_json::json;

use crate::lab::{Lab, STEP, http};

#[tokio::test(flavor = "multi_thread")]
async fn away_at_the_start_and_again_later() -> Result<()> {
    let lab = Lab::start().await?;
    let options = Options {
        // A restart of the API server is shorter than this; a longer one ends a leader, as it must.
        lease_duration: 60,
        ..lab.options()
    };
    let kubeconfig = lab
        .cluster
        .kubeconfig_for_service_account(MANAGER, MANAGER)
        .await?;

    lab.cluster.stop_api_server();
    let mut manager = Manager::start_with(&lab.cluster, &options, &kubeconfig)?;
    eventually("a first try that fails", STEP, async || {
        manager.process.ensure_running()?;
        let log = manager.process.log();
        ensure!(log.contains("trying again for the Lease"), "{log}");
        Ok(())
    })
    .await?;
    let (code, body) = http::get(manager.health, "/healthz").await?;
    ensure!(code == 200, "{code} {body}");
    lab.cluster.start_api_server().await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    lab.cluster.restart_api_server().await?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");

    // The watches came back too: a change by hand is noticed.
    let chart = lab.archive("26.7.0");
    lab.helm_release(
        &["upgrade"],
        &[&chart, "--reuse-values", "--set=mig.strategy=single"],
    )
    .await?;
    lab.until_revision(4).await?;
    lab.until(State::Ready).await?;
    manager
        .process
        .ensure_running()
        .context("the operator did not live through it")
}
