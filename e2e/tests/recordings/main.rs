//! The simulated operator against recordings of NVIDIA's real controller.
//!
//! Each test rebuilds the recorded cluster's input (nodes as NFD left them, ClusterPolicy,
//! NVIDIADriver), lets the simulated operator work on it in memory and compares what comes out, field
//! by field. `compare.rs` lists what is left out of the comparison, and why.

mod compare;
mod input;
mod judged;

use anyhow::Result;
use e2e::simulated::memory::Memory;
use e2e::simulated::{Change, Faults, Kind, is_ready, names};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use compare::{daemon_sets, labels_and_gpus, owned_names, runtime_classes, verdict};
use input::Recordings;

const KERNEL: &str = "6.12.47-cloud-amd64";

/// Two Garden Linux nodes under v26.3.3, drivers from ClusterPolicy.
fn policy_layout(recordings: &Recordings) -> Result<Memory> {
    let mut memory = Memory::default();
    memory.view.deployments = vec![input::controller("v26.3.3")?];
    memory.view.cluster_policies = vec![recordings.object("clusterpolicy-ready.yaml")?];
    memory.view.nodes = vec![
        input::without_gpu(recordings.node("node-gpu-labelled.yaml", "cpu-0", KERNEL)?),
        recordings.node("node-gpu-labelled.yaml", "gpu-0", KERNEL)?,
        recordings.node("node-gpu-labelled.yaml", "gpu-1", KERNEL)?,
    ];
    Ok(memory)
}

/// Two Garden Linux nodes under v26.7.0, drivers from an NVIDIADriver, with these kernels.
fn driver_layout(recordings: &Recordings, kernels: [&str; 2]) -> Result<Memory> {
    let mut memory = Memory::default();
    memory.view.crds.insert(names::GPU_CLUSTERS_CRD.to_owned());
    memory.view.deployments = vec![input::controller("v26.7.0")?];
    memory.view.cluster_policies = vec![recordings.object("clusterpolicy-v26.7.0-nvidiadriver-mode.yaml")?];
    let mut driver = recordings.object("nvidiadriver-ready.yaml")?;
    driver.metadata.uid = Some(input::DRIVER_UID.to_owned());
    memory.view.nvidia_drivers = vec![driver];
    memory.view.nodes = vec![
        recordings.node("node-gpu-labelled-v26.7.0.yaml", "gpu-0", kernels[0])?,
        recordings.node("node-gpu-labelled-v26.7.0.yaml", "gpu-1", kernels[1])?,
    ];
    Ok(memory)
}

#[test]
fn v26_3_3_with_the_driver_in_cluster_policy() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    // Recorded before the upgrade controller's second look, which comes after two minutes.
    memory.settle_with(&Faults::default(), false)?;

    assert_eq!(
        daemon_sets(&input::to_values(&memory.view.daemon_sets)),
        daemon_sets(&recordings.list("daemonsets-v26.3.3-gardenlinux.yaml")?)
    );
    assert_eq!(
        runtime_classes(memory.objects.values()),
        runtime_classes(&recordings.list("runtimeclasses.yaml")?)
    );
    assert_eq!(
        labels_and_gpus(&json!(memory.view.nodes[1])),
        labels_and_gpus(&recordings.value("node-gpu-labelled.yaml")?)
    );
    assert_eq!(
        verdict(&json!(memory.view.cluster_policies[0])),
        verdict(&recordings.value("clusterpolicy-ready.yaml")?)
    );
    assert_eq!(
        owned_names(&memory),
        compare::recorded_names(&recordings.text("objects-present-after-install.txt")?)
    );
    Ok(())
}

