//! From an old chart line to the newest one: one step per line, drivers rolling once.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use gpu_manager::api::{OperationKind, State};
use rustix::process::Signal;
use serde_json::json;

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
    manager.process.signal(Signal::TERM)?;
    manager.process.wait(STEP).await?;

    let _manager = lab.manager().await?;
    lab.apply(json!({})).await?;
    let status = lab
        .until_status("Ready with chart 26.7.0", |status| {
            let release = status.release.as_ref();
            status.state == State::Ready && release.is_some_and(|release| release.chart_version == "26.7.0")
        })
        .await?;
    let release = status.release.as_ref().context("no release")?;
    ensure!(release.revision == 3, "{release:?}");
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
    ];
    ensure!(steps == expected, "{:#?}", status.history);

    let step = lab.values_of(2).await?;
    ensure!(
        step["driver"]["upgradePolicy"]["autoUpgrade"] == false,
        "{}",
        step["driver"]
    );
    let last = lab.values_of(3).await?;
    let policy = &last["extraObjects"][0]["spec"]["upgradePolicy"];
    ensure!(policy["autoUpgrade"] == true, "{policy}");
    Ok(())
}
