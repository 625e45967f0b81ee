//! Input that cannot work: a clear sentence, nothing broken, and healing once it is right.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{Manager, Options};
use e2e::wait::eventually;
use gpu_manager::api::{ANNOTATION_RECONCILE_AT, ConditionType, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use rustix::process::Signal;
use serde_json::json;

use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP, message, reason};

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_the_api_server_refuses() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;
    lab.apply(json!({ "values": { "mig": { "strategy": "bogus" } } }))
        .await?;
    let status = lab
        .until_reason(ConditionType::Installed, "InstallFailed")
        .await?;
    ensure!(status.state == State::Error, "{status:?}");
    let text = message(&status, ConditionType::Installed);
    ensure!(
        text.contains("spec.mig.strategy") && text.contains("bogus"),
        "{text}"
    );
    ensure!(text.lines().count() == 1 && text.len() < 700, "{text}");
    ensure!(
        status.description == format!("{text}; it is tried again"),
        "{}",
        status.description
    );

    // The next try comes after a pause of about five seconds, the one after that in ten.
    helm.until_started(1).await?;
    lab.until_reason(ConditionType::Installed, "InstallFailed")
        .await?;
    let tries = manager.process.log().matches("acting action=Upgrade").count();
    ensure!(tries <= 3, "{tries} tries");
    ensure!(lab.history().await?.len() <= 3, "{:?}", lab.history().await?);

    // A new spec is tried at once.
    lab.apply(json!({})).await?;
    eventually("a try without a pause", Duration::from_secs(4), async || {
        let now = manager.process.log().matches("acting action=Upgrade").count();
        ensure!(now > tries, "{now} tries");
        Ok(())
    })
    .await?;
    lab.until(State::Ready).await?;

    // On a running release nothing breaks.
    lab.apply(json!({ "values": { "mig": { "strategy": "bogus" } } }))
        .await?;
    let status = lab
        .until_reason(ConditionType::Installed, "UpgradeFailed")
        .await?;
    ensure!(
        status.state == State::Error && status.gpu_nodes.summary == "2/2",
        "{status:?}"
    );
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "single");
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    helm.ensure_one_by_one()
}

async fn stop(mut manager: Manager) -> Result<()> {
    manager.process.signal(Signal::TERM)?;
    let end = manager.process.wait(STEP).await?;
    ensure!(end.success(), "{end}: {}", manager.process.log_tail());
    Ok(())
}

async fn ensure_nothing_was_begun(lab: &Lab) -> Result<()> {
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    let namespace = namespaces.get_opt(RELEASE_NAMESPACE).await?;
    ensure!(namespace.is_none(), "{namespace:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogues_and_charts_that_do_not_fit() -> Result<()> {
    let lab = Lab::start().await?;

    // The cluster is older than the catalogue allows.
    let catalogue = lab.new_catalogue()?;
    catalogue.change("26.7.0", |chart| chart["minimumKubernetes"] = json!("1.99"))?;
    catalogue.change("26.3.3", |chart| chart["stage"] = json!("Retired"))?;
    let options = lab.options().with_catalogue(catalogue.path());
    let manager = Manager::start(&lab.cluster, &options).await?;
    lab.apply(json!({})).await?;
    let status = lab
        .until_reason(ConditionType::Configured, "UnsupportedKubernetes")
        .await?;
    let wanted = "Kubernetes 1.36 is older than 1.99, which chart 26.7.0 needs, upgrade the cluster";
    ensure!(
        status.state == State::Warning && status.description == wanted,
        "{status:?}"
    );

    // A version that was once offered.
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    let status = lab
        .until_reason(ConditionType::Configured, "RetiredChartVersion")
        .await?;
    ensure!(
        status.description.ends_with("use one of 26.7.0"),
        "{}",
        status.description
    );
    ensure_nothing_was_begun(&lab).await?;
    stop(manager).await?;

    charts(&lab).await
}

/// No chart, a wrong one, the right one.
async fn charts(lab: &Lab) -> Result<()> {
    let folder = lab.cluster.dir().join("charts");
    std::fs::create_dir(&folder)?;
    let options = Options {
        charts: folder.clone(),
        ..lab.options()
    };
    let mut manager = Manager::start(&lab.cluster, &options).await?;
    lab.apply(json!({})).await?;
    let status = lab.until_reason(ConditionType::Installed, "ChartMissing").await?;
    ensure!(status.state == State::Error, "{status:?}");
    let text = message(&status, ConditionType::Installed);
    ensure!(
        text.contains("holds no chart archive, check --charts-dir"),
        "{text}"
    );

    let archive = lab.charts.archive("26.7.0");
    let name = archive.file_name().context("no file name")?;
    let mut content = std::fs::read(&archive)?;
    content.push(b'\n');
    replace(&folder.join(name), &content)?;
    lab.annotate(ANNOTATION_RECONCILE_AT, "another chart").await?;
    let status = lab
        .until_reason(ConditionType::Installed, "ChartDigestMismatch")
        .await?;
    let text = message(&status, ConditionType::Installed);
    ensure!(
        text.contains("SHA-256") && text.contains("replace it by NVIDIA's release"),
        "{text}"
    );

    content.pop();
    replace(&folder.join(name), &content)?;
    lab.annotate(ANNOTATION_RECONCILE_AT, "the right chart").await?;
    let status = lab.until(State::Ready).await?;
    ensure!(reason(&status, ConditionType::Installed) == "Installed");
    manager.process.ensure_running()
}

/// The operator never sees half a file.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, content)?;
    Ok(std::fs::rename(new, path)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcile_at_ends_the_pause_after_failures() -> Result<()> {
    let lab = Lab::start().await?;
    let folder = lab.cluster.dir().join("no-charts");
    std::fs::create_dir(&folder)?;
    let options = Options {
        charts: folder,
        ..lab.options()
    };
    let manager = Manager::start(&lab.cluster, &options).await?;
    let tries = || manager.process.log().matches("acting action=Upgrade").count();
    lab.apply(json!({})).await?;
    // The pause after the second failure is at least eight seconds.
    let paused = eventually("the second try", STEP, async || {
        ensure!(tries() >= 2, "{} tries", tries());
        Ok(tries())
    });
    let before = paused.await.with_context(|| lab.logs())?;
    lab.annotate(ANNOTATION_RECONCILE_AT, "now").await?;
    eventually("a try without a pause", Duration::from_secs(4), async || {
        ensure!(tries() > before, "{} tries", tries());
        Ok(())
    })
    .await
}
