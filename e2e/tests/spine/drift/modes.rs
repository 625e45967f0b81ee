//! `spec.drift.mode` and `spec.suspend`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, State};
use gpu_manager::drift::ObjectRef;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::objects::Objects;
use crate::lab::{Lab, STEP, message, reason};

/// A time in which the operator would have reacted.
const REACTION: Duration = Duration::from_secs(3);

async fn data(objects: &Objects, object: &ObjectRef) -> Result<Value> {
    let live = objects.get(object).await?.context("missing")?;
    Ok(live.data["data"]["extra"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_reported_or_ignored_as_wanted() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.manager().await?;
    lab.apply(json!({ "drift": { "mode": "Report" } })).await?;
    lab.until(State::Ready).await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    let objects = Objects::of(&lab).await?;
    let conf = objects.find("ConfigMap", "gpu-operator-node-feature-discovery-master-conf")?;
    let extra = |value: &str| json!({ "data": { "extra": value } });

    // Reported, and nothing is written.
    let start = lab.cluster.audit().mark()?;
    objects.patch(&conf, "somebody", &extra("1")).await?;
    let status = lab.until_reason(ConditionType::Drifted, "DriftFound").await?;
    ensure!(status.state == State::Warning, "{status:#?}");
    let told = message(&status, ConditionType::Drifted);
    ensure!(
        told.contains(&format!("{conf} (data.extra, by somebody)")),
        "{told}"
    );
    ensure!(status.description == told, "{}", status.description);
    let driver = objects.find("NVIDIADriver", "gardenlinux-precompiled")?;
    objects.delete(&driver).await?;
    let what = "the missing object to be told";
    lab.until_status(what, |status| {
        message(status, ConditionType::Drifted).contains("NVIDIADriver gardenlinux-precompiled (missing)")
    })
    .await?;
    let changes = lab.changes_since(start)?;
    ensure!(changes.is_empty(), "{changes:#?}");

    // Corrected once that is wanted.
    lab.apply(json!({})).await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    ensure!(data(&objects, &conf).await?.is_null());
    ensure!(objects.get(&driver).await?.is_some());

    // Suspended: nothing is written, but it is told.
    lab.apply(json!({ "suspend": true })).await?;
    lab.until_reason(ConditionType::Configured, "Suspended").await?;
    let start = lab.cluster.audit().mark()?;
    objects.patch(&conf, "somebody", &extra("2")).await?;
    let what = "drift to be told while suspended";
    let status = lab
        .until_status(what, |status| {
            message(status, ConditionType::Drifted).contains("data.extra")
        })
        .await?;
    ensure!(
        reason(&status, ConditionType::Configured) == "Suspended",
        "{status:#?}"
    );
    sleep(REACTION).await;
    ensure!(data(&objects, &conf).await? == "2");
    let changes = lab.changes_since(start)?;
    ensure!(changes.is_empty(), "{changes:#?}");
    lab.apply(json!({})).await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    ensure!(data(&objects, &conf).await?.is_null());

    // Ignored: nobody even looks.
    lab.apply(json!({ "drift": { "mode": "Ignore" } })).await?;
    lab.until_reason(ConditionType::Drifted, "Ignored").await?;
    eventually("all passes to end", STEP, async || {
        let log = manager.process.log();
        let last = log.lines().rfind(|line| line.contains("decided plan="));
        ensure!(last.is_some_and(|line| line.ends_with("Keep")), "{last:?}");
        Ok(())
    })
    .await?;
    let (start, looks) = (lab.cluster.audit().mark()?, || {
        manager.process.log().matches("compared object=").count()
    });
    let before = looks();
    objects.patch(&conf, "somebody", &extra("3")).await?;
    sleep(REACTION).await;
    ensure!(looks() == before, "it was compared");
    ensure!(data(&objects, &conf).await? == "3");
    let watches: Vec<_> = lab
        .cluster
        .audit()
        .since(start)?
        .into_iter()
        .map(|event| event.request_uri)
        .collect();
    ensure!(
        !watches.iter().any(|uri| uri.contains("managed-by%3DHelm")),
        "{watches:#?}"
    );
    ensure!(
        lab.history().await? == [(1, "deployed".to_owned())],
        "no new revision"
    );
    Ok(())
}
