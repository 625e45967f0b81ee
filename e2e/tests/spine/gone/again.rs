//! Deleted and created again: at once, in the middle of the uninstall, and while the namespace terminates.

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{MODULE_NAME, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::killed::until_pending;
use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP};
use e2e::inventory::Inventory;

/// A person takes the finalizer off, and the next GpuModule is there at once.
async fn forced(lab: &Lab) -> Result<()> {
    let patch = json!({ "metadata": { "finalizers": null } });
    lab.modules
        .patch(MODULE_NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    lab.apply(json!({})).await
}

/// One release, deployed, and the stack of it Ready.
async fn ensure_good(lab: &Lab) -> Result<()> {
    lab.until(State::Ready).await?;
    lab.until_status("both nodes", |status| status.gpu_nodes.summary == "2/2")
        .await?;
    let history = lab.history().await?;
    ensure!(
        history.last().is_some_and(|(_, status)| status == "deployed"),
        "{history:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn at_any_moment_it_ends_in_a_good_release() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let _manager = lab.manager_with(&helm).await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // Helm uninstalls.
    helm.slow_down()?;
    lab.begin_to_delete().await?;
    until_pending(&lab, "uninstalling").await?;
    forced(&lab).await?;
    helm.let_go();
    ensure_good(&lab).await?;

    // The namespace terminates.
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    lab.begin_to_delete().await?;
    let terminating = eventually("the namespace to terminate", STEP, async || {
        let namespace = namespaces.get(RELEASE_NAMESPACE).await?;
        ensure!(namespace.metadata.deletion_timestamp.is_some(), "it is there");
        Ok(())
    });
    terminating.await.with_context(|| lab.logs())?;
    forced(&lab).await?;
    ensure_good(&lab).await?;

    // As soon as the one before is gone.
    lab.delete().await?;
    lab.apply(json!({})).await?;
    ensure_good(&lab).await?;
    lab.delete().await?;
    helm.ensure_one_by_one()?;
    before.ensure_is_back(&lab.cluster.client()).await
}
