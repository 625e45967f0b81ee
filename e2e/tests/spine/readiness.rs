//! What is told of GPU nodes and worker pools, while nodes come, change, break and go.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::FakeNode;
use e2e::simulated::Where;
use gpu_manager::api::{ConditionType, GpuModuleStatus, NodeProblem, State, WorkerPoolStatus, condition};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::lab::{Lab, http, reason};

/// A kernel that no driver image is made for.
const NEW_KERNEL: &str = "6.18.99-cloud-amd64";

/// The driver image for it that the defaults lead to ends so.
const NEW_IMAGE: &str = "/driver:580-6.18.99-cloud-amd64-gardenlinux0";

/// Labels of a node that Gardener updates in place.
const CHOSEN: &str = "node.machine.sapcloud.io/selected-for-update";
const RESULT: &str = "node.machine.sapcloud.io/update-result";

fn pool<'a>(status: &'a GpuModuleStatus, name: &str) -> Result<&'a WorkerPoolStatus> {
    let mut pools = status.worker_pools.iter();
    pools
        .find(|pool| pool.name == name)
        .with_context(|| format!("no pool {name} in {:?}", status.worker_pools))
}

fn problem<'a>(status: &'a GpuModuleStatus, pool: &str) -> Result<&'a NodeProblem> {
    let pool = self::pool(status, pool)?;
    pool.problems.first().with_context(|| format!("{pool:?}"))
}

impl Lab {
    async fn until_operands(&self, state: State, why: &str) -> Result<GpuModuleStatus> {
        self.until_status(&format!("{state:?} for {why}"), |status| {
            status.state == state && reason(status, ConditionType::OperandsReady) == why
        })
        .await
    }

    async fn until_usable(&self, summary: &str) -> Result<GpuModuleStatus> {
        self.until_status(&format!("{summary} usable nodes in a Ready cluster"), |status| {
            status.state == State::Ready && status.gpu_nodes.summary == summary
        })
        .await
    }

