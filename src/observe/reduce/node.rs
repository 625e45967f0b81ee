//! GPU nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Resource, ResourceExt};

use crate::api::FIELD_MANAGER;
use crate::facts::{
    DriverChange, FeatureLabels, GpuLabels, MachineUpdate, NodeFacts, OPERANDS_LABEL, OperandsLabel,
    SystemFacts, is_gpu_resource, labels_tell_gpu, labels_tell_own_driver, told,
};

/// The labels of Node Feature Discovery that NVIDIA's operator asks for (`internal/nodeinfo` of gpu-operator v26.7.0).
const NEEDED_FEATURES: [&str; 2] = [
    "feature.node.kubernetes.io/kernel-version.full",
    "feature.node.kubernetes.io/system-os_release.ID",
];

/// The one of them that it cannot take from Garden Linux by itself.
const VERSION_FEATURE: &str = "feature.node.kubernetes.io/system-os_release.VERSION_ID";

/// Taint of a node that the cluster autoscaler is about to remove.
const REMOVAL_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Condition of a node whose machine Gardener's machine-controller-manager drains and removes.
const REMOVAL_CONDITION: &str = "Terminating";

type Labels = BTreeMap<String, String>;

/// A node that may have a GPU, or that has a label of the module's to be taken off; `None` for any other node.
pub fn node(node: &Node) -> Option<NodeFacts> {
    let status = node.status.as_ref();
    let capacity = count_gpus(status.and_then(|status| status.capacity.as_ref()));
    let labels = node.labels();
    let instance_type = labels.get("node.kubernetes.io/instance-type");
    let shows_gpu = capacity > 0 || labels_tell_gpu(labels);
    if !shows_gpu && instance_type.is_none() && !labels.contains_key(OPERANDS_LABEL) {
        return None;
    }
    let ready = condition(node, "Ready");
    let created = node.metadata.creation_timestamp.as_ref();
    Some(NodeFacts {
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        pool: labels.get("worker.gardener.cloud/pool").cloned(),
        instance_type: instance_type.cloned(),
        shows_gpu,
        system: status
            .and_then(|status| status.node_info.as_ref())
            .map(system)
            .unwrap_or_default(),
        features: features(labels),
        gpu: gpu(labels),
        operands: operands(node),
        created: created.map_or(Timestamp::UNIX_EPOCH, |time| told(time.0)),
        ready: ready.is_some_and(|ready| ready.status == "True"),
        ready_since: ready
            .and_then(|ready| ready.last_transition_time.as_ref())
            .or(created)
            .map_or(Timestamp::UNIX_EPOCH, |time| told(time.0)),
        leaving: is_leaving(node),
        schedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true),
        capacity,
        allocatable: count_gpus(status.and_then(|status| status.allocatable.as_ref())),
        driver_change: DriverChange::of(labels),
        has_own_driver: labels_tell_own_driver(labels),
        machine_update: MachineUpdate::of(labels),
    })
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// True for a node whose machine is about to be removed.
pub fn is_leaving(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    node.metadata.deletion_timestamp.is_some()
        || taints.any(|taint| taint.key == REMOVAL_TAINT)
        || condition(node, REMOVAL_CONDITION).is_some_and(|condition| condition.status == "True")
}

fn system(info: &NodeSystemInfo) -> SystemFacts {
    SystemFacts {
        os_image: info.os_image.clone(),
        kernel: info.kernel_version.clone(),
        architecture: info.architecture.clone(),
    }
}

fn features(labels: &Labels) -> FeatureLabels {
    // Others write labels with the same prefix.
    if !NEEDED_FEATURES.iter().all(|label| labels.contains_key(*label)) {
        FeatureLabels::Absent
    } else if labels.contains_key(VERSION_FEATURE) {
        FeatureLabels::Complete
    } else {
        FeatureLabels::NoVersion
    }
}

fn gpu(labels: &Labels) -> GpuLabels {
    let label = |name: &str| labels.get(name).cloned();
    GpuLabels {
        product: label("nvidia.com/gpu.product"),
        driver_version: label("nvidia.com/cuda.driver-version.full"),
        cuda_version: label("nvidia.com/cuda.runtime-version.full"),
        sharing_strategy: label("nvidia.com/gpu.sharing-strategy"),
        replicas: label("nvidia.com/gpu.replicas").and_then(|replicas| replicas.parse().ok()),
    }
}

/// The node's label, and whose it is.
pub fn operands(node: &impl Resource) -> Option<OperandsLabel> {
    let value = node.labels().get(OPERANDS_LABEL)?.clone();
    let field = format!("f:{OPERANDS_LABEL}");
    let entries = node.managed_fields().iter();
    let mut owners = entries.filter(|entry| {
        entry
            .fields_v1
            .as_ref()
            .is_some_and(|fields| !fields.0["f:metadata"]["f:labels"][&field].is_null())
    });
    // A label that nobody is noted for is not ours; one that others set too stays theirs.
    let is_ours = owners
        .next()
        .is_some_and(|owner| owner.manager.as_deref() == Some(FIELD_MANAGER))
        && owners.next().is_none();
    Some(OperandsLabel { value, is_ours })
}

fn count_gpus(resources: Option<&BTreeMap<String, Quantity>>) -> u64 {
    let gpus = resources
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_gpu_resource(name));
    gpus.filter_map(|(_, quantity)| quantity.0.parse::<u64>().ok())
        .sum()
}
