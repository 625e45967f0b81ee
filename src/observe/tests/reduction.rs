use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DynamicObject, PartialObjectMeta};
use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::{ANNOTATION_SPEC_DIGEST, NodeFeatureDiscovery};
use crate::desired::DriverUpgrades;
use crate::facts::{
    FeatureLabels, GpuLabels, MachineUpdate, NodeFacts, OPERANDS_LABEL, Revision, SystemFacts,
};
use crate::helm::RevisionStatus;
use crate::observe::reduce;

pub(super) fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(super) fn merged(mut object: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        *object.pointer_mut(pointer).unwrap() = value.clone();
    }
    object
}

/// A GPU node by its capacity alone.
fn gpu_node() -> Value {
    json!({
        "metadata": { "name": "gpu-0", "uid": "u-0", "creationTimestamp": "2026-11-30T08:00:00Z",
            "labels": { "worker.gardener.cloud/pool": "gpu", "node.kubernetes.io/instance-type": "m5.large" } },
        "spec": {},
        "status": {
            "capacity": { "cpu": "8", "nvidia.com/gpu": "2" },
            "allocatable": { "cpu": "8", "nvidia.com/gpu": "1" },
            "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": "True" }],
            "nodeInfo": { "osImage": "Garden Linux 2150.9.0", "kernelVersion": "6.18.41-cloud-amd64", "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.1.4", "bootID": "", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3",
                "machineID": "", "operatingSystem": "linux", "systemUUID": "" },
        },
    })
}

fn node(object: Value) -> Option<NodeFacts> {
    reduce::node(&read::<Node>(object))
}

#[test]
fn a_gpu_node_in_full() {
    let expected = NodeFacts {
        name: "gpu-0".to_owned(),
        uid: "u-0".to_owned(),
        pool: Some("gpu".to_owned()),
        instance_type: Some("m5.large".to_owned()),
        shows_gpu: true,
        system: SystemFacts {
            os_image: "Garden Linux 2150.9.0".to_owned(),
            kernel: "6.18.41-cloud-amd64".to_owned(),
            architecture: "amd64".to_owned(),
        },
        features: FeatureLabels::Absent,
        gpu: GpuLabels::default(),
        operands: None,
        created: at("2026-11-30T08:00:00Z"),
        ready: true,
        ready_since: at("2026-11-30T08:00:00Z"),
        leaving: false,
        schedulable: true,
        capacity: 2,
        allocatable: 1,
        driver_change: None,
        has_own_driver: false,
        machine_update: None,
    };
    assert_eq!(node(gpu_node()), Some(expected));
}

#[test]
fn what_discovery_says_of_a_node_is_read_from_its_labels() {
    let labelled = |labels: Value| node(merged(gpu_node(), &[("/metadata/labels", labels)])).unwrap();
    let id = "feature.node.kubernetes.io/system-os_release.ID";
    let version = "feature.node.kubernetes.io/system-os_release.VERSION_ID";
    let kernel = "feature.node.kubernetes.io/kernel-version.full";
    for (labels, features) in [
        (json!({ "x": "y" }), FeatureLabels::Absent),
        // Another tool's label with that prefix, and a worker of NFD that is not done.
        (
            json!({ "feature.node.kubernetes.io/mine": "true" }),
            FeatureLabels::Absent,
        ),
        (json!({ id: "gardenlinux" }), FeatureLabels::Absent),
        (
            json!({ id: "gardenlinux", kernel: "6.18.41" }),
            FeatureLabels::NoVersion,
        ),
        (
            json!({ id: "gardenlinux", kernel: "6.18.41", version: "0" }),
            FeatureLabels::Complete,
        ),
    ] {
        assert_eq!(labelled(labels.clone()).features, features, "{labels}");
    }
    let gpu = labelled(json!({ "nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/cuda.driver-version.full": "580.178.04",
        "nvidia.com/cuda.runtime-version.full": "13.0" }))
    .gpu;
    let expected = GpuLabels {
        product: Some("Tesla-T4-SHARED".to_owned()),
        driver_version: Some("580.178.04".to_owned()),
        cuda_version: Some("13.0".to_owned()),
        sharing_strategy: Some("time-slicing".to_owned()),
        replicas: Some(4),
    };
    assert_eq!(gpu, expected);
}

