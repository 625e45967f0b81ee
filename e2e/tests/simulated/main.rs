//! The simulated operator on a real control plane, with NVIDIA's charts (or their stand-in) installed by a real
//! helm.
//!
//! What it makes of them, how it fails when told to, how a driver change rolls, and what stays behind
//! after uninstall: as `../shared/recordings` tells of the real controller.

mod lab;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::cluster::FakeNode;
use e2e::simulated::{Where, names};
use serde_json::{Value, json};

use lab::Lab;

/// How long one step of the cluster may take; each takes a few seconds on two busy cores.
const STEP: Duration = Duration::from_mins(1);
const KERNEL: &str = "6.12.47-cloud-amd64";

#[tokio::test(flavor = "multi_thread")]
async fn v26_7_0_with_an_nvidia_driver() -> Result<()> {
    let lab = Lab::start("26.7.0").await?;
    lab.add_node(&FakeNode::new("cpu-0")).await?;
    lab.add_node(&FakeNode::with_gpus("gpu-0", 1)).await?;
    lab.add_node(&FakeNode::with_gpus("gpu-1", 2)).await?;

    let begin = Instant::now();
    lab.install(&lab::with_nvidia_driver("580")).await?;
    lab.wait_for_gpus([("gpu-0", "1"), ("gpu-1", "2")], STEP).await?;
    println!("install to allocatable with v26.7.0: {:?}", begin.elapsed());
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    lab.wait_for_driver("ready", "Reconciled", "successfully reconciled")
        .await?;

    let labels = lab.node("gpu-0").await?["metadata"]["labels"].clone();
    assert_eq!(labels[names::OS_VERSION], "0");
    assert_eq!(labels[names::DRIVER_OWNER], "gardenlinux-precompiled");
    assert_eq!(labels["nvidia.com/cuda.driver-version.full"], "580.178.04");
    let other = lab.node("cpu-0").await?;
    assert!(
        other["metadata"]["labels"][names::GPU_PRESENT].is_null(),
        "{other}"
    );

    lab.expect_no_writes(Duration::from_secs(4)).await?;
    faults(&lab).await?;
    driver_change(&lab).await?;

    lab.helm(&["uninstall", "gpu-operator", "--namespace", "gpu-operator"])
        .await?;
    lab.wait_until_clean(STEP).await?;
    let node = lab.node("gpu-0").await?;
    assert_eq!(
        lab::nvidia_keys(&node),
        [
            "annotation nvidia.com/gpu-driver-upgrade-enabled",
            "label nvidia.com/gpu-driver-upgrade-state",
            "label nvidia.com/gpu-operator.driver.owner",
            "label nvidia.com/gpu.deploy.client",
            "label nvidia.com/gpu.deploy.container-toolkit",
            "label nvidia.com/gpu.deploy.dcgm",
            "label nvidia.com/gpu.deploy.dcgm-exporter",
            "label nvidia.com/gpu.deploy.device-plugin",
            "label nvidia.com/gpu.deploy.driver",
            "label nvidia.com/gpu.deploy.gpu-feature-discovery",
            "label nvidia.com/gpu.deploy.node-status-exporter",
            "label nvidia.com/gpu.deploy.operator-validator",
            "label nvidia.com/gpu.present",
        ]
    );
    assert_eq!(node["status"]["allocatable"][names::GPU_RESOURCE], "0");
    Ok(())
}

/// Each fault shows as recorded, and goes when it is taken back.
async fn faults(lab: &Lab) -> Result<()> {
    let all = [("gpu-0", "1"), ("gpu-1", "2")];

    lab.operator()
        .set_faults(|faults| faults.missing_images.extend([KERNEL.to_owned()]));
    lab.wait_for_gpus([("gpu-0", "0"), ("gpu-1", "0")], STEP).await?;
    lab.wait_for_driver("notReady", "DriverNotReady", "Waiting for driver pod to be ready")
        .await?;
    lab.wait_for_driver_pods("gpu-0", "ImagePullBackOff").await?;
    lab.operator().heal();
    lab.wait_for_gpus(all, STEP).await?;

    lab.operator()
        .set_faults(|faults| faults.driver_crash_loop = Where::nodes(["gpu-1"]));
    lab.wait_for_gpus([("gpu-0", "1"), ("gpu-1", "0")], STEP).await?;
    lab.wait_for_driver_pods("gpu-1", "CrashLoopBackOff").await?;
    lab.operator().heal();
    lab.wait_for_gpus(all, STEP).await?;

    lab.operator()
        .set_faults(|faults| faults.toolkit_not_ready = Where::Everywhere);
    lab.wait_for_policy(
        "notReady",
        "OperandNotReady",
        "ClusterPolicy is not ready; states not ready: [state-container-toolkit]",
    )
    .await?;
    lab.operator().heal();
    lab.operator()
        .set_faults(|faults| faults.device_plugin_not_ready = Where::nodes(["gpu-0"]));
    lab.wait_for_policy(
        "notReady",
        "OperandNotReady",
        "states not ready: [state-device-plugin]",
    )
    .await?;
    lab.wait_for_gpus([("gpu-0", "0"), ("gpu-1", "2")], STEP).await?;
    lab.operator().heal();
    lab.wait_for_gpus(all, STEP).await?;

    lab.operator()
        .set_faults(|faults| faults.gpus_not_allocatable = Where::nodes(["gpu-0"]));
    lab.wait_for_gpus([("gpu-0", "0"), ("gpu-1", "2")], STEP).await?;
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    lab.operator().heal();
    lab.wait_for_gpus(all, STEP).await?;

    lab.operator()
        .set_faults(|faults| faults.privileged_refused = true);
    lab.wait_for_policy(
        "notReady",
        "ReconcileFailed",
        "Forbidden: disallowed by cluster policy",
    )
    .await?;
    lab.operator().heal();
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await
}

