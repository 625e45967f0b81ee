//! What the simulated operator does where no recording tells, on a cluster in memory.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::memory::Memory;
use super::policy::Setup;
use super::view::{hardware_gpus, label};
use super::{Faults, Where, names};

mod offers;

const KERNEL: &str = "6.12.47-cloud-amd64";

/// A Garden Linux node with a GPU, as NFD leaves it.
fn gpu_node(name: &str, kernel: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": {(names::PCI_PRESENT): "true", (names::KERNEL): kernel,
                       (names::OS_ID): "gardenlinux", (names::OS_VERSION): "0"},
            "annotations": {(names::GPUS): "1"},
        },
    }))
    .unwrap()
}

fn memory(version: &str, policy: &Value, nodes: Vec<Node>) -> Memory {
    let mut memory = Memory::default();
    memory.view.crds.insert(names::GPU_CLUSTERS_CRD.to_owned());
    let image = format!("nvcr.io/nvidia/gpu-operator:{version}");
    let containers = json!([{"name": "gpu-operator", "image": image}]);
    memory.view.deployments = vec![
        serde_json::from_value(json!({
            "metadata": {"name": names::OPERATOR_DEPLOYMENT},
            "spec": {"selector": {}, "template": {"spec": {"containers": containers}}},
            "status": {"availableReplicas": 1},
        }))
        .unwrap(),
    ];
    memory.view.cluster_policies = vec![
        serde_json::from_value(json!({
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": policy,
        }))
        .unwrap(),
    ];
    memory.view.nodes = nodes;
    memory
}

/// The line 26.3, with the driver in ClusterPolicy.
fn policy_layout(nodes: Vec<Node>) -> Memory {
    let driver = json!({"repository": "r", "image": "driver", "version": "590", "usePrecompiled": true,
                        "upgradePolicy": {"autoUpgrade": true}});
    memory("v26.3.3", &json!({ "driver": driver }), nodes)
}

/// The line 26.7, with NVIDIADrivers of these names and selectors.
fn driver_layout(nodes: Vec<Node>, drivers: &[(&str, Value)]) -> Memory {
    let mut memory = memory("v26.7.0", &json!({"driver": {"useNvidiaDriverCRD": true}}), nodes);
    let objects = drivers.iter().map(|(name, selector)| {
        let spec = json!({"driverType": "gpu", "repository": "r", "image": "driver", "version": "590",
                          "usePrecompiled": true, "nodeSelector": selector});
        serde_json::from_value(json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
            "metadata": {"name": name, "uid": name}, "spec": spec,
        }))
        .unwrap()
    });
    memory.view.nvidia_drivers = objects.collect();
    memory
}

fn policy_status(memory: &Memory) -> &Value {
    &memory.view.cluster_policies[0].data["status"]
}

fn allocatable(memory: &Memory, index: usize) -> Option<String> {
    let status = memory.view.nodes[index].status.as_ref()?;
    status
        .allocatable
        .as_ref()?
        .get(names::GPU_RESOURCE)
        .map(|quantity| quantity.0.clone())
}

fn driver_daemon_sets(memory: &Memory) -> Vec<String> {
    let drivers = memory.view.daemon_sets.iter();
    drivers
        .filter(|found| label(*found, names::COMPONENT) == Some(names::DRIVER_COMPONENT))
        .map(kube::ResourceExt::name_any)
        .collect()
}

#[test]
fn without_labels_or_gpus_the_policy_is_ready_all_the_same() {
    let mut bare = gpu_node("a", KERNEL);
    bare.labels_mut().clear();
    let mut memory = policy_layout(vec![bare]);
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(
        policy_status(&memory)["conditions"][0]["reason"],
        "NFDLabelsMissing"
    );

    memory.view.nodes[0]
        .labels_mut()
        .insert(names::KERNEL.to_owned(), KERNEL.to_owned());
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(policy_status(&memory)["conditions"][0]["reason"], "NoGPUNodes");
    assert_eq!(policy_status(&memory)["state"], "ready");
    assert!(memory.view.daemon_sets.is_empty());
}

#[test]
fn a_dead_operator_leaves_everything_and_what_runs_goes_on() {
    let dead = Faults {
        operator_dead: true,
        ..Faults::default()
    };
    let mut memory = policy_layout(vec![gpu_node("a", KERNEL)]);
    memory.settle(&dead).unwrap();
    assert!(memory.log.is_empty(), "{:?}", memory.log);

    memory.settle(&Faults::default()).unwrap();
    memory.view.nodes.push(gpu_node("b", KERNEL));
    memory.settle(&dead).unwrap();
    assert_eq!(label(&memory.view.nodes[1], names::GPU_PRESENT), None);
    assert_eq!(allocatable(&memory, 0).as_deref(), Some("1"));
}

