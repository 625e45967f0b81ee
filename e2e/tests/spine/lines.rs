//! From an old chart line to the newest one: one step per line, three for the move of the driver into its object, and
//! drivers rolling once, in the last one.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use gpu_manager::api::{OperationKind, State};
use gpu_manager::catalogue::DriverLayout;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lab::{Lab, STEP};

#[tokio::test(flavor = "multi_thread")]
async fn an_old_line_is_upgraded_step_by_step() -> Result<()> {
    let lab = Lab::start().await?;
    // Once, 25.10.1 was offered.
    let then = lab.new_catalogue()?;
    then.change("25.10.1", |chart| chart["stage"] = json!("Install"))?;
    let mut manager = Manager::start(&lab.cluster, &lab.options().with_catalogue(then.path())).await?;
    lab.apply(json!({ "chartVersion": "25.10.1" })).await?;
    lab.until(State::Ready).await?;
    let drivers = lab.running_drivers().await?;
    manager.process.signal(Signal::TERM)?;
    manager.process.wait(STEP).await?;

    let _manager = lab.manager().await?;
    lab.apply(json!({})).await?;
    // Each step takes half a minute, so each is waited for.
    for revision in 2..=5 {
        lab.until_revision(revision).await?;
    }
    lab.until_drivers_run(|pod| pod.app.starts_with("nvidia-gpu-driver-"))
        .await?;
    let status = lab
        .until_status("Ready with chart 26.7.0", |status| {
            let release = status.release.as_ref();
            status.state == State::Ready && release.is_some_and(|release| release.chart_version == "26.7.0")
        })
        .await?;
    let release = status.release.as_ref().context("no release")?;
    ensure!(release.revision == 5, "{release:?}");
    let steps: Vec<_> = status
        .history
        .iter()
        .rev()
        .map(|operation| {
            (
                operation.operation,
                operation.from.as_deref(),
                operation.to.as_deref(),
            )
        })
        .collect();
    let expected = [
        (OperationKind::Install, None, Some("25.10.1")),
        (OperationKind::Upgrade, Some("25.10.1"), Some("26.3.3")),
        (OperationKind::Upgrade, Some("26.3.3"), Some("26.7.0")),
        (OperationKind::Upgrade, Some("26.7.0"), Some("26.7.0")),
        (OperationKind::Upgrade, Some("26.7.0"), Some("26.7.0")),
    ];
    ensure!(steps == expected, "{:#?}", status.history);

    for (revision, expected) in [
        (1, (DriverLayout::ClusterPolicy, true)),
        (2, (DriverLayout::ClusterPolicy, false)),
        (3, (DriverLayout::ClusterPolicy, false)),
        (4, (DriverLayout::NvidiaDriver, false)),
        (5, (DriverLayout::NvidiaDriver, true)),
    ] {
        let values = lab.values_of(revision).await?;
        ensure!(
            layout_and_upgrades(&values) == expected,
            "revision {revision}: {values:#}"
        );
    }
    lab.ensure_drivers_outlived(&drivers, 5)
}

/// Which object describes the driver, and whether NVIDIA's controller may replace running drivers: the chart's default.
fn layout_and_upgrades(values: &Value) -> (DriverLayout, bool) {
    let driver = &values["driver"];
    let object = &values["extraObjects"][0]["spec"];
    let (layout, policy) = if driver["nvidiaDriverCRD"]["enabled"] == true {
        (DriverLayout::NvidiaDriver, &object["upgradePolicy"])
    } else {
        (DriverLayout::ClusterPolicy, &driver["upgradePolicy"])
    };
    (layout, policy["autoUpgrade"].as_bool().unwrap_or(true))
}