/// A held-back change restarts nothing; let go, it rolls node by node.
async fn driver_change(lab: &Lab) -> Result<()> {
    let held_back = |branch: &str, automatic: bool| {
        let mut values = lab::with_nvidia_driver(branch);
        values["extraObjects"][0]["spec"]["upgradePolicy"]["autoUpgrade"] = json!(automatic);
        values
    };
    lab.upgrade(&held_back("590", false)).await?;
    lab.wait_for_driver("notReady", "DriverNotReady", "Waiting for driver pod to be ready")
        .await?;
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    assert_eq!(lab.driver_branches().await?, ["580", "580"]);
    assert_eq!(lab.driver_counts().await?, [2, 0, 2]);

    lab.upgrade(&held_back("590", true)).await?;
    let roll = lab.watch_roll(STEP).await?;
    lab.wait_for_driver("ready", "Reconciled", "successfully reconciled")
        .await?;
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    lab.wait_for_gpus([("gpu-0", "1"), ("gpu-1", "2")], STEP).await?;
    assert_eq!(lab.driver_branches().await?, ["590", "590"]);
    ensure!(roll.most_cordoned == 1, "not node by node: {roll:?}");
    ensure!(roll.states.contains("pod-restart-required"), "{roll:?}");
    ensure!(
        roll.policy_messages
            .iter()
            .any(|text| text.contains("upgrade has not completed")),
        "{roll:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn v26_3_3_with_the_driver_in_cluster_policy() -> Result<()> {
    let lab = Lab::start("26.3.3").await?;
    lab.add_node(&FakeNode::new("cpu-0")).await?;

    // Without the rule, Garden Linux nodes have no VERSION_ID.
    let mut values = lab::with_policy_driver("590");
    let rule = values
        .as_object_mut()
        .and_then(|values| values.remove("node-feature-discovery"));
    lab.install(&values).await?;
    lab.wait_for_policy("ready", "NoGPUNodes", "No GPU node found")
        .await?;
    lab.add_node(&FakeNode::with_gpus("gpu-0", 1)).await?;
    // This line of the controller leaves the state as it was.
    lab.wait_for_policy(
        "ready",
        "ReconcileFailed",
        "unable to retrieve OS version from label",
    )
    .await?;

    values["node-feature-discovery"] = rule.unwrap_or_default();
    let begin = Instant::now();
    lab.upgrade(&values).await?;
    lab.wait_for_gpus([("gpu-0", "1")], STEP).await?;
    println!("correction to allocatable with v26.3.3: {:?}", begin.elapsed());
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    let image = format!("/driver:590-{KERNEL}-gardenlinux0");
    ensure!(
        lab.driver_images()
            .await?
            .iter()
            .all(|found| found.ends_with(&image))
    );

    lab.operator()
        .set_faults(|faults| faults.missing_images.extend([KERNEL.to_owned()]));
    lab.wait_for_policy(
        "notReady",
        "OperandNotReady",
        "ClusterPolicy is not ready, states not ready: [state-driver]",
    )
    .await?;
    lab.operator().heal();
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;

    // With the driver switched off, its DaemonSet stays.
    values["driver"]["enabled"] = json!(false);
    lab.upgrade(&values).await?;
    lab.wait_for_policy("ready", "Reconciled", "successfully reconciled")
        .await?;
    assert_eq!(lab.driver_counts().await?, [1, 1, 1]);

    // A node that loses its GPU loses its deploy labels.
    lab.patch_node(
        "gpu-0",
        &json!({"metadata": {"annotations": {(names::GPUS): null}}}),
    )
    .await?;
    lab.wait_for_policy("ready", "NoGPUNodes", "No GPU node found")
        .await?;
    let labels: Value = lab.node("gpu-0").await?["metadata"]["labels"].clone();
    assert_eq!(labels[names::GPU_PRESENT], "false");
    assert!(labels[names::DEPLOY_DRIVER].is_null(), "{labels}");

    lab.helm(&["uninstall", "gpu-operator", "--namespace", "gpu-operator"])
        .await?;
    lab.wait_until_clean(STEP).await
}