#[test]
fn a_policy_may_stay_without_a_status() {
    let silent = Faults {
        no_cluster_policy_status: true,
        ..Faults::default()
    };
    let mut memory = policy_layout(vec![gpu_node("a", KERNEL)]);
    memory.settle(&silent).unwrap();
    assert!(policy_status(&memory).is_null());
    assert_eq!(allocatable(&memory, 0).as_deref(), Some("1"));
}

#[test]
fn since_26_7_nothing_happens_without_the_crd_of_gpu_clusters() {
    let mut memory = driver_layout(vec![gpu_node("a", KERNEL)], &[("one", json!({}))]);
    memory.view.crds.clear();
    memory.settle(&Faults::default()).unwrap();
    assert!(memory.log.is_empty(), "{:?}", memory.log);
}

#[test]
fn a_second_policy_gets_no_status() {
    let mut memory = policy_layout(vec![gpu_node("a", KERNEL)]);
    let mut second = memory.view.cluster_policies[0].clone();
    second.metadata.name = Some("another".to_owned());
    second.metadata.creation_timestamp = serde_json::from_value(json!("2026-02-02T00:00:00Z")).unwrap();
    memory.view.cluster_policies.insert(0, second);
    memory.settle(&Faults::default()).unwrap();
    assert!(memory.view.cluster_policies[0].data["status"].is_null());
    assert_eq!(memory.view.cluster_policies[1].data["status"]["state"], "ready");
}

#[test]
fn a_missing_version_label_before_26_7_leaves_the_state() {
    let mut node = gpu_node("a", KERNEL);
    node.labels_mut().remove(names::OS_VERSION);
    let mut memory = policy_layout(vec![node]);
    memory.settle(&Faults::default()).unwrap();
    assert!(
        policy_status(&memory).is_null(),
        "no state was known, and the CRD requires one"
    );

    memory.view.cluster_policies[0].data["status"] = json!({"state": "ready"});
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(policy_status(&memory)["state"], "ready");
    assert_eq!(
        policy_status(&memory)["conditions"][1]["reason"],
        "ReconcileFailed"
    );
}

#[test]
fn a_missing_version_label_since_26_7_is_not_ready() {
    let mut node = gpu_node("a", KERNEL);
    node.labels_mut().remove(names::OS_VERSION);
    let mut memory = driver_layout(vec![node], &[("one", json!({}))]);
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(policy_status(&memory)["state"], "notReady");
    let message = policy_status(&memory)["conditions"][1]["message"]
        .as_str()
        .unwrap();
    assert!(message.ends_with(names::OS_VERSION), "{message}");
}

#[test]
fn a_new_kernel_brings_a_daemon_set_and_the_old_one_goes() {
    let mut memory = policy_layout(vec![gpu_node("a", KERNEL)]);
    memory.settle(&Faults::default()).unwrap();
    memory.view.nodes[0]
        .labels_mut()
        .insert(names::KERNEL.to_owned(), "6.18.50-cloud-amd64".to_owned());
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(
        driver_daemon_sets(&memory),
        ["nvidia-driver-daemonset-6.18.50-cloud-amd64-gardenlinux0"]
    );
}

#[test]
fn a_driver_that_is_switched_off_stays() {
    let mut memory = policy_layout(vec![gpu_node("a", KERNEL)]);
    memory.settle(&Faults::default()).unwrap();
    memory.view.cluster_policies[0].data["spec"]["driver"]["enabled"] = json!(false);
    memory.view.cluster_policies[0].data["spec"]["dcgmExporter"] = json!({"enabled": false});
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(driver_daemon_sets(&memory).len(), 1);
    assert_eq!(
        memory.view.nodes[0].annotations().get(names::UPGRADE_ENABLED),
        None
    );
    assert!(memory.view.daemon_set("nvidia-dcgm-exporter").is_none());
}

#[test]
fn a_node_without_a_driver_needs_one_in_its_image() {
    let mut node = gpu_node("a", KERNEL);
    node.labels_mut()
        .insert(names::DEPLOY_DRIVER.to_owned(), "false".to_owned());
    let mut memory = driver_layout(vec![node], &[("one", json!({}))]);
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(label(&memory.view.nodes[0], names::DEPLOY_DRIVER), Some("false"));
    assert_eq!(allocatable(&memory, 0), None);

    let annotations = memory.view.nodes[0].annotations_mut();
    annotations.insert(names::PREINSTALLED_DRIVER.to_owned(), "true".to_owned());
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(
        allocatable(&memory, 0),
        Some(hardware_gpus(&memory.view.nodes[0]).to_string())
    );
}

