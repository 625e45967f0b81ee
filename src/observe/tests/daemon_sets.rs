//! DaemonSets of the release, and those that others run beside it.

use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

use super::reduction::{merged, read};
use crate::facts::{DaemonSetFacts, DaemonSetRole, DriverImage, NeighbourKind};
use crate::observe::reduce;

fn role(set: Value) -> Option<DaemonSetRole> {
    reduce::daemon_set(&read::<DaemonSet>(set))
}

fn of_release(set: Value) -> Option<DaemonSetFacts> {
    match role(set) {
        Some(DaemonSetRole::OfRelease(facts)) => Some(facts),
        _ => None,
    }
}

fn kind(set: Value) -> Option<NeighbourKind> {
    match role(set) {
        Some(DaemonSetRole::Beside(neighbour)) => Some(neighbour.kind),
        _ => None,
    }
}

#[test]
fn only_daemon_sets_of_the_stack_count() {
    let set = |labels: Value, release: &str| {
        of_release(json!({
            "metadata": { "name": "set", "namespace": "gpu-operator", "labels": labels, "annotations": {
                "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "gpu-operator" } },
            "status": { "desiredNumberScheduled": 3, "numberReady": 2, "currentNumberScheduled": 3, "numberMisscheduled": 0 },
        }))
    };
    let nvidia = json!({ "app.kubernetes.io/managed-by": "gpu-operator" });
    // The one that a NVIDIADriver asks for.
    let driver = json!({ "app.kubernetes.io/component": "nvidia-driver" });
    let helm = json!({ "app.kubernetes.io/managed-by": "Helm" });
    for labels in [nvidia, driver, helm.clone()] {
        let facts = set(labels.clone(), "gpu-operator").unwrap_or_else(|| panic!("{labels}"));
        assert_eq!((facts.desired, facts.ready), (3, 2));
    }
    assert!(set(helm, "somebody-elses").is_none());
    assert!(set(json!({ "app": "agent" }), "gpu-operator").is_none());
    assert!(set(json!(null), "gpu-operator").is_none());
}

#[test]
fn a_driver_daemon_set_tells_its_image_and_who_asked_for_it() {
    let set = json!({
        "metadata": {
            "name": "nvidia-gpu-driver-gardenlinux0-1", "namespace": "gpu-operator",
            "labels": { "app.kubernetes.io/component": "nvidia-driver" },
            "ownerReferences": [{ "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
                "name": "gardenlinux-precompiled", "uid": "u" }],
        },
        "spec": {
            "selector": {},
            "template": { "spec": { "containers": [{ "name": "c", "image": "r/driver:580-6.12-gardenlinux0" }] } },
        },
    });
    let of = |set: Value| of_release(set).unwrap().driver;
    let expected = DriverImage {
        uid: String::new(),
        owner: "gardenlinux-precompiled".to_owned(),
        image: "r/driver:580-6.12-gardenlinux0".to_owned(),
    };
    assert_eq!(of(set.clone()), Some(expected));
    let orphan = merged(set.clone(), &[("/metadata/ownerReferences", json!([]))]);
    assert_eq!(of(orphan), None);
    let operand = json!({ "app.kubernetes.io/managed-by": "gpu-operator" });
    assert_eq!(of(merged(set, &[("/metadata/labels", operand)])), None);
}

fn with_container(container: &Value) -> Value {
    json!({
        "metadata": { "name": "set", "namespace": "kube-system", "labels": {}, "annotations": {}, "ownerReferences": [] },
        "spec": { "selector": {}, "template": { "spec": { "containers": [container] } } },
    })
}

fn with_image(image: &str) -> Value {
    with_container(&json!({ "name": "c", "image": image }))
}

#[test]
fn device_plugins_are_known_by_their_image_wherever_they_run() {
    for image in [
        "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
        "registry.example:5000/mirror/k8s-device-plugin@sha256:0f",
        "k8s-device-plugin",
        "gcr.io/gke-release/nvidia-gpu-device-plugin:1.0.25-gke.56",
    ] {
        let set = with_image(image);
        assert_eq!(kind(set.clone()), Some(NeighbourKind::DevicePlugin), "{image}");
        let beside_the_release = merged(set, &[("/metadata/namespace", json!("gpu-operator"))]);
        assert_eq!(
            kind(beside_the_release),
            Some(NeighbourKind::DevicePlugin),
            "{image}"
        );
    }
    for image in [
        "example/other-k8s-device-plugin:1",
        "k8s-device-plugin/agent:1",
        "busybox",
    ] {
        assert_eq!(kind(with_image(image)), None, "{image}");
    }
}

#[test]
fn what_nvidias_operator_made_and_what_goes_is_nobody_elses() {
    let plugin = with_image("nvcr.io/nvidia/k8s-device-plugin:v0.17.1");
    let owner = json!([{ "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "u" }]);
    assert_eq!(
        kind(merged(plugin.clone(), &[("/metadata/ownerReferences", owner)])),
        None
    );
    let mut going = plugin;
    going["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    assert_eq!(kind(going), None);
}

#[test]
fn parts_of_the_earlier_kyma_module_are_told_apart_from_other_device_plugins() {
    let plugin = with_image("gcr.io/gke-release/nvidia-gpu-device-plugin:1.0.25-gke.56");
    let at_home = merged(
        plugin.clone(),
        &[("/metadata/namespace", json!("gpu-driver-system"))],
    );
    assert_eq!(kind(at_home), Some(NeighbourKind::GpuDriver));
    let labels = json!({ "gpu.kyma-project.io/gpu-driver-config": "default" });
    assert_eq!(
        kind(merged(plugin, &[("/metadata/labels", labels)])),
        Some(NeighbourKind::GpuDriver)
    );
}

#[test]
fn workers_of_node_feature_discovery_are_known_by_label_or_command() {
    let by_chart = json!({ "app.kubernetes.io/name": "node-feature-discovery", "role": "worker" });
    let by_chart = merged(with_image("nfd:1"), &[("/metadata/labels", by_chart)]);
    assert_eq!(kind(by_chart.clone()), Some(NeighbourKind::NodeFeatureDiscovery));
    for command in ["nfd-worker", "/usr/bin/nfd-worker"] {
        let set = with_container(&json!({ "name": "c", "image": "nfd:1", "command": [command, "-v=1"] }));
        assert_eq!(kind(set), Some(NeighbourKind::NodeFeatureDiscovery));
    }
    let topology = with_container(&json!({ "name": "c", "command": ["nfd-topology-updater"] }));
    assert_eq!(kind(topology), None);

    // The module's own, with Helm's marks and without them.
    let worker = [(
        "/metadata/name",
        json!("gpu-operator-node-feature-discovery-worker"),
    )];
    let elsewhere = merged(by_chart.clone(), &worker);
    assert_eq!(kind(elsewhere.clone()), Some(NeighbourKind::NodeFeatureDiscovery));
    assert_eq!(
        kind(merged(
            elsewhere,
            &[("/metadata/namespace", json!("gpu-operator"))]
        )),
        None
    );
    let marks = json!({ "meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator" });
    assert_eq!(kind(merged(by_chart, &[("/metadata/annotations", marks)])), None);
}
