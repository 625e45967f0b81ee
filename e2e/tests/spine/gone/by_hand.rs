//! Somebody has deleted by hand what a removal needs.

use anyhow::{Result, ensure};
use e2e::manager::MANAGER;
use e2e::wait::eventually;
use gpu_manager::api::{CLUSTER_POLICY_CRD, ConditionType, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::gone::refused::{allow, forbid};
use crate::killed::kill;
use crate::lab::{Lab, STEP};
use e2e::inventory::Inventory;

#[tokio::test(flavor = "multi_thread")]
async fn the_crd_of_cluster_policy_or_the_secrets_of_the_release() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    kill(manager).await?;
    // Without it Helm reads no manifest with a ClusterPolicy, and so uninstalls nothing. Soon after the install, Kubernetes' garbage
    // collector does not know what belongs to it either.
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    crds.delete(CLUSTER_POLICY_CRD, &DeleteParams::default()).await?;
    eventually("the CRD to be gone", STEP, async || {
        ensure!(crds.get_opt(CLUSTER_POLICY_CRD).await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    lab.begin_to_delete().await?;
    let _manager = lab.manager().await?;
    lab.until_gone().await?;
    before.ensure_is_back(&lab.cluster.client()).await?;

    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    lab.delete_secrets().await?;
    lab.delete().await?;
    before.ensure_is_back(&lab.cluster.client()).await
}

/// And Helm may not make new ones.
#[tokio::test(flavor = "multi_thread")]
async fn the_secrets_of_a_release_that_cannot_be_recorded_anew() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    forbid(&lab, "CREATE", "secrets").await?;
    let kubeconfig = lab
        .cluster
        .kubeconfig_for_service_account(MANAGER, MANAGER)
        .await?;
    let client = e2e::cluster::client_for(&kubeconfig).await?;
    let secrets = Api::<Secret>::namespaced(client, RELEASE_NAMESPACE);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the policy to count", STEP, async || {
        let secret = serde_json::from_value(json!({ "metadata": { "name": "probe" } }))?;
        ensure!(
            secrets.create(&dry_run, &secret).await.is_err(),
            "it was accepted"
        );
        Ok(())
    })
    .await?;
    lab.delete_secrets().await?;
    lab.until_reason(ConditionType::Installed, "RecordingFailed")
        .await?;
    lab.delete().await?;
    allow(&lab, "secrets").await?;
    before.ensure_is_back(&lab.cluster.client()).await
}
