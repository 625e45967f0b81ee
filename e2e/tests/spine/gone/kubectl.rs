//! How people and programs remove a module: by kubectl, with its CRD, with all its manifests, and as Lifecycle Manager does it.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, delete_manifests, install_manifests};
use e2e::wait::eventually;
use gpu_manager::api::{MODULE_NAME, RELEASE_NAMESPACE, State};
use kube::ResourceExt as _;
use serde_json::json;

use crate::killed::kill;
use crate::lab::{Lab, STEP};
use e2e::inventory::Inventory;

const CRD: &str = "gpumodules.operator.kyma-project.io";

async fn until_no(lab: &Lab, kind: &str, name: &str) -> Result<()> {
    let what = format!("{kind} {name} to be gone");
    let gone = eventually(&what, STEP, async || {
        let args = ["get", kind, name, "--ignore-not-found", "--output=name"];
        let found = lab.cluster.kubectl(&args).await?;
        ensure!(found.is_empty(), "{found}");
        Ok(())
    });
    gone.await.with_context(|| lab.logs())
}

/// True for what belongs to the manifests.
fn of_manifests(line: &str) -> bool {
    let parts = [
        "gpu-manager",
        "gpumodule",
        "kyma-gpu-",
        "operator.kyma-project.io",
    ];
    parts.iter().any(|part| line.contains(part))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_resource_its_namespace_and_its_crd() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // Somebody deletes the namespace of the release under the living module: it comes back.
    let namespace = ["delete", "namespace", RELEASE_NAMESPACE, "--timeout=60s"];
    lab.cluster.kubectl(&namespace).await?;
    eventually("a new release", STEP, async || {
        let history = lab.history().await?;
        ensure!(
            history.last().is_some_and(|(_, status)| status == "deployed"),
            "{history:?}"
        );
        Ok(())
    })
    .await?;
    lab.until_status("both nodes", |status| {
        status.state == State::Ready && status.gpu_nodes.summary == "2/2"
    })
    .await?;

    // kubectl gives up before the removal ends, and its second call finishes.
    let delete = ["delete", "gpumodule", MODULE_NAME, "--wait", "--timeout=1s"];
    let error = lab
        .cluster
        .kubectl(&delete)
        .await
        .err()
        .context("it waited less")?;
    ensure!(format!("{error:#}").contains("timed out"), "{error:#}");
    // And somebody deletes the namespace meanwhile.
    lab.cluster
        .kubectl(&[
            "delete",
            "namespace",
            RELEASE_NAMESPACE,
            "--ignore-not-found",
            "--wait=false",
        ])
        .await?;
    let delete = [
        "delete",
        "gpumodule",
        MODULE_NAME,
        "--ignore-not-found",
        "--timeout=100s",
    ];
    lab.cluster.kubectl(&delete).await.with_context(|| lab.logs())?;
    before.ensure_is_back(&lab.cluster.client()).await?;

    // With the CRD go its objects, and each is removed first.
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    lab.cluster
        .kubectl(&["delete", "crd", CRD, "--timeout=100s"])
        .await
        .with_context(|| lab.logs())?;
    before
        .ensure_is_back_but_for(&lab.cluster.client(), of_manifests)
        .await?;

    // The same operator serves the next one.
    install_manifests(&lab.cluster).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_manifests_at_once_and_in_the_order_of_lifecycle_manager() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // The operator goes with its rights: everything stays, and says that it is to be deleted.
    delete_manifests(&lab.cluster).await?;
    kill(manager).await?;
    until_no(&lab, "namespace", MANAGER).await?;
    let module = lab.module().await?;
    ensure!(module.metadata.deletion_timestamp.is_some(), "it stays for ever");
    ensure!(!module.finalizers().is_empty(), "nobody removes the release");
    ensure!(lab.history().await?.last().is_some(), "no release");

    // Applied once more, the operator ends what was begun. The CRD goes with the last GpuModule, and is applied after it.
    install_manifests(&lab.cluster).await?;
    let manager = lab.manager().await?;
    until_no(&lab, "crd", CRD).await?;
    before
        .ensure_is_back_but_for(&lab.cluster.client(), of_manifests)
        .await
        .with_context(|| lab.logs())?;

    // Lifecycle Manager deletes the default resource in the background, and all else once there is none.
    install_manifests(&lab.cluster).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    let delete = [
        "delete",
        "gpumodule",
        MODULE_NAME,
        "--cascade=background",
        "--wait=false",
    ];
    lab.cluster.kubectl(&delete).await?;
    lab.until_removal_tells("step ").await?;
    lab.until_gone().await?;
    delete_manifests(&lab.cluster).await?;
    until_no(&lab, "namespace", MANAGER).await?;
    until_no(&lab, "crd", CRD).await?;
    kill(manager).await?;
    before
        .ensure_is_back_but_for(&lab.cluster.client(), of_manifests)
        .await
}
