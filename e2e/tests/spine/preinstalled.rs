//! `spec.driver.mode: Preinstalled`: the driver of the node image takes the place of the containers, and back.

use anyhow::{Context as _, Result, ensure};
use e2e::simulated::names::PREINSTALLED_DRIVER;
use e2e::wait::eventually;
use gpu_manager::api::{DriverMode, OperationKind, RELEASE_NAMESPACE, State};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::lab::{Lab, STEP};

/// Label of the driver's DaemonSets and Pods, however the driver is described.
const DRIVER: &str = "app.kubernetes.io/component=nvidia-driver";

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_of_the_node_image_takes_over_and_nothing_of_the_other_stays() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    // One describes the driver in its ClusterPolicy, the other by a NVIDIADriver.
    for version in ["26.3.3", "26.7.0"] {
        let precompiled = json!({ "chartVersion": version, "upgrade": { "policy": "Immediate" } });
        let mut preinstalled = precompiled.clone();
        preinstalled["driver"] = json!({ "mode": "Preinstalled" });

        lab.apply(precompiled.clone()).await?;
        until_mode(&lab, DriverMode::Precompiled).await?;
        bring_driver_in_image(&lab, true).await?;
        lab.apply(preinstalled).await?;
        until_mode(&lab, DriverMode::Preinstalled).await?;
        let gone = eventually("no driver of NVIDIA's operator", STEP, async || {
            let (sets, pods) = drivers(&lab).await?;
            ensure!(sets.is_empty() && pods.is_empty(), "{sets:?} {pods:?}");
            Ok(())
        });
        gone.await
            .with_context(|| format!("with {version}: {}", lab.logs()))?;
        let status = until_mode(&lab, DriverMode::Preinstalled).await?;
        let pruned = |kind| kind == OperationKind::Prune;
        let pruned = status.history.iter().find(|done| pruned(done.operation));
        // NVIDIA's operator leaves the DaemonSets that a ClusterPolicy asked for; those of a NVIDIADriver go with it.
        ensure!(
            version != "26.3.3"
                || pruned.is_some_and(|done| done.message.contains("driver that was switched off")),
            "{:#?}",
            status.history
        );

        bring_driver_in_image(&lab, false).await?;
        lab.apply(precompiled).await?;
        until_mode(&lab, DriverMode::Precompiled).await?;
        let (sets, _) = drivers(&lab).await?;
        ensure!(!sets.is_empty(), "with {version} no driver came back");
    }
    Ok(())
}

/// Waits until both GPU nodes can be used with a driver of that kind.
async fn until_mode(lab: &Lab, mode: DriverMode) -> Result<gpu_manager::api::GpuModuleStatus> {
    lab.until_status(&format!("Ready with {mode:?}"), |status| {
        status.state == State::Ready
            && status.gpu_nodes.summary == "2/2"
            && status.driver.as_ref().is_some_and(|driver| driver.mode == mode)
    })
    .await
}

/// Names of the DaemonSets and Pods of drivers.
async fn drivers(lab: &Lab) -> Result<(Vec<String>, Vec<String>)> {
    let params = ListParams::default().labels(DRIVER);
    let sets = Api::<DaemonSet>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let pods = Api::<Pod>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let sets = sets.list(&params).await?.items;
    let pods = pods.list(&params).await?.items;
    Ok((
        sets.iter().map(kube::ResourceExt::name_any).collect(),
        pods.iter().map(kube::ResourceExt::name_any).collect(),
    ))
}

/// Gives every node an image with a driver of its own, or takes it away.
async fn bring_driver_in_image(lab: &Lab, has_driver: bool) -> Result<()> {
    let nodes = Api::<Node>::all(lab.cluster.client());
    let annotations = json!({ PREINSTALLED_DRIVER: has_driver.then_some("true") });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    for node in nodes.list(&ListParams::default()).await? {
        nodes
            .patch(&node.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}
