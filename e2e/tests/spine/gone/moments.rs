//! Deletion while helm works, and after a helm that was killed.

use anyhow::Result;
use gpu_manager::api::State;
use serde_json::{Value, json};

use crate::killed::{kill, until_pending};
use crate::lab::Lab;
use crate::lab::wrapper::WrappedHelm;
use e2e::inventory::Inventory;

fn mixed() -> Value {
    json!({ "values": { "mig": { "strategy": "mixed" } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_recovery_an_upgrade_and_a_rollback() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;
    let before = Inventory::take(&lab.cluster.client()).await?;

    // Before the next operator can recover an install that was killed.
    helm.slow_down()?;
    lab.apply(json!({})).await?;
    until_pending(&lab, "pending-install").await?;
    kill(manager).await?;
    helm.kill()?;
    helm.let_go();
    lab.begin_to_delete().await?;
    let manager = lab.manager_with(&helm).await?;
    lab.until_gone().await?;
    before.ensure_is_back(&lab.cluster.client()).await?;

    // During an upgrade.
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    helm.slow_down()?;
    lab.apply(mixed()).await?;
    until_pending(&lab, "pending-upgrade").await?;
    lab.begin_to_delete().await?;
    helm.let_go();
    lab.until_gone().await?;
    before.ensure_is_back(&lab.cluster.client()).await?;

    // During a rollback.
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    helm.slow_down()?;
    lab.apply(mixed()).await?;
    until_pending(&lab, "pending-upgrade").await?;
    kill(manager).await?;
    helm.kill()?;
    let _manager = lab.manager_with(&helm).await?;
    until_pending(&lab, "pending-rollback").await?;
    lab.begin_to_delete().await?;
    helm.let_go();
    lab.until_gone().await?;
    helm.ensure_one_by_one()?;
    before.ensure_is_back(&lab.cluster.client()).await
}