#[test]
fn v26_3_3_with_driver_pods_that_do_not_start() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = policy_layout(&recordings)?;
    let faults = Faults {
        missing_images: [KERNEL.to_owned()].into(),
        ..Faults::default()
    };
    memory.settle(&faults)?;
    assert_eq!(
        verdict(&json!(memory.view.cluster_policies[0])),
        verdict(&recordings.value("clusterpolicy-driver-not-ready.yaml")?)
    );

    let pods: Vec<Value> = memory
        .view
        .pods
        .iter()
        .filter(|pod| !is_ready(pod))
        .map(|pod| json!(pod))
        .collect();
    let recorded = recordings.list("driver-pods-pending.yaml")?;
    assert_eq!(pods.len(), recorded.len());
    for (pod, recorded) in pods.iter().zip(&recorded) {
        assert_eq!(compare::pod(pod), compare::pod(recorded));
    }
    Ok(())
}

#[test]
fn v26_7_0_with_two_kernels_and_one_nvidia_driver() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let mut memory = driver_layout(&recordings, [KERNEL, "6.18.50-cloud-amd64"])?;
    input::set_branch(&mut memory, "580");
    memory.settle(&Faults::default())?;

    assert_eq!(
        daemon_sets(&input::to_values(&memory.view.daemon_sets)),
        daemon_sets(&recordings.list("daemonsets-v26.7.0-nvidiadriver.yaml")?)
    );
    assert_eq!(
        runtime_classes(memory.objects.values()),
        runtime_classes(&recordings.list("runtimeclasses-v26.7.0.yaml")?)
    );
    assert_eq!(
        labels_and_gpus(&json!(memory.view.nodes[0])),
        labels_and_gpus(&recordings.value("node-gpu-labelled-v26.7.0.yaml")?)
    );
    assert_eq!(
        verdict(&json!(memory.view.cluster_policies[0])),
        verdict(&recordings.value("clusterpolicy-v26.7.0-nvidiadriver-mode.yaml")?)
    );
    assert_eq!(
        verdict(&json!(memory.view.nvidia_drivers[0])),
        verdict(&recordings.value("nvidiadriver-ready.yaml")?)
    );
    Ok(())
}

/// The last table of the recordings' README, row by row.
#[test]
fn v26_7_0_a_driver_change_held_back_then_let_go() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let faults = Faults::default();
    let mut memory = driver_layout(&recordings, [KERNEL, KERNEL])?;
    input::set_branch(&mut memory, "580");
    memory.settle(&faults)?;
    let row = compare::Row::of(&memory);
    assert_eq!((row.driver.as_str(), row.policy.as_str()), ("ready", "ready"));
    assert_eq!((row.counts, row.branches()), ([2, 2, 2], vec!["580", "580"]));
    assert_eq!(row.annotation, [Some("true".to_owned()), Some("true".to_owned())]);

    input::set_auto_upgrade(&mut memory, false);
    memory.settle(&faults)?;
    let row = compare::Row::of(&memory);
    assert_eq!((row.driver.as_str(), row.policy.as_str()), ("ready", "ready"));
    assert_eq!(row.annotation, [None, None]);

    input::set_branch(&mut memory, "590");
    memory.settle(&faults)?;
    let row = compare::Row::of(&memory);
    assert_eq!(
        row.driver,
        "notReady DriverNotReady Waiting for driver pod to be ready"
    );
    assert_eq!((row.policy.as_str(), row.counts), ("ready", [2, 0, 2]));
    assert_eq!(row.branches(), ["580", "580"]);
    assert_eq!(row.upgrade, [None, None]);

    input::set_auto_upgrade(&mut memory, true);
    let between = compare::run_until(&mut memory, &faults, |row| row.counts == [2, 1, 2])?;
    assert!(between.driver.starts_with("notReady"), "{between:?}");
    assert_eq!(
        between.policy,
        "notReady OperandNotReady ClusterPolicy is not ready; NVIDIADriver upgrade has not completed; \
         one or more NVIDIADriver-owned Nodes are marked pending, in-progress, or failed"
    );
    let mut states = between.upgrade.clone();
    states.sort();
    assert_eq!(
        states,
        [
            Some("pod-restart-required cordoned".to_owned()),
            Some("upgrade-required".to_owned())
        ]
    );

    let later = compare::run_until(&mut memory, &faults, |row| row.counts == [2, 2, 2])?;
    assert!(later.policy.contains("upgrade has not completed"), "{later:?}");
    assert!(
        later.upgrade.contains(&Some("upgrade-done".to_owned())),
        "{later:?}"
    );

    memory.settle(&faults)?;
    let row = compare::Row::of(&memory);
    assert_eq!((row.driver.as_str(), row.policy.as_str()), ("ready", "ready"));
    assert_eq!(row.branches(), ["590", "590"]);
    assert_eq!(
        row.upgrade,
        [Some("upgrade-done".to_owned()), Some("upgrade-done".to_owned())]
    );
    Ok(())
}

