//! The controller's labels and annotations on nodes.
//!
//! From NFD's labels follow `gpu.present`, the `gpu.deploy.*` labels that let each operand onto a
//! node, the owning NVIDIADriver and the mark that driver changes are automatic. Values that a user
//! set are kept; a node whose GPU vanished loses the deploy labels.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::core::DynamicObject;

use super::names;
use super::policy::{Setup, UpgradePolicy, at, string_map};
use super::view::{View, has_gpu_label, label};

const OPERANDS: [&str; 8] = [
    "driver",
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
];
/// Products that can be partitioned although GFD has not said so yet.
const MIG_PRODUCTS: [&str; 3] = ["h100", "a100", "a30"];

/// Brings the controller's labels and annotations on all nodes up to date.
pub fn label_nodes(setup: &Setup<'_>, view: &View, nodes: &mut [Node]) {
    for node in nodes.iter_mut() {
        mark_gpu(node);
        label_operands(setup, node);
    }
    if setup.uses_nvidia_drivers() {
        assign_owners(&view.nvidia_drivers, nodes);
        for driver in &view.nvidia_drivers {
            let automatic = UpgradePolicy::of_driver(driver).auto_upgrade;
            let name = driver.name_any();
            let owned = nodes
                .iter_mut()
                .filter(|node| label(*node, names::DRIVER_OWNER) == Some(&name));
            owned.for_each(|node| mark_automatic(node, automatic));
        }
    } else {
        let automatic = UpgradePolicy::of_policy(setup).auto_upgrade;
        nodes
            .iter_mut()
            .filter(|node| has_gpu_label(node))
            .for_each(|node| mark_automatic(node, automatic));
    }
}

fn mark_gpu(node: &mut Node) {
    let found = names::PCI_LABELS
        .iter()
        .any(|key| label(node, key) == Some("true"));
    match (found, has_gpu_label(node)) {
        (true, false) => node
            .labels_mut()
            .insert(names::GPU_PRESENT.to_owned(), "true".to_owned()),
        (false, true) => node
            .labels_mut()
            .insert(names::GPU_PRESENT.to_owned(), "false".to_owned()),
        _ => None,
    };
}

fn label_operands(setup: &Setup<'_>, node: &mut Node) {
    let opted_out = label(node, names::DEPLOY_OPERANDS) == Some("false");
    if opted_out || !has_gpu_label(node) {
        let known = |key: &str| {
            key.strip_prefix(names::DEPLOY_PREFIX).is_some_and(|operand| {
                OPERANDS.contains(&operand) || operand == "client" || operand == "mig-manager"
            })
        };
        node.labels_mut().retain(|key, _| !known(key));
        return;
    }
    let client = setup.since_26_7.then_some("client");
    for operand in OPERANDS.into_iter().chain(client) {
        let value = node
            .labels_mut()
            .entry(format!("{}{operand}", names::DEPLOY_PREFIX))
            .or_default();
        if value.is_empty() {
            "true".clone_into(value);
        }
    }
    if is_mig_capable(node) {
        let labels = node.labels_mut();
        labels
            .entry(names::DEPLOY_MIG_MANAGER.to_owned())
            .or_insert_with(|| "true".to_owned());
        let default = at(setup.part("migManager"), "/config/default");
        if setup.flag("/spec/migManager/enabled", true) && default == "all-disabled" {
            labels
                .entry(names::MIG_CONFIG.to_owned())
                .or_insert_with(|| "all-disabled".to_owned());
        }
    }
}

fn is_mig_capable(node: &Node) -> bool {
    match label(node, names::MIG_CAPABLE) {
        Some(capable) => capable == "true",
        None => label(node, "nvidia.com/gpu.product").is_some_and(|product| {
            let product = product.to_lowercase();
            MIG_PRODUCTS.iter().any(|name| product.contains(name))
        }),
    }
}

fn mark_automatic(node: &mut Node, automatic: bool) {
    if automatic {
        node.annotations_mut()
            .insert(names::UPGRADE_ENABLED.to_owned(), "true".to_owned());
    } else {
        node.annotations_mut().remove(names::UPGRADE_ENABLED);
    }
}

/// Writes each GPU node's owner; nothing at all if two NVIDIADrivers want the same node.
fn assign_owners(drivers: &[DynamicObject], nodes: &mut [Node]) {
    if conflict(drivers, nodes).is_some() {
        return;
    }
    for node in nodes.iter_mut().filter(|node| has_gpu_label(node)) {
        let owner = drivers
            .iter()
            .find(|driver| !is_default(driver) && selects(driver, node.labels()))
            .or_else(|| drivers.iter().find(|driver| is_default(driver)))
            .map(ResourceExt::name_any);
        match owner {
            Some(owner) => node.labels_mut().insert(names::DRIVER_OWNER.to_owned(), owner),
            None => node.labels_mut().remove(names::DRIVER_OWNER),
        };
    }
}

/// Two NVIDIADrivers that want the same node, in the controller's words.
pub fn conflict(drivers: &[DynamicObject], nodes: &[Node]) -> Option<String> {
    nodes.iter().find_map(|node| {
        let owners: Vec<String> = drivers
            .iter()
            .filter(|driver| !is_default(driver) && selects(driver, node.labels()))
            .map(ResourceExt::name_any)
            .collect();
        (owners.len() > 1).then(|| {
            format!(
                "multiple NVIDIADrivers match the same node {}: [{}]",
                node.name_any(),
                owners.join(" ")
            )
        })
    })
}

/// Whether the NVIDIADriver takes the nodes that no other one selects.
pub fn is_default(driver: &DynamicObject) -> bool {
    at(&driver.data, "/spec/default").as_bool().unwrap_or_default()
}

fn selects(driver: &DynamicObject, labels: &BTreeMap<String, String>) -> bool {
    string_map(&driver.data, "/spec/nodeSelector")
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}
