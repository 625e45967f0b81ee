//! The operator is killed at each step of a removal, and the next one goes on.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use gpu_manager::api::{ConditionType, GpuModule, condition};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;

use crate::killed::kill;
use crate::lab::{Lab, STEP};
use e2e::inventory::Inventory;

/// The number of the step that the GpuModule tells, and of how many.
fn step(module: &GpuModule) -> Option<(u32, u32)> {
    let deleted = condition(module.status.as_ref()?, ConditionType::Deleted)?;
    let (step, rest) = deleted.message.strip_prefix("step ")?.split_once(" of ")?;
    Some((step.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_each_step_the_next_operator_goes_on() -> Result<()> {
    let lab = Lab::start().await?;
    let mut manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(gpu_manager::api::State::Ready).await?;
    // Something for each step.
    lab.cluster.kubectl(&["cordon", "gpu-1"]).await?;
    lab.begin_driver_upgrade(json!({})).await?;
    lab.leave_lease().await?;

    let config = watcher::Config::default();
    let seen = watcher(lab.modules.clone(), config).default_backoff();
    let mut seen = std::pin::pin!(seen);
    lab.begin_to_delete().await?;
    let (mut killed, mut all) = (BTreeSet::new(), 0);
    loop {
        let next = tokio::time::timeout(STEP, seen.next()).await;
        let next = next.with_context(|| format!("nothing more after {killed:?}\n{}", lab.logs()))?;
        match next.context("the watch has ended")?? {
            watcher::Event::Delete(_) => break,
            watcher::Event::Apply(module) | watcher::Event::InitApply(module) => {
                let Some((number, of)) = step(&module) else {
                    continue;
                };
                all = of;
                if killed.insert(number) {
                    kill(manager).await?;
                    manager = lab.manager().await?;
                }
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
    println!("killed at steps {killed:?} of {all}");
    // A step that is over within the time of a kill may be skipped.
    if killed.len() + 3 < usize::try_from(all)? {
        bail!("killed at {killed:?} of {all} only");
    }
    ensure!(
        killed.contains(&3) && killed.contains(&all),
        "{killed:?} of {all}"
    );
    lab.ensure_cordoned("gpu-1", true).await?;
    lab.cluster.kubectl(&["uncordon", "gpu-1"]).await?;
    before.ensure_is_back(&lab.cluster.client()).await
}
