//! The operator is killed while helm works, with its helm or without it, and started again.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use e2e::wait::eventually;
use gpu_manager::api::State;
use rustix::process::Signal;
use serde_json::json;

use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP};

/// Waits until the newest revision has that status: helm is in the middle of its work.
pub async fn until_pending(lab: &Lab, status: &str) -> Result<()> {
    let what = format!("a revision that is {status}");
    let seen = eventually(&what, STEP, async || {
        let history = lab.history().await?;
        ensure!(
            history.last().is_some_and(|(_, found)| found == status),
            "{history:?}"
        );
        Ok(())
    });
    seen.await.with_context(|| lab.logs())
}

pub async fn kill(mut manager: Manager) -> Result<()> {
    manager.process.signal(Signal::KILL)?;
    manager.process.wait(STEP).await?;
    Ok(())
}

/// One release, deployed, and a history that helm can show. An old revision may stay pending for ever in it: helm looks at
/// the newest one only.
async fn ensure_in_order(lab: &Lab, helm: &WrappedHelm) -> Result<()> {
    let history = lab.history().await?;
    ensure!(
        history.last().is_some_and(|(_, status)| status == "deployed"),
        "{history:?}"
    );
    ensure!(
        history.iter().filter(|(_, status)| status == "deployed").count() == 1,
        "{history:?}"
    );
    let releases = lab.helm(&["list", "--all-namespaces", "--short"]).await?;
    ensure!(releases.trim() == "gpu-operator", "{releases}");
    println!("{}", lab.helm_release(&["history"], &[]).await?);
    helm.ensure_one_by_one()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_with_helm_during_the_first_install() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    helm.slow_down()?;
    let manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    until_pending(&lab, "pending-install").await?;
    kill(manager).await?;
    helm.kill()?;
    helm.let_go();
    ensure!(lab.history().await? == [(1, "pending-install".to_owned())]);

    let _manager = lab.manager_with(&helm).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(status.gpu_nodes.summary == "2/2", "{status:?}");
    ensure_in_order(&lab, &helm).await?;

    // What was recovered is a release like any other.
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until(State::Ready).await?;
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    ensure_in_order(&lab, &helm).await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_an_upgrade() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // Together with its helm: the revision stays pending and is freed.
    helm.slow_down()?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    until_pending(&lab, "pending-upgrade").await?;
    kill(manager).await?;
    helm.kill()?;
    helm.let_go();
    ensure!(lab.history().await?.last() == Some(&(2, "pending-upgrade".to_owned())));
    let manager = lab.manager_with(&helm).await?;
    lab.until(State::Ready).await?;
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let history = lab.history().await?;
    let last = history.last().context("no revision")?.0;
    ensure!(last == 4, "a rollback and an upgrade should follow: {history:?}");

    // Without its helm, which goes on: it is waited for, and its work counts.
    helm.slow_down()?;
    lab.apply(json!({})).await?;
    until_pending(&lab, "pending-upgrade").await?;
    kill(manager).await?;
    let changes = helm.changes().len();
    let manager = lab.manager_with(&helm).await?;
    lab.until(State::Ready).await?;
    let history = lab.history().await?;
    ensure!(
        history.last() == Some(&(last + 1, "deployed".to_owned())),
        "{history:?}"
    );
    ensure!(
        helm.changes().len() == changes,
        "helm ran again: {:?}",
        helm.changes()
    );
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "single");
    let log = manager.process.log();
    ensure!(
        log.contains("waited for the helm of an earlier operator"),
        "{log}"
    );
    ensure_in_order(&lab, &helm).await
}