    async fn patch_node(&self, node: &str, patch: serde_json::Value) -> Result<()> {
        let nodes = Api::<Node>::all(self.cluster.client());
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// The node starts into another version of Garden Linux, as with Gardener's updates in place.
    async fn update_in_place(&self, node: &str, os_image: &str, kernel: &str) -> Result<()> {
        let nodes = Api::<Node>::all(self.cluster.client());
        let patch = json!({ "status": { "nodeInfo": { "osImage": os_image, "kernelVersion": kernel } } });
        nodes
            .patch_status(node, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_missing_for_one_kernel_is_told_of_its_pool_alone() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    lab.nvidia.set_faults(|faults| {
        faults.missing_images = BTreeSet::from([NEW_KERNEL.to_owned()]);
    });
    let newer = FakeNode::with_gpus("newer-0", 2)
        .pool("newer")
        .os_image("Garden Linux 2222.1.0")
        .kernel(NEW_KERNEL);
    lab.cluster.create_node(&newer).await?;
    let status = lab.until_operands(State::Warning, "DriverImageMissing").await?;
    ensure!(status.gpu_nodes.summary == "2/3", "{:?}", status.gpu_nodes);
    ensure!(
        status.description.contains(NEW_IMAGE) && status.description.contains("(newer-0)"),
        "{}",
        status.description
    );
    let gpu = pool(&status, "gpu")?;
    ensure!(
        (gpu.nodes, gpu.usable) == (2, 2) && gpu.problems.is_empty(),
        "{gpu:?}"
    );
    let found = problem(&status, "newer")?;
    let image = found.image.as_deref().unwrap_or_default();
    ensure!(
        found.reason == "DriverImageMissing" && found.names == ["newer-0"] && image.ends_with(NEW_IMAGE),
        "{found:?}"
    );

    // The image comes: two kernels side by side.
    lab.nvidia.heal();
    let status = lab
        .until_status("both pools with all that is known of them", |status| {
            // GPU Feature Discovery and the device plugin are not in step.
            let newer = pool(status, "newer").ok();
            status.state == State::Ready
                && newer.is_some_and(|newer| newer.usable == 1 && newer.driver_versions == ["580.178.04"])
        })
        .await?;
    let newer = pool(&status, "newer")?;
    ensure!(
        newer.problems.is_empty(),
        "an image that runs is known: {newer:?}"
    );
    ensure!((newer.nodes, newer.usable) == (1, 1), "{newer:?}");
    ensure!(
        (newer.gpus.capacity, newer.gpus.allocatable) == (2, 2),
        "{newer:?}"
    );
    ensure!(newer.kernels == [NEW_KERNEL], "{newer:?}");
    ensure!(newer.operating_systems == ["Garden Linux 2222.1.0"], "{newer:?}");
    ensure!(
        newer.products == ["Tesla-T4"] && newer.cuda_versions == ["13.0"],
        "{newer:?}"
    );
    let (_, metrics) = http::get(manager.metrics, "/metrics").await?;
    let expected = r#"gpu_manager_pool_gpus_allocatable{pool="newer"} 2"#;
    ensure!(metrics.contains(expected), "{metrics}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_changes_in_place_needs_a_driver_of_its_own() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.nvidia.set_faults(|faults| {
        faults.missing_images = BTreeSet::from([NEW_KERNEL.to_owned()]);
    });
    lab.update_in_place("gpu-0", "Garden Linux 2222.1.0", NEW_KERNEL)
        .await?;
    let status = lab.until_operands(State::Warning, "DriverImageMissing").await?;
    let found = problem(&status, "gpu")?;
    ensure!(found.names == ["gpu-0"] && found.nodes == 1, "{found:?}");
    let images = &pool(&status, "gpu")?.driver_images;
    ensure!(
        images.iter().any(|image| image.ends_with(NEW_IMAGE)),
        "{images:?}"
    );
    ensure!(
        pool(&status, "gpu")?.kernels.len() == 2,
        "{:?}",
        status.worker_pools
    );
    lab.update_in_place("gpu-0", "Garden Linux 1877.3", "6.12.47-cloud-amd64")
        .await?;
    let status = lab.until_usable("2/2").await?;
    ensure!(
        pool(&status, "gpu")?.problems.is_empty(),
        "{:?}",
        status.worker_pools
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_by_gardener_is_no_cordon_to_undo() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    // As Gardener's machine-controller-manager does before it updates a machine in place.
    lab.patch_node(
        "gpu-0",
        json!({ "metadata": { "labels": { CHOSEN: "true" } }, "spec": { "unschedulable": true } }),
    )
    .await?;
    let status = lab.until_operands(State::Processing, "RollingOut").await?;
    let found = problem(&status, "gpu")?;
    ensure!(
        found.reason == "NodeUpdateInProgress" && found.names == ["gpu-0"],
        "{found:?}"
    );
    lab.patch_node("gpu-0", json!({ "metadata": { "labels": { RESULT: "failed" } } }))
        .await?;
    lab.until_operands(State::Warning, "NodeUpdateFailed").await?;
    lab.patch_node(
        "gpu-0",
        json!({ "metadata": { "labels": { CHOSEN: null, RESULT: null } } }),
    )
    .await?;
    lab.until_operands(State::Warning, "Cordoned").await?;
    lab.patch_node("gpu-0", json!({ "spec": { "unschedulable": null } }))
        .await?;
    lab.until_usable("2/2").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_crashes_is_a_warning_on_one_node_and_an_error_on_all() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.nvidia
        .set_faults(|faults| faults.driver_crash_loop = Where::nodes(["gpu-1"]));
    let status = lab.until_operands(State::Warning, "DriverCrashLoop").await?;
    let found = problem(&status, "gpu")?;
    ensure!(found.names == ["gpu-1"], "{found:?}");
    ensure!(status.gpu_nodes.summary == "1/2", "{:?}", status.gpu_nodes);
    lab.nvidia
        .set_faults(|faults| faults.driver_crash_loop = Where::Everywhere);
    lab.until_operands(State::Error, "DriverCrashLoop").await?;
    lab.nvidia.heal();
    lab.until_usable("2/2").await?;

    // A part that is slow is given its time.
    lab.nvidia
        .set_faults(|faults| faults.device_plugin_not_ready = Where::nodes(["gpu-1"]));
    let status = lab.until_operands(State::Processing, "RollingOut").await?;
    let found = problem(&status, "gpu")?;
    ensure!(
        found.reason == "DevicePluginNotReady" && found.names == ["gpu-1"],
        "{found:?}"
    );
    lab.nvidia.heal();
    lab.until_usable("2/2").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_at_zero_is_healthy_and_its_next_node_joins_without_a_flap() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let before = lab.until_usable("2/2").await?;
    for node in ["gpu-0", "gpu-1"] {
        // As Gardener's machine-controller-manager does before it removes a machine.
        let nodes = Api::<Node>::all(lab.cluster.client());
        let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
        let terminating = json!({ "type": "Terminating", "status": "True", "reason": "ScaleDown" });
        let terminating = Patch::Strategic(json!({ "status": { "conditions": [terminating] } }));
        nodes
            .patch_status(node, &PatchParams::default(), &terminating)
            .await?;
        nodes.patch(node, &PatchParams::default(), &cordon).await?;
        lab.cluster.delete_node(node).await?;
    }
    let status = lab.until_operands(State::Ready, "NoGpuNodes").await?;
    ensure!(status.worker_pools.is_empty(), "{:?}", status.worker_pools);

    lab.nvidia
        .set_faults(|faults| faults.toolkit_not_ready = Where::Everywhere);
    lab.cluster.create_node(&FakeNode::with_gpus("gpu-2", 1)).await?;
    let status = lab.until_operands(State::Ready, "NodesStarting").await?;
    ensure!(
        problem(&status, "gpu")?.reason == "Starting",
        "{:?}",
        status.worker_pools
    );
    lab.nvidia.heal();
    let after = lab.until_usable("1/1").await?;
    let since =
        |status| condition(status, ConditionType::Ready).map(|ready| ready.last_transition_time.clone());
    ensure!(
        since(&before) == since(&after),
        "{:?} and {:?}",
        since(&before),
        since(&after)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_driver_branch_is_shown_as_a_rolling_operation() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    let status = lab
        .until_status("a node whose driver is being replaced", |status| {
            reason(status, ConditionType::OperandsReady) == "DriverRollingOut"
                && status.description.contains("cordoned for it")
        })
        .await?;
    ensure!(status.state == State::Processing, "{:?}", status.state);
    ensure!(
        status.description.contains(" of 2 done"),
        "{}",
        status.description
    );
    let found = problem(&status, "gpu")?;
    ensure!(found.reason == "UpgradeInProgress", "{found:?}");
    lab.until_status("the new driver on all nodes", |status| {
        let gpu = pool(status, "gpu").ok();
        status.state == State::Ready && gpu.is_some_and(|gpu| gpu.driver_versions == ["590.48.01"])
    })
    .await?;
    Ok(())
}
