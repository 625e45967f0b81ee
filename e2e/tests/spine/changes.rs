//! A changed spec reaches NVIDIA's objects; the two ways to tell the operator when to look.

use std::time::Duration;

use anyhow::{Result, ensure};
use gpu_manager::api::{ANNOTATION_RECONCILE_AT, ConditionType, LABEL_REVISION, State};
use serde_json::{Value, json};

use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, reason};

/// Nobody but NVIDIA's toolkit may read this.
const SECRET: &str = "sesame-open-4711";

#[tokio::test(flavor = "multi_thread")]
async fn values_and_the_driver_branch_reach_nvidias_objects() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    let default = lab.cluster_policy().await?["spec"]["mig"]["strategy"].clone();
    ensure!(default == "single", "the chart's default is {default}");

    let environment = json!([{ "name": "SECRET", "value": SECRET }]);
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" }, "toolkit": { "env": environment } } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    let policy = lab.cluster_policy().await?;
    ensure!(
        policy["spec"]["mig"]["strategy"] == "mixed",
        "{}",
        policy["spec"]["mig"]
    );
    ensure!(
        policy["spec"]["toolkit"].to_string().contains(SECRET),
        "{}",
        policy["spec"]["toolkit"]
    );
    let revisions = lab.revisions().await?;
    ensure!(revisions[1].labels[LABEL_REVISION] == "2", "{revisions:?}");

    lab.apply(json!({})).await?;
    lab.until_revision(3).await?;
    lab.until(State::Ready).await?;
    let policy = lab.cluster_policy().await?;
    ensure!(
        policy["spec"]["mig"]["strategy"] == default,
        "{}",
        policy["spec"]["mig"]
    );

    let log = manager.process.log();
    ensure!(!log.contains(SECRET), "a value is in the log");
    let changes = helm.changes();
    ensure!(
        !changes.concat().contains(SECRET),
        "a value is on a command line: {changes:?}"
    );

    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    lab.until_revision(4).await?;
    ensure!(lab.nvidia_driver().await?["spec"]["version"] == "590");
    lab.until_drivers_run(|pod| pod.image.contains(":590-")).await?;
    let status = lab
        .until_status("Ready with branch 590 everywhere", |status| {
            status.state == State::Ready && status.gpu_nodes.summary == "2/2"
        })
        .await?;
    ensure!(
        serde_json::to_value(&status)?["driver"]["branch"] == 590,
        "{:?}",
        status.driver
    );
    helm.ensure_one_by_one()
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcile_at_compares_at_once_and_suspend_holds_changes_back() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    let comparisons = || manager.process.log().matches("args=\"get metadata").count();
    let passes = || manager.process.log().matches("decided plan=").count();

    let before = comparisons();
    lab.annotate(ANNOTATION_RECONCILE_AT, "first").await?;
    let handled = |wanted: &'static str| {
        move |status: &gpu_manager::api::GpuModuleStatus| {
            status.last_handled_reconcile_at.as_deref() == Some(wanted)
        }
    };
    lab.until_status("the first annotation to be handled", handled("first"))
        .await?;
    ensure!(
        comparisons() == before + 1,
        "{} comparisons after {before}",
        comparisons()
    );
    ensure!(lab.history().await?.len() == 1);

    lab.apply(json!({ "suspend": true, "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    let status = lab.until_reason(ConditionType::Configured, "Suspended").await?;
    ensure!(status.state == State::Ready, "{status:?}");
    lab.annotate(ANNOTATION_RECONCILE_AT, "second").await?;
    lab.until_status("the second annotation to be handled", handled("second"))
        .await?;
    // A comparison is due now and cannot be made; that must not keep the operator busy.
    let before = passes();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = passes();
    ensure!(
        after - before <= 3,
        "{} passes in 3 s without any change",
        after - before
    );
    lab.helm_release(
        &["upgrade"],
        &[
            &lab.archive("26.7.0"),
            "--reuse-values",
            "--set=dcgmExporter.enabled=false",
        ],
    )
    .await?;
    lab.until_revision(2).await?;

    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until_revision(3).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(reason(&status, ConditionType::Configured) == "Configured");
    let values = lab.helm_values().await?;
    ensure!(values["mig"]["strategy"] == "mixed", "{values}");
    ensure!(values["dcgmExporter"]["enabled"] == Value::Null, "{values}");
    Ok(())
}