#[test]
fn who_set_the_label_that_keeps_nvidia_off_is_read_from_managed_fields() {
    let by = |managers: &[&str]| {
        let entry = |manager: &&str| {
            json!({ "manager": manager, "operation": "Apply", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": { format!("f:{OPERANDS_LABEL}"): {} } } } })
        };
        let mut object = gpu_node();
        object["metadata"]["labels"] = json!({ OPERANDS_LABEL: "false" });
        object["metadata"]["managedFields"] = managers.iter().map(entry).collect();
        let label = node(object).unwrap().operands.unwrap();
        assert_eq!(label.value, "false");
        label.is_ours
    };
    assert!(by(&["gpu-manager"]));
    for theirs in [&[][..], &["kubectl-label"], &["gpu-manager", "kubectl-label"]] {
        assert!(!by(theirs), "{theirs:?}");
    }
}

#[test]
fn a_node_with_the_label_alone_is_known_so_that_it_can_be_taken_off() {
    // Node Feature Discovery is gone with the release, and the cloud gives no instance type.
    let bare = json!({ "metadata": { "name": "n", "labels": { OPERANDS_LABEL: "false" } } });
    let known = crate::catalogue::Catalogue::compiled_in().unwrap().instance_types;
    let node = node(bare).unwrap();
    assert!(node.is_kept_off() && !node.has_gpu(&known, &[]));
}

#[test]
fn a_gpu_shows_by_type_label_or_capacity() {
    let known = crate::catalogue::Catalogue::compiled_in().unwrap().instance_types;
    let bare = json!({ "metadata": { "name": "n", "labels": {} }, "status": { "capacity": {} } });
    let has_gpu = |object: Value, more: &[String]| {
        let node = node(object);
        node.is_some_and(|node| node.has_gpu(&known, more))
    };
    let of_type = |instance_type: &str, more: &[&str]| {
        let labels = json!({ "node.kubernetes.io/instance-type": instance_type });
        let more: Vec<_> = more.iter().map(|&name| name.to_owned()).collect();
        has_gpu(merged(bare.clone(), &[("/metadata/labels", labels)]), &more)
    };
    let labelled = |labels: Value| has_gpu(merged(bare.clone(), &[("/metadata/labels", labels)]), &[]);
    let sized = |capacity: Value| has_gpu(merged(bare.clone(), &[("/status/capacity", capacity)]), &[]);

    assert!(
        node(json!({ "metadata": { "name": "n" } })).is_none(),
        "a node that has just joined"
    );
    for (instance_type, is_gpu) in [
        ("g4dn.xlarge", true),
        ("g6.xlarge", true),
        ("g6e.48xlarge", true),
        ("p6-b200.48xlarge", true),
        ("g4ad.xlarge", false),
        ("g4dn", false),
        ("m5.large", false),
        ("g2-standard-8", true),
        ("a3-highgpu-8g", true),
        ("n1-standard-8", false),
        ("Standard_NC6s_v3", true),
        ("Standard_NC4as_T4_v3", true),
        ("Standard_ND96isr_H100_v5", true),
        ("Standard_ND96isr_MI300X_v5", false),
        ("Standard_NV4as_v4", false),
        ("Standard_NV8ads_V710_v5", false),
        ("Standard_D4s_v5", false),
        ("ecs.gn7i-c8g1.2xlarge", true),
        ("ecs.ebmgn7e.32xlarge", true),
        ("ecs.vgn6i-m4.xlarge", false),
        ("ecs.g7.xlarge", false),
        ("g_h100_c4", false),
        ("", false),
    ] {
        assert_eq!(of_type(instance_type, &[]), is_gpu, "{instance_type}");
    }
    assert!(of_type("g_h100_c4", &["x", "g_h100*"]) && of_type("g_h100_c4", &["g_h100_c4"]));
    assert!(!of_type("g_h100_c4", &["g_h100"]) && !of_type("g_h100_c4", &["h100*"]));
    for (label, is_gpu) in [
        ("feature.node.kubernetes.io/pci-10de.present", true),
        ("feature.node.kubernetes.io/pci-0302_10de.present", true),
        ("feature.node.kubernetes.io/pci-0300_10de.present", true),
        ("nvidia.com/gpu.present", true),
        ("feature.node.kubernetes.io/pci-8086.present", false),
    ] {
        assert_eq!(labelled(json!({ label: "true" })), is_gpu, "{label}");
        assert!(!labelled(json!({ label: "false" })), "{label}");
    }
    for (resource, is_gpu) in [
        ("nvidia.com/gpu", true),
        ("nvidia.com/gpu.shared", true),
        ("nvidia.com/mig-1g.5gb", true),
        ("amd.com/gpu", false),
        ("nvidia.com/gpu.memory", false),
    ] {
        assert_eq!(sized(json!({ resource: "1" })), is_gpu, "{resource}");
        assert!(!sized(json!({ resource: "0" })), "{resource}");
    }
}

#[test]
fn whole_shared_and_divided_gpus_are_all_counted() {
    let allocatable = json!({ "cpu": "8", "nvidia.com/gpu": "2", "nvidia.com/gpu.shared": "4", "nvidia.com/mig-1g.5gb": "7",
        "nvidia.com/mig-2g.10gb": "what", "amd.com/gpu": "9" });
    let facts = node(merged(gpu_node(), &[("/status/allocatable", allocatable)])).unwrap();
    assert_eq!(facts.allocatable, 13);
}

#[test]
fn cordoned_unready_and_silent_nodes_are_told_apart() {
    let facts = |changes: &[(&str, Value)]| node(merged(gpu_node(), changes)).unwrap();
    assert!(facts(&[]).schedulable && facts(&[]).ready);
    assert!(!facts(&[("/spec", json!({ "unschedulable": true }))]).schedulable);
    assert!(facts(&[("/spec", json!({ "unschedulable": false }))]).schedulable);
    for conditions in [
        json!([]),
        json!([{ "type": "Ready", "status": "False" }]),
        // The node controller's word for a kubelet that is silent.
        json!([{ "type": "Ready", "status": "Unknown" }]),
    ] {
        let facts = facts(&[("/status/conditions", conditions.clone())]);
        assert!(!facts.ready, "{conditions}");
    }
    let none = facts(&[("/status/allocatable", json!({ "nvidia.com/gpu": "0" }))]);
    assert_eq!(none.allocatable, 0);
}

#[test]
fn what_gardener_and_nvidia_do_with_a_node_is_read_from_its_labels() {
    let labelled = |labels: Value| node(merged(gpu_node(), &[("/metadata/labels", labels)])).unwrap();
    let chosen = "node.machine.sapcloud.io/selected-for-update";
    let result = "node.machine.sapcloud.io/update-result";
    for (labels, update) in [
        (
            json!({ "node.machine.sapcloud.io/candidate-for-update": "true" }),
            None,
        ),
        (json!({ chosen: "true" }), Some(MachineUpdate::UnderWay)),
        (
            json!({ chosen: "true", result: "failed" }),
            Some(MachineUpdate::Failed),
        ),
        (
            json!({ chosen: "true", result: "successful" }),
            Some(MachineUpdate::UnderWay),
        ),
        (json!({ result: "failed" }), None),
    ] {
        let mut with_type = labels.clone();
        with_type["node.kubernetes.io/instance-type"] = json!("m5.large");
        assert_eq!(labelled(with_type).machine_update, update, "{labels}");
    }
    for (value, own) in [("true", false), ("false", true), ("pre-installed", true)] {
        let facts = labelled(json!({ "nvidia.com/gpu.deploy.driver": value }));
        assert_eq!(facts.has_own_driver, own, "{value}");
    }
}

#[test]
fn a_node_whose_machine_is_about_to_be_removed_is_leaving() {
    let leaving =
        |pointer: &str, value: Value| node(merged(gpu_node(), &[(pointer, value)])).unwrap().leaving;
    let taint = |key: &str| json!({ "taints": [{ "key": key, "effect": "NoSchedule" }] });
    assert!(leaving("/spec", taint("ToBeDeletedByClusterAutoscaler")));
    assert!(!leaving("/spec", taint("nvidia.com/gpu")));
    let conditions = |status: &str| json!([{ "type": "Ready", "status": "True" }, { "type": "Terminating", "status": status }]);
    assert!(leaving("/status/conditions", conditions("True")));
    assert!(!leaving("/status/conditions", conditions("False")));
    let deleted = json!({ "name": "gpu-0", "deletionTimestamp": "2026-11-30T09:00:00Z",
        "labels": { "node.kubernetes.io/instance-type": "g4dn.xlarge" } });
    assert!(leaving("/metadata", deleted));
}

#[test]
fn since_when_a_node_is_not_ready_is_known() {
    let conditions =
        json!([{ "type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-30T09:30:00Z" }]);
    let facts = node(merged(gpu_node(), &[("/status/conditions", conditions)])).unwrap();
    assert_eq!(
        (facts.ready, facts.ready_since),
        (false, at("2026-11-30T09:30:00Z"))
    );
}

#[test]
fn a_heartbeat_changes_no_fact() {
    let later = merged(
        gpu_node(),
        &[(
            "/status/conditions",
            json!([{ "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-30T09:00:00Z" }]),
        )],
    );
    assert_eq!(node(later), node(gpu_node()));
}

fn secret(labels: &Value) -> Option<Revision> {
    named_secret("sh.helm.release.v1.gpu-operator.v3", labels)
}

fn named_secret(name: &str, labels: &Value) -> Option<Revision> {
    reduce::revision(&read::<PartialObjectMeta<Secret>>(json!({ "metadata": {
        "name": name, "uid": "u-3",
        "creationTimestamp": "2026-11-30T08:00:00Z",
        "labels": labels,
        "managedFields": [
            { "manager": "helm", "operation": "Update", "time": "2026-11-30T08:05:00Z" },
            { "manager": "helm", "operation": "Update", "time": "2026-11-30T08:01:00Z" },
            { "manager": "old", "operation": "Update" },
        ],
    }})))
}

#[test]
fn a_revision_is_read_from_labels() {
    let labels = json!({ "owner": "helm", "name": "gpu-operator", "version": "3", "status": "pending-upgrade",
        "gpu-manager.kyma-project.io/fingerprint": "abc", "gpu-manager.kyma-project.io/by": "gpu-manager-0",
        "gpu-manager.kyma-project.io/revision": "3", "gpu-manager.kyma-project.io/chart": "26.7.0",
        "gpu-manager.kyma-project.io/node-feature-discovery": "Cluster",
        "gpu-manager.kyma-project.io/driver": "26.7.0_580_1.17.0_0123", "gpu-manager.kyma-project.io/driver-upgrades": "Held" });
    let expected = Revision {
        number: 3,
        uid: "u-3".to_owned(),
        status: RevisionStatus::PendingUpgrade,
        created: at("2026-11-30T08:00:00Z"),
        changed: at("2026-11-30T08:05:00Z"),
        fingerprint: Some("abc".to_owned()),
        by: Some("gpu-manager-0".to_owned()),
        meant: Some(3),
        chart: Some(Version::new(26, 7, 0)),
        node_feature_discovery: Some(NodeFeatureDiscovery::Cluster),
        layout: None,
        driver: "26.7.0_580_1.17.0_0123".parse().ok(),
        driver_upgrades: Some(DriverUpgrades::Held),
    };
    assert_eq!(secret(&labels), Some(expected));
}

#[test]
fn broken_labels_make_no_revision_and_foreign_ones_no_mark() {
    for labels in [
        json!({}),
        json!({ "version": "3" }),
        json!({ "status": "deployed" }),
        json!({ "version": "three", "status": "deployed" }),
        json!({ "version": "-1", "status": "deployed" }),
    ] {
        assert_eq!(secret(&labels), None, "{labels}");
    }
    let foreign = secret(&json!({ "version": "3", "status": "from-the-future",
        "gpu-manager.kyma-project.io/revision": "x" }))
    .unwrap();
    assert_eq!(foreign.status, RevisionStatus::Unknown);
    assert_eq!(
        (foreign.fingerprint, foreign.by, foreign.meant),
        (None, None, None)
    );
    assert_eq!((foreign.driver, foreign.driver_upgrades), (None, None));
}

#[test]
fn a_secret_that_helm_does_not_look_for_is_no_revision() {
    let labels = json!({ "owner": "helm", "name": "gpu-operator", "version": "3", "status": "deployed" });
    for name in [
        "backup-of-v3",
        "sh.helm.release.v1.gpu-operator.v4",
        "sh.helm.release.v1.gpu-operator.v3-copy",
    ] {
        assert_eq!(named_secret(name, &labels), None, "{name}");
    }
}

#[test]
fn a_revision_without_managed_fields_is_as_old_as_its_secret() {
    let secret = |metadata: Value| {
        reduce::revision(&read::<PartialObjectMeta<Secret>>(
            json!({ "metadata": metadata }),
        ))
        .unwrap()
    };
    let labels = json!({ "version": "1", "status": "deployed" });
    let name = "sh.helm.release.v1.gpu-operator.v1";
    let dated =
        secret(json!({ "name": name, "labels": labels, "creationTimestamp": "2026-11-30T08:00:00Z" }));
    assert_eq!(dated.changed, at("2026-11-30T08:00:00Z"));
    assert_eq!(
        secret(json!({ "name": name, "labels": labels })).changed,
        Timestamp::UNIX_EPOCH
    );
}

#[test]
fn nvidias_kinds_tell_state_owner_and_error() {
    // As NVIDIA's controller writes it.
    let object: DynamicObject = read(json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
        "metadata": { "name": "cluster-policy", "annotations": {
            "meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator" } },
        "status": { "state": "notReady", "namespace": "gpu-operator", "conditions": [
            { "type": "Ready", "status": "False", "reason": "Error", "message": "" },
            { "type": "Error", "status": "True", "reason": "OperandNotReady",
                "message": "ClusterPolicy is not ready, states not ready: [state-driver]" },
        ]},
    }));
    let error = (
        "OperandNotReady".to_owned(),
        "ClusterPolicy is not ready, states not ready: [state-driver]".to_owned(),
    );
    let policy = reduce::policy(&object);
    assert_eq!(
        (policy.name.as_str(), policy.state.as_deref()),
        ("cluster-policy", Some("notReady"))
    );
    assert!(policy.owner.is_some_and(|owner| owner.is_module_release()));
    assert_eq!(policy.error, Some(error.clone()));
    let driver = reduce::driver(&object);
    assert_eq!(
        (driver.state.as_deref(), driver.error),
        (Some("notReady"), Some(error))
    );
}

