//! Two replicas and one Lease: only one acts, and the other takes over.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, Manager, Options};
use e2e::wait::eventually;
use gpu_manager::api::{LABEL_BY, State};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::killed::until_pending;
use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP, http};

/// Seconds after which the Lease of a silent replica passes on.
const LEASE: u64 = 12;

async fn holder(lab: &Lab) -> Result<String> {
    let leases = Api::<Lease>::namespaced(lab.cluster.client(), MANAGER);
    let spec = leases.get(MANAGER).await?.spec.context("no spec")?;
    Ok(spec.holder_identity.unwrap_or_default())
}

async fn until_holder(lab: &Lab, name: &str) -> Result<()> {
    let what = format!("{name} to hold the Lease");
    let seen = eventually(&what, STEP, async || {
        let holder = holder(lab).await?;
        ensure!(holder == name, "{holder} holds it");
        Ok(())
    });
    seen.await.with_context(|| lab.logs())
}

async fn ensure_ready(manager: &Manager) -> Result<()> {
    let (code, body) = eventually("an answer", STEP, async || {
        http::get(manager.health, "/readyz").await
    })
    .await?;
    ensure!(code == 200, "{code} {body}");
    Ok(())
}

/// Who made the newest revision.
async fn author(lab: &Lab) -> Result<String> {
    let latest = lab.revisions().await?.pop().context("no revision")?;
    Ok(latest.labels[LABEL_BY].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_lease_acts() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let options = |name: &str| Options {
        lease_duration: LEASE,
        ..lab.options().with_helm(&helm.binary()).named(name)
    };
    let mut first = Manager::start(&lab.cluster, &options("gpu-manager-a")).await?;
    until_holder(&lab, "gpu-manager-a").await?;
    let mut second = Manager::start(&lab.cluster, &options("gpu-manager-b")).await?;
    ensure_ready(&second).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    ensure!(author(&lab).await? == "gpu-manager-a");
    ensure!(holder(&lab).await? == "gpu-manager-a");
    ensure!(
        !second.process.log().contains("decided"),
        "the waiting replica decides"
    );

    // SIGTERM in the middle of an upgrade: helm is stopped, the Lease passes on at once, the other one goes on.
    helm.slow_down()?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    until_pending(&lab, "pending-upgrade").await?;
    let told = Instant::now();
    first.process.signal(Signal::TERM)?;
    let end = first.process.wait(STEP).await?;
    helm.let_go();
    ensure!(end.success(), "{end}: {}", first.process.log_tail());
    until_holder(&lab, "gpu-manager-b").await?;
    let passed_on = told.elapsed();
    println!("the Lease passed on {passed_on:?} after SIGTERM");
    ensure!(passed_on < Duration::from_secs(LEASE), "{passed_on:?}");
    lab.until(State::Ready).await?;
    ensure!(author(&lab).await? == "gpu-manager-b");
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let history = lab.history().await?;
    let statuses: Vec<_> = history.iter().map(|(_, status)| status.as_str()).collect();
    ensure!(statuses == ["superseded", "failed", "deployed"], "{history:?}");

    // SIGKILL: after the expiry.
    let third = Manager::start(&lab.cluster, &options("gpu-manager-c")).await?;
    ensure_ready(&third).await?;
    let killed = Instant::now();
    second.process.signal(Signal::KILL)?;
    second.process.wait(STEP).await?;
    until_holder(&lab, "gpu-manager-c").await?;
    println!("the Lease passed on {:?} after SIGKILL", killed.elapsed());
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    ensure!(author(&lab).await? == "gpu-manager-c");
    ensure!(lab.history().await?.last() == Some(&(4, "deployed".to_owned())));
    helm.ensure_one_by_one()
}
