//! Deletion at other times than a quiet one.

use anyhow::{Result, ensure};
use gpu_manager::api::{ConditionType, MODULE_NAME, RELEASE_NAMESPACE, State};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::killed::until_pending;
use crate::lab::Lab;
use crate::lab::wrapper::WrappedHelm;

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
    helm.slow_down()?;
    lab.apply(json!({})).await?;
    until_pending(&lab, "pending-install").await?;
    lab.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
    helm.let_go();
    lab.until_gone().await?;
    let history = lab.history().await?;
    ensure!(history.is_empty(), "{history:?}");
    let client = lab.cluster.client();
    let sets = Api::<DaemonSet>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let deployments = Api::<Deployment>::namespaced(client, RELEASE_NAMESPACE);
    ensure!(sets.list(&ListParams::default()).await?.items.is_empty());
    ensure!(deployments.list(&ListParams::default()).await?.items.is_empty());

    // And again, in the namespace that is left.
    lab.apply(json!({})).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(lab.history().await? == [(1, "deployed".to_owned())]);

    // A suspended module goes too.
    ensure!(crate::lab::reason(&status, ConditionType::Configured) == "Configured");
    lab.apply(json!({ "suspend": true })).await?;
    lab.until_reason(ConditionType::Configured, "Suspended").await?;
    lab.delete().await?;
    ensure!(lab.history().await?.is_empty());
    helm.ensure_one_by_one()?;
    let log = manager.process.log();
    ensure!(!log.contains(" ERROR "), "{log}");
    Ok(())
}
