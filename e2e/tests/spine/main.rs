//! The spine on a real API server with real helm: a GpuModule becomes a running release.
mod lab;

use std::time::Duration;

use anyhow::{Result, ensure};
use gpu_manager::api::State;
use lab::Lab;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn installs_and_uninstalls() -> Result<()> {
    let lab = Lab::start().await?;
    lab.apply(json!({})).await?;
    let status = lab.until(State::Ready, Duration::from_mins(2)).await?;
    ensure!(status.gpu_nodes.summary == "2/2");
    Ok(())
}
