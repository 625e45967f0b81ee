//! A namespace that Kubernetes cannot finish: the status says what keeps it.

use anyhow::{Context as _, Result};
use gpu_manager::api::{MODULE_NAME, RELEASE_NAMESPACE, State};
use serde_json::json;

use crate::lab::Lab;
use e2e::inventory::Inventory;

const FINALIZER: &str = "example.com/kept";

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_the_namespace_is_told_with_what_to_do() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "kept", "namespace": RELEASE_NAMESPACE, "finalizers": [FINALIZER] },
    });
    let file = lab.values_file("kept.json", &kept)?;
    lab.cluster.kubectl(&["create", "-f", &file]).await?;
    let delete = ["delete", "namespace", RELEASE_NAMESPACE, "--wait=false"];
    lab.cluster.kubectl(&delete).await?;
    let told = |description: &str| description.contains(FINALIZER) && description.contains("take them off");
    lab.until_status("the finalizer while the module lives", |status| {
        status.state == State::Processing && told(&status.description)
    })
    .await?;

    let delete = ["delete", "gpumodule", MODULE_NAME, "--wait=false"];
    lab.cluster.kubectl(&delete).await?;
    lab.until_status("the finalizer in the removal", |status| {
        status.state == State::Deleting && told(&status.description)
    })
    .await?;

    let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
    let patch = [
        "patch",
        "configmap",
        "kept",
        "--namespace",
        RELEASE_NAMESPACE,
        "--type=merge",
        patch,
    ];
    lab.cluster.kubectl(&patch).await?;
    lab.until_gone().await.with_context(|| lab.logs())?;
    before.ensure_is_back(&lab.cluster.client()).await
}