#[test]
fn an_opted_out_node_gets_no_operands() {
    let mut node = gpu_node("a", KERNEL);
    node.labels_mut()
        .insert(names::DEPLOY_OPERANDS.to_owned(), "false".to_owned());
    let mut memory = driver_layout(vec![node], &[("one", json!({}))]);
    memory.settle(&Faults::default()).unwrap();
    assert!(memory.view.pods.is_empty());
    assert_eq!(label(&memory.view.nodes[0], names::GPU_PRESENT), Some("true"));
}

#[test]
fn two_drivers_for_one_node_are_a_conflict() {
    let selector = json!({(names::OS_ID): "gardenlinux"});
    let drivers = [("one", selector), ("two", json!({}))];
    let mut memory = driver_layout(vec![gpu_node("a", KERNEL)], &drivers);
    memory.settle(&Faults::default()).unwrap();
    let conditions = &memory.view.nvidia_drivers[0].data["status"]["conditions"];
    assert_eq!(conditions[1]["reason"], "ConflictingNodeSelector");
    assert_eq!(
        conditions[1]["message"],
        "multiple NVIDIADrivers match the same node a: [one two]"
    );
    assert_eq!(label(&memory.view.nodes[0], names::DRIVER_OWNER), None);
}

#[test]
fn a_new_driver_that_crashes_fails_the_change_and_keeps_the_node_cordoned() {
    let mut memory = driver_layout(vec![gpu_node("a", KERNEL)], &[("one", json!({}))]);
    memory.settle(&Faults::default()).unwrap();
    memory.view.nvidia_drivers[0].data["spec"]["version"] = json!("580");
    let crash = Faults {
        driver_crash_loop: Where::Everywhere,
        ..Faults::default()
    };
    memory.settle(&crash).unwrap();
    let node = &memory.view.nodes[0];
    assert_eq!(label(node, names::UPGRADE_STATE), Some("upgrade-failed"));
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, Some(true));
    assert_eq!(allocatable(&memory, 0).as_deref(), Some("0"));

    memory.settle(&Faults::default()).unwrap();
    let node = &memory.view.nodes[0];
    assert_eq!(label(node, names::UPGRADE_STATE), Some("upgrade-done"));
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, None);
}

#[test]
fn a_node_that_was_cordoned_stays_so_after_the_change() {
    let mut memory = driver_layout(vec![gpu_node("a", KERNEL)], &[("one", json!({}))]);
    memory.settle(&Faults::default()).unwrap();
    memory.view.nodes[0].spec.get_or_insert_default().unschedulable = Some(true);
    memory.view.nvidia_drivers[0].data["spec"]["version"] = json!("580");
    memory.settle(&Faults::default()).unwrap();
    let node = &memory.view.nodes[0];
    assert_eq!(label(node, names::UPGRADE_STATE), Some("upgrade-done"));
    assert_eq!(node.spec.as_ref().unwrap().unschedulable, Some(true));
    assert_eq!(node.annotations().get(names::UPGRADE_WAS_CORDONED), None);
}

#[test]
fn before_26_7_a_change_of_the_layout_takes_all_driver_pods_at_once() {
    let mut memory = policy_layout(vec![gpu_node("gpu-0", KERNEL), gpu_node("gpu-1", KERNEL)]);
    memory.settle(&Faults::default()).unwrap();
    let drivers = |memory: &Memory| {
        let pods = memory.view.pods.iter();
        pods.filter(|pod| label(*pod, names::COMPONENT) == Some(names::DRIVER_COMPONENT))
            .count()
    };
    assert_eq!(drivers(&memory), 2);

    memory.view.cluster_policies[0].data["spec"]["driver"]["useNvidiaDriverCRD"] = json!(true);
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(drivers(&memory), 0);
    assert_eq!(allocatable(&memory, 0).as_deref(), Some("0"));
}

#[test]
fn the_old_controller_leads_until_its_pod_is_gone() {
    let mut memory = policy_layout(vec![gpu_node("gpu-0", KERNEL)]);
    memory.settle(&Faults::default()).unwrap();
    let pod = |version: &str, created: &str| {
        let image = format!("nvcr.io/nvidia/gpu-operator:{version}");
        serde_json::from_value(json!({
            "metadata": {"name": version, "labels": {"app": names::OPERATOR_DEPLOYMENT}, "creationTimestamp": created},
            "spec": {"containers": [{"name": "gpu-operator", "image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap()
    };
    let old = pod("v26.3.3", "2026-01-01T00:00:00Z");
    let new = pod("v26.7.0", "2026-01-02T00:00:00Z");
    let since_26_7 = |memory: &Memory| Setup::find(&memory.view).unwrap().since_26_7;
    memory.view.pods.push(new);
    assert!(since_26_7(&memory));
    memory.view.pods.push(old);
    assert!(!since_26_7(&memory));
}
