//! What nodes offer with sharing and partitions, where no recording tells either.

use serde_json::{Value, json};

use super::{KERNEL, driver_layout, gpu_node, label};
use crate::simulated::memory::Memory;
use crate::simulated::{Faults, names};

/// A cluster with one machine with two GPUs of the product, and such a ClusterPolicy.
fn memory(product: &str, policy: &Value) -> Memory {
    let mut node = gpu_node("a", KERNEL);
    let hardware = node.metadata.annotations.get_or_insert_default();
    hardware.insert(names::GPUS.to_owned(), "2".to_owned());
    hardware.insert(names::PRODUCT.to_owned(), product.to_owned());
    let mut memory = driver_layout(vec![node], &[("one", json!({}))]);
    let spec = &mut memory.view.cluster_policies[0].data["spec"];
    for (key, value) in policy.as_object().unwrap() {
        spec[key] = value.clone();
    }
    memory
}

fn config_map(name: &str, replicas: u32) -> k8s_openapi::api::core::v1::ConfigMap {
    let resource = json!({"name": names::GPU_RESOURCE, "replicas": replicas});
    let config = json!({"version": "v1", "sharing": {"timeSlicing": {"resources": [resource]}}});
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"any": config.to_string()}})).unwrap()
}

fn configured(name: &str) -> Value {
    json!({"config": {"name": name, "default": "any"}})
}

/// What the node offers.
fn offered(memory: &Memory) -> Value {
    let status = memory.view.nodes[0].status.clone().unwrap();
    json!(status.allocatable.unwrap())
}

/// The node without NFD has no labels of GFD's, so they are looked at directly.
fn gfd(memory: &Memory, key: &str) -> String {
    let labels = crate::simulated::gfd::labels(&memory.view, &memory.view.nodes[0]);
    labels[&format!("nvidia.com/{key}")].clone()
}

#[test]
fn a_shared_gpu_is_offered_as_often_as_the_configuration_says() {
    let mut memory = memory("Tesla-T4", &json!({"devicePlugin": configured("four")}));
    memory.view.config_maps = vec![config_map("four", 4), config_map("eight", 8)];
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "8"}));
    assert_eq!(gfd(&memory, "gpu.product"), "Tesla-T4-SHARED");
    assert_eq!(gfd(&memory, "gpu.count"), "2");
    assert_eq!(gfd(&memory, "gpu.replicas"), "4");
    assert_eq!(gfd(&memory, "gpu.sharing-strategy"), "time-slicing");

    // Other content under the same name is not looked at; another name replaces the Pods.
    memory.view.cluster_policies[0].data["spec"]["devicePlugin"] = configured("eight");
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "16"}));

    memory.view.cluster_policies[0].data["spec"]["devicePlugin"] = json!({});
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "2"}));
    assert_eq!(gfd(&memory, "gpu.product"), "Tesla-T4");
    assert_eq!(gfd(&memory, "gpu.sharing-strategy"), "none");
}

#[test]
fn a_label_chooses_another_entry_for_a_node() {
    let mut memory = memory("Tesla-T4", &json!({"devicePlugin": configured("four")}));
    memory.view.config_maps = vec![config_map("four", 4)];
    let labels = memory.view.nodes[0].metadata.labels.get_or_insert_default();
    labels.insert(names::PLUGIN_CONFIG.to_owned(), "other".to_owned());
    memory.settle(&Faults::default()).unwrap();
    assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "2"}));
}

#[test]
fn partitions_go_by_the_name_that_the_strategy_says() {
    for (strategy, offers, product) in [
        ("none", json!({"nvidia.com/gpu": "2"}), "NVIDIA-A100-SXM4-40GB"),
        (
            "single",
            json!({"nvidia.com/gpu": "14"}),
            "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        ),
        (
            "mixed",
            json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "14"}),
            "NVIDIA-A100-SXM4-40GB",
        ),
    ] {
        let mut memory = memory(
            "NVIDIA-A100-SXM4-40GB",
            &json!({"mig": {"strategy": strategy}, "migManager": {"enabled": true, "config": {"default": "all-disabled"}}}),
        );
        // What GFD and NFD say of such a GPU.
        let labels = memory.view.nodes[0].metadata.labels.get_or_insert_default();
        labels.insert(names::MIG_CAPABLE.to_owned(), "true".to_owned());
        memory.settle(&Faults::default()).unwrap();
        assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "2"}), "{strategy}");

        let labels = memory.view.nodes[0].metadata.labels.get_or_insert_default();
        labels.insert(names::MIG_CONFIG.to_owned(), "all-1g.5gb".to_owned());
        memory.settle(&Faults::default()).unwrap();
        assert_eq!(
            label(&memory.view.nodes[0], names::MIG_CONFIG_STATE),
            Some("success")
        );
        assert_eq!(offered(&memory), offers, "{strategy}");
        assert_eq!(gfd(&memory, "gpu.product"), product, "{strategy}");
    }
}

#[test]
fn a_layout_that_the_gpu_cannot_have_fails() {
    let mut memory = memory("NVIDIA-A100-SXM4-40GB", &json!({"mig": {"strategy": "mixed"}}));
    let labels = memory.view.nodes[0].metadata.labels.get_or_insert_default();
    labels.insert(names::MIG_CAPABLE.to_owned(), "true".to_owned());
    labels.insert(names::MIG_CONFIG.to_owned(), "all-9g.90gb".to_owned());
    memory.settle(&Faults::default()).unwrap();
    let state = label(&memory.view.nodes[0], names::MIG_CONFIG_STATE);
    assert_eq!(state, Some("failed"));
    assert_eq!(offered(&memory), json!({"nvidia.com/gpu": "2"}));
}
