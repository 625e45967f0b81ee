//! The spine on a real API server with real helm: a GpuModule becomes a running release.
mod lab;

use std::time::Instant;

use anyhow::Result;
use gpu_manager::api::State;
use lab::Lab;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn timing() -> Result<()> {
    let t = Instant::now();
    let lab = Lab::start().await?;
    println!("lab {:?}", t.elapsed());
    let manager = lab.manager().await?;
    println!("manager {:?}", t.elapsed());
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    println!("ready {:?}", t.elapsed());
    lab.delete().await?;
    println!("deleted {:?}", t.elapsed());
    println!("{}", manager.process.log());
    println!("{:?}", lab.module().await);
    Ok(())
}
