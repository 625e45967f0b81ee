//! Somebody uses helm by hand on the module's release.

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::State;
use serde_json::Value;

use crate::lab::Lab;

/// The revision in the status, once it is that one and the module is Ready.
async fn until_accepted(lab: &Lab, revision: i64) -> Result<()> {
    let what = format!("revision {revision} to be accepted");
    lab.until_status(&what, |status| {
        status.state == State::Ready
            && status
                .release
                .as_ref()
                .is_some_and(|release| release.revision == revision)
    })
    .await?;
    let latest = lab.history().await?.pop().context("no revision")?;
    ensure!(
        i64::from(latest.0) == revision,
        "the newest revision is {latest:?}"
    );
    Ok(())
}

/// The description of a revision in `helm history`.
async fn description(lab: &Lab, revision: u32) -> Result<String> {
    let history = lab.helm_release(&["history"], &["--output=json"]).await?;
    let history: Vec<Value> = serde_json::from_str(&history)?;
    let found = history.iter().find(|entry| entry["revision"] == revision);
    let found = found.with_context(|| format!("no revision {revision} in {history:?}"))?;
    Ok(found["description"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_hand_are_noticed_and_undone_or_accepted() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let chart = lab.archive("26.7.0");
    let wanted = lab.helm_values().await?;

    // Nothing is other than wanted: accepted, and no revision of ours.
    lab.helm_release(&["upgrade"], &[&chart, "--reuse-values"])
        .await?;
    until_accepted(&lab, 2).await?;

    // Other values: undone.
    lab.helm_release(
        &["upgrade"],
        &[&chart, "--reuse-values", "--set=dcgmExporter.enabled=false"],
    )
    .await?;
    lab.until_revision(4).await?;
    until_accepted(&lab, 4).await?;
    ensure!(lab.helm_values().await? == wanted);
    let why = description(&lab, 4).await?;
    ensure!(
        why == "GpuModule generation 1, chart 26.7.0: the release was not as wanted",
        "{why}"
    );

    // Back to the other values: undone. The labels of revision 3 come back too, so they prove nothing.
    lab.helm_release(&["rollback"], &["3"]).await?;
    lab.until_revision(6).await?;
    until_accepted(&lab, 6).await?;
    ensure!(lab.helm_values().await? == wanted);

    // Back to the same values: accepted.
    lab.helm_release(&["rollback"], &["4"]).await?;
    until_accepted(&lab, 7).await?;

    // Everything gone: installed again.
    lab.helm_release(&["uninstall"], &[]).await?;
    until_accepted(&lab, 1).await?;
    ensure!(lab.helm_values().await? == wanted);
    let status = lab
        .until_status("all nodes", |status| {
            status.state == State::Ready && status.gpu_nodes.summary == "2/2"
        })
        .await?;
    ensure!(status.observed_generation == 1);
    Ok(())
}
