//! From one chart version to the next, and what is refused while a release runs.

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{ConditionType, GpuModuleStatus, State};
use serde_json::{Value, json};

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn to_the_next_chart_version_and_not_back() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(status.gpu_nodes.summary == "2/2", "{status:?}");
    let release = status.release.context("no release")?;
    ensure!(
        release.chart_version == "26.3.3" && release.revision == 1,
        "{release:?}"
    );
    let driver = lab.cluster_policy().await?["spec"]["driver"].clone();
    ensure!(
        driver["version"] == "580" && driver["usePrecompiled"] == true,
        "{driver}"
    );
    ensure!(driver["useNvidiaDriverCRD"] != true, "{driver}");
    ensure!(lab.nvidia_driver().await.is_err(), "there is an NVIDIADriver");

    let drivers = lab.running_drivers().await?;
    lab.apply(json!({})).await?;
    // The new chart with the old layout, the new layout with held drivers, and the rest.
    for revision in 2..=4 {
        lab.until_revision(revision).await?;
    }
    // The nodes work on with the old driver for a moment; the names are those of DaemonSets that an NVIDIADriver makes.
    lab.until_drivers_run(|pod| pod.app.starts_with("nvidia-gpu-driver-"))
        .await?;
    let status = lab
        .until_status("Ready with chart 26.7.0", |status| {
            status.state == State::Ready
                && status.gpu_nodes.summary == "2/2"
                && status
                    .release
                    .as_ref()
                    .is_some_and(|release| release.chart_version == "26.7.0")
        })
        .await?;
    let revisions = lab.history().await?;
    ensure!(
        revisions
            .iter()
            .all(|(_, state)| state == "superseded" || state == "deployed"),
        "{revisions:?}"
    );
    ensure!(status.release.as_ref().context("no release")?.revision == 4);
    lab.ensure_drivers_outlived(&drivers, 4)?;
    ensure!(lab.cluster_policy().await?["spec"]["driver"]["useNvidiaDriverCRD"] == true);
    let driver = lab.nvidia_driver().await?;
    ensure!(driver["spec"]["version"] == "580", "{}", driver["spec"]);

    refusals(&lab, &status).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    let now = lab.history().await?;
    ensure!(now == revisions, "{now:?}");
    Ok(())
}

/// Each of these leaves the running release alone.
async fn refusals(lab: &Lab, before: &GpuModuleStatus) -> Result<()> {
    let revisions = lab.history().await?;
    let large: String = "x".repeat(300 * 1024);
    let refused: [(Value, &str, &str); 7] = [
        (
            json!({ "chartVersion": "26.3.3" }),
            "DowngradeRefused",
            "chart 26.7.0 is installed and cannot go back to 26.3.3",
        ),
        (
            json!({ "chartVersion": "26.9.9" }),
            "UnknownChartVersion",
            "use one of 26.7.0, 26.3.3",
        ),
        (
            json!({ "chartVersion": "25.10.1" }),
            "RetiredChartVersion",
            "use one of 26.7.0, 26.3.3",
        ),
        (
            json!({ "values": { "driver": { "version": "590" } } }),
            "OwnedValue",
            "spec.values.driver is set by the module",
        ),
        (
            json!({ "values": { "operator": { "upgradeCRD": true } } }),
            "OwnedValue",
            "spec.values.operator.upgradeCRD is set by the module",
        ),
        (
            json!({ "values": { "daemonsets": { "labels": { "a": "{{ lookup }}" } } } }),
            "TemplateText",
            "which Helm would execute",
        ),
        (
            json!({ "values": { "dcgmExporter": { "note": large } } }),
            "ValuesTooLarge",
            "shorten spec.values",
        ),
    ];
    for (spec, reason, text) in refused {
        lab.apply(spec).await?;
        let status = lab.until_reason(ConditionType::Configured, reason).await?;
        ensure!(status.state == State::Warning, "{reason}: {status:?}");
        ensure!(status.description.contains(text), "{}", status.description);
        ensure!(status.gpu_nodes.total == 2, "{reason}: {:?}", status.gpu_nodes);
        ensure!(status.release == before.release, "{reason}: {:?}", status.release);
        let now = lab.history().await?;
        ensure!(now == revisions, "{reason}: {now:?}");
    }
    Ok(())
}