#[test]
fn nvidias_kinds_before_and_without_an_error() {
    for (status, state) in [
        (json!(null), None),
        (json!({ "state": "" }), None),
        (json!({ "state": "ready", "conditions": null }), Some("ready")),
        (
            json!({ "state": "ready", "conditions": [{ "type": "Error", "status": "False", "reason": "Ready", "message": "" }] }),
            Some("ready"),
        ),
    ] {
        let object: DynamicObject = read(json!({ "metadata": { "name": "x", "annotations": {
            "meta.helm.sh/release-name": "gpu-operator" } }, "status": status }));
        let policy = reduce::policy(&object);
        assert_eq!(
            (policy.state.as_deref(), policy.error, policy.owner),
            (state, None, None),
            "{status}"
        );
    }
}

#[test]
fn a_crd_tells_whether_the_module_applied_it() {
    let crd = |annotations: Value| {
        let crd = json!({ "metadata": { "name": "x", "annotations": annotations } });
        reduce::crd(&read::<PartialObjectMeta<CustomResourceDefinition>>(crd)).spec_digest
    };
    assert_eq!(crd(json!({ ANNOTATION_SPEC_DIGEST: "d" })).as_deref(), Some("d"));
    assert_eq!(crd(json!({ "other": "d" })), None);
}