/// One Ubuntu node, opted out and first in the list, breaks the Garden Linux nodes of ClusterPolicy's
/// layout, and does no harm to an NVIDIADriver's.
#[test]
fn a_foreign_node_breaks_the_policy_layout_only() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let ubuntu = input::opted_out_ubuntu(recordings.node("node-gpu-labelled.yaml", "a-ubuntu", KERNEL)?);

    let mut memory = policy_layout(&recordings)?;
    memory.view.nodes.insert(0, ubuntu.clone());
    memory.settle(&Faults::default())?;
    let image = compare::driver_image(&memory, &format!("nvidia-driver-daemonset-{KERNEL}-gardenlinux0"))?;
    assert!(
        image.ends_with(&format!("/driver:590-{KERNEL}-ubuntu24.04")),
        "{image}"
    );
    assert!(
        verdict(&json!(memory.view.cluster_policies[0]))
            .to_string()
            .contains("[state-driver]")
    );

    let mut memory = driver_layout(&recordings, [KERNEL, KERNEL])?;
    memory.view.nodes.insert(0, ubuntu);
    memory.settle(&Faults::default())?;
    let row = compare::Row::of(&memory);
    assert_eq!((row.driver.as_str(), row.policy.as_str()), ("ready", "ready"));
    assert_eq!(row.counts, [2, 2, 2]);
    assert!(
        row.images.iter().all(|image| image.ends_with("-gardenlinux0")),
        "{row:?}"
    );
    Ok(())
}

/// Switching a running release to NVIDIADriver replaces the Pods that ClusterPolicy left behind, node
/// by node.
#[test]
fn switching_layouts_rolls_node_by_node() -> Result<()> {
    let Some(recordings) = Recordings::open() else {
        return Ok(());
    };
    let faults = Faults::default();
    let mut memory = driver_layout(&recordings, [KERNEL, KERNEL])?;
    let driver = memory.view.nvidia_drivers.pop();
    let mut policy = recordings.object("clusterpolicy-ready.yaml")?;
    policy.metadata.name = Some("cluster-policy".to_owned());
    let switched = std::mem::replace(&mut memory.view.cluster_policies, vec![policy]);
    memory.settle(&faults)?;
    let before = memory.log.len();

    memory.view.cluster_policies[0].data["spec"] = switched[0].data["spec"].clone();
    memory.view.nvidia_drivers.extend(driver);
    let between = compare::run_until(&mut memory, &faults, |row| {
        row.upgrade
            .contains(&Some("pod-restart-required cordoned".to_owned()))
    })?;
    assert!(
        between.upgrade.contains(&Some("upgrade-required".to_owned())),
        "{between:?}"
    );
    memory.settle(&faults)?;
    assert_eq!(compare::Row::of(&memory).policy, "ready");
    assert!(memory.log[before..].iter().any(|change| {
        matches!(
            change,
            Change::Delete {
                kind: Kind::DaemonSet,
                orphan: true,
                ..
            }
        )
    }));
    assert!(
        memory
            .view
            .daemon_sets
            .iter()
            .all(|daemon_set| { !daemon_set.name_any().starts_with("nvidia-driver-daemonset") })
    );
    Ok(())
}
