//! Somebody writes a field again and again.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::manager::Manager;
use gpu_manager::api::{ANNOTATION_RECONCILE_AT, ConditionType, OperationKind, State};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::objects::Objects;
use crate::lab::{Lab, message, reason};

/// Pause of the other writer.
const OFTEN: Duration = Duration::from_millis(200);

/// How long it goes on.
const FIGHT: Duration = Duration::from_secs(20);

/// With pauses of 1, 2, 4, 8 and 16 seconds, less their jitter.
const MOST_CORRECTIONS: usize = 6;

fn corrections(manager: &Manager) -> usize {
    manager
        .process
        .log()
        .matches("put right what others had changed")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_writers_make_no_storm_and_the_other_one_is_named() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    let objects = Objects::of(&lab).await?;
    let policy = objects.find("ClusterPolicy", "cluster-policy")?;

    let stubborn = async {
        let end = Instant::now() + FIGHT;
        let mut writes = 0;
        while Instant::now() < end {
            let patch = json!({ "spec": { "dcgmExporter": { "enabled": writes % 2 == 1 } } });
            objects.patch(&policy, "stubborn-controller", &patch).await?;
            writes += 1;
            sleep(OFTEN).await;
        }
        anyhow::Ok(writes)
    };
    let told = lab.until_reason(ConditionType::Drifted, "DriftReturns");
    let (writes, status) = tokio::try_join!(stubborn, told)?;
    let corrected = corrections(&manager);
    println!("{writes} writes within {FIGHT:?} led to {corrected} corrections");
    ensure!(corrected <= MOST_CORRECTIONS, "{corrected} corrections");
    ensure!(status.state == State::Warning, "{status:#?}");
    let told = message(&status, ConditionType::Drifted);
    ensure!(
        told.contains("ClusterPolicy cluster-policy (spec.dcgmExporter.enabled, by stubborn-controller)"),
        "{told}"
    );
    let reapplied = |kind: &OperationKind| *kind == OperationKind::Reapply;
    let history = lab
        .until_status("history", |status| !status.history.is_empty())
        .await?
        .history;
    let entries = history.iter().filter(|entry| reapplied(&entry.operation)).count();
    ensure!(entries == 1 && history.len() == 2, "{history:#?}");

    // Once the other one is gone, a person can say so.
    lab.annotate(ANNOTATION_RECONCILE_AT, "now").await?;
    let status = lab.until_reason(ConditionType::Drifted, "InSync").await?;
    ensure!(status.state != State::Warning, "{status:#?}");
    let live = objects.get(&policy).await?;
    let enabled = live.map(|live| live.data["spec"]["dcgmExporter"]["enabled"].clone());
    ensure!(enabled == Some(json!(true)), "{enabled:?}");
    ensure!(
        reason(&status, ConditionType::Installed) == "Installed",
        "{status:#?}"
    );
    ensure!(
        lab.history().await? == [(1, "deployed".to_owned())],
        "no new revision"
    );
    Ok(())
}
