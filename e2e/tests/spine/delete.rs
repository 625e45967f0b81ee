//! Deletion at other times than a quiet one.

use anyhow::{Result, ensure};
use gpu_manager::api::{ConditionType, MODULE_NAME, State};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::killed::until_pending;
use crate::lab::Lab;
use crate::lab::wrapper::WrappedHelm;
use e2e::inventory::Inventory;

#[tokio::test(flavor = "multi_thread")]
async fn during_the_install_and_without_any() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;

    // Refused: there is nothing to remove and nothing to wait for.
    lab.apply(json!({ "chartVersion": "26.9.9" })).await?;
    let status = lab.until(State::Warning).await?;
    ensure!(status.conditions[0].reason == "UnknownChartVersion", "{status:?}");
    ensure!(lab.module().await?.finalizers().is_empty());
    lab.delete().await?;
    ensure!(helm.changes().is_empty(), "{:?}", helm.changes());

    // While helm installs.
    let before = Inventory::take(&lab.cluster.client()).await?;
    helm.slow_down()?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    until_pending(&lab, "pending-install").await?;
    lab.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
    helm.let_go();
    lab.until_gone().await?;
    let history = lab.history().await?;
    ensure!(history.is_empty(), "{history:?}");
    before.ensure_is_back(&lab.cluster.client()).await?;

    // And again.
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(lab.history().await? == [(1, "deployed".to_owned())]);

    // A suspended module goes too.
    ensure!(crate::lab::reason(&status, ConditionType::Configured) == "Configured");
    lab.apply(json!({ "chartVersion": "26.3.3", "suspend": true }))
        .await?;
    lab.until_reason(ConditionType::Configured, "Suspended").await?;
    lab.delete().await?;
    before.ensure_is_back(&lab.cluster.client()).await?;
    helm.ensure_one_by_one()?;
    let log = manager.process.log();
    ensure!(!log.contains(" ERROR "), "{log}");
    Ok(())
}
