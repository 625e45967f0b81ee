//! What others run in the cluster that does the work of a part of the release.

use anyhow::{Result, ensure};
use gpu_manager::api::{ConditionType, State};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::foreign::refused;
use crate::lab::Lab;
use crate::lab::wrapper::WrappedHelm;

#[tokio::test(flavor = "multi_thread")]
async fn a_device_plugin_of_its_own_is_named_until_it_is_gone() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let _manager = lab.manager_with(&helm).await?;
    let sets = Api::<DaemonSet>::namespaced(lab.cluster.client(), "kube-system");
    // As NVIDIA's own manifest has it: no label on the DaemonSet says what it is.
    let pod_labels = json!({ "name": "nvidia-device-plugin-ds" });
    let plugin: DaemonSet = serde_json::from_value(json!({
        "metadata": { "name": "nvidia-device-plugin-daemonset" },
        "spec": {
            "selector": { "matchLabels": pod_labels },
            "template": {
                "metadata": { "labels": pod_labels },
                "spec": { "containers": [{ "name": "c", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1" }] },
            },
        },
    }))?;
    sets.create(&PostParams::default(), &plugin).await?;
    let named = "DaemonSet kube-system/nvidia-device-plugin-daemonset also tells the kubelets";
    refused(&lab, &helm, "ForeignDevicePlugin", named).await?;

    // Gone, the module goes on by itself.
    lab.apply(json!({})).await?;
    lab.until_reason(ConditionType::Configured, "ForeignDevicePlugin")
        .await?;
    let name = "nvidia-device-plugin-daemonset";
    sets.delete(name, &DeleteParams::default()).await?;
    lab.until(State::Ready).await?;

    // One that comes later is named too, and the release is left as it is.
    let (history, changes) = (lab.history().await?, helm.changes().len());
    sets.create(&PostParams::default(), &plugin).await?;
    let status = lab
        .until_reason(ConditionType::Configured, "ForeignDevicePlugin")
        .await?;
    ensure!(status.state == State::Warning, "{status:?}");
    sets.delete(name, &DeleteParams::default()).await?;
    lab.until(State::Ready).await?;
    let now = lab.history().await?;
    ensure!(now == history && helm.changes().len() == changes, "{now:?}");
    Ok(())
}
