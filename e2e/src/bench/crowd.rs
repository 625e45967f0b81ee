//! Thousands of GPU nodes with the Pods of the stack, as objects only: nothing acts on them but the operator.
//!
//! Kubelets, controllers and NVIDIA's operator would take minutes for so many and measure themselves. So the objects are created in the
//! state in which those leave them, with as much in them as on a Gardener node, since reading is what costs the operator most.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gpu_manager::api::{CLUSTER_POLICY_NAME, RELEASE_NAMESPACE, STACK_DEPLOYMENT};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{FakeNode, POOL_LABEL};

/// Requests at once.
const AT_ONCE: usize = 32;

/// Worker pools that the nodes are spread over.
const POOLS: usize = 10;

/// GPUs of each node.
const GPUS: usize = 8;

/// Images that the kubelet reports of a node; it lists up to 50.
const IMAGES: usize = 25;

const DRIVER_IMAGE: &str =
    "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:580-6.18.38-cloud-amd64-gardenlinux0";

const KERNEL: &str = "6.18.38-cloud-amd64";

/// The DaemonSets of which every GPU node has a Pod, each with its image.
const SETS: [(&str, &str); 4] = [
    ("nvidia-gpu-driver-gardenlinux-6d9c5b7f8", DRIVER_IMAGE),
    (
        "nvidia-container-toolkit-daemonset",
        "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0",
    ),
    (
        "nvidia-device-plugin-daemonset",
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
    ),
    ("nvidia-operator-validator", "nvcr.io/nvidia/gpu-operator:v26.7.0"),
];

/// Name of the node with that number.
pub fn node_name(number: usize) -> String {
    format!("shoot--project--cluster-gpu-{}-z1-{number:05}", number % POOLS)
}

/// Adds the nodes `from..to` with their Pods, and lets the DaemonSets count them.
pub async fn grow(client: &Client, from: usize, to: usize) -> Result<()> {
    let made = (from..to).map(|number| add_node(client, number));
    stream::iter(made)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    for (name, image) in SETS {
        count(client, name, image, to).await?;
    }
    Ok(())
}

/// What NVIDIA's operator says once all is well.
pub async fn say_ready(objects: &Api<DynamicObject>, name: &str) -> Result<()> {
    let status = json!({ "status": { "state": "ready", "namespace": RELEASE_NAMESPACE } });
    let params = PatchParams::default();
    objects
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .with_context(|| format!("cannot write the status of {name}"))?;
    Ok(())
}

/// Lets the kubelets of the nodes `from..to` report that they are alive: a write that changes nothing but a time.
pub async fn heartbeats(client: &Client, from: usize, to: usize) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let beats = (from..to).map(|number| {
        let nodes = nodes.clone();
        async move {
            let now = k8s_openapi::jiff::Timestamp::now().to_string();
            let ready = json!({ "type": "Ready", "lastHeartbeatTime": now });
            let patch = Patch::Strategic(json!({ "status": { "conditions": [ready] } }));
            let params = PatchParams::default();
            nodes
                .patch_status(&node_name(number), &params, &patch)
                .await
                .map(drop)
        }
    });
    stream::iter(beats)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(())
}

async fn add_node(client: &Client, number: usize) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    nodes.create(&PostParams::default(), &node(number)?).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), RELEASE_NAMESPACE);
    for (set, image) in SETS {
        let pod = pod(set, image, number);
        let (name, status) = (pod["metadata"]["name"].clone(), pod["status"].clone());
        let name = name.as_str().context("a Pod without name")?;
        pods.create(&PostParams::default(), &typed(pod.clone())?).await?;
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T> {
    Ok(serde_json::from_value(object)?)
}

fn node(number: usize) -> Result<Node> {
    let fake = FakeNode::with_gpus(&node_name(number), u32::try_from(GPUS)?)
        .pool(&format!("gpu-{}", number % POOLS))
        .instance_type("p4d.24xlarge")
        .os_image("Garden Linux 2150.7.0")
        .kernel(KERNEL)
        .label("feature.node.kubernetes.io/kernel-version.full", KERNEL)
        .label("feature.node.kubernetes.io/system-os_release.ID", "gardenlinux")
        .label("feature.node.kubernetes.io/system-os_release.VERSION_ID", "0")
        .label("feature.node.kubernetes.io/pci-10de.present", "true")
        .label("nvidia.com/gpu.present", "true")
        .label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB")
        .label("nvidia.com/cuda.driver-version.full", "580.178.04")
        .label("nvidia.com/cuda.runtime-version.full", "13.0")
        .label("nvidia.com/gpu-driver-upgrade-state", "upgrade-done");
    let mut node = serde_json::to_value(fake.build())?;
    ensure!(node["metadata"]["labels"][POOL_LABEL].is_string(), "no pool");
    let status = &mut node["status"];
    for resources in ["capacity", "allocatable"] {
        status[resources]["nvidia.com/gpu"] = GPUS.to_string().into();
    }
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "KubeletSays", "message": "as the kubelet reports it",
            "lastHeartbeatTime": "2026-11-30T08:00:00Z", "lastTransitionTime": "2026-11-30T08:00:00Z" })
    };
    status["conditions"] = json!([
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
        condition("Ready", "True"),
    ]);
    let image = |number: usize| {
        let names = json!([
            format!("registry.example.com/images/part-{number}@sha256:{number:064}"),
            format!("registry.example.com/images/part-{number}:v1.{number}"),
        ]);
        json!({ "names": names, "sizeBytes": 100_000_000 + number })
    };
    status["images"] = (0..IMAGES).map(image).collect();
    typed(node)
}

fn labels(set: &str) -> Value {
    let mut labels = json!({ "app": set, "controller-revision-hash": "5c9f8d7b6", "pod-template-generation": "1",
        "app.kubernetes.io/managed-by": "gpu-operator", "helm.sh/chart": "gpu-operator-v26.7.0" });
    if set.starts_with("nvidia-gpu-driver") {
        labels["app.kubernetes.io/component"] = "nvidia-driver".into();
    }
    labels
}

fn template(set: &str, image: &str) -> Value {
    let mounts: Vec<_> = (0..6)
        .map(|number| json!({ "name": format!("host-{number}"), "mountPath": format!("/host/{number}") }))
        .collect();
    let volumes: Vec<_> = (0..6)
        .map(|number| json!({ "name": format!("host-{number}"), "hostPath": { "path": format!("/run/{number}") } }))
        .collect();
    let container = |name: &str| json!({ "name": name, "image": image, "volumeMounts": mounts });
    let mut selector = json!({ "nvidia.com/gpu.present": "true" });
    if set.starts_with("nvidia-gpu-driver") {
        selector["feature.node.kubernetes.io/kernel-version.full"] = KERNEL.into();
    }
    json!({ "serviceAccountName": STACK_DEPLOYMENT, "automountServiceAccountToken": false, "nodeSelector": selector,
        "initContainers": [container("validation")], "containers": [container("main")], "volumes": volumes })
}

fn pod(set: &str, image: &str, number: usize) -> Value {
    let mut spec = template(set, image);
    spec["nodeName"] = node_name(number).into();
    let ready = |name: &str| {
        json!({ "name": name, "image": image, "imageID": format!("{image}@sha256:{number:064}"), "ready": true,
            "restartCount": 0, "started": true, "state": { "running": { "startedAt": "2026-11-30T08:00:00Z" } } })
    };
    let holds =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-11-30T08:00:00Z" });
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(holds);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("{set}-{number:05}"), "labels": labels(set) },
        "spec": spec,
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "initContainerStatuses": [ready("validation")],
            "containerStatuses": [ready("main")],
        },
    })
}

/// A DaemonSet that has brought its Pod onto that many nodes.
async fn count(client: &Client, set: &str, image: &str, nodes: usize) -> Result<()> {
    let sets = Api::<DaemonSet>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let params = PatchParams::apply("crowd").force();
    let mut owner = if set.starts_with("nvidia-gpu-driver") {
        json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "name": "gardenlinux-precompiled" })
    } else {
        json!({ "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": CLUSTER_POLICY_NAME })
    };
    owner["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": set, "labels": labels(set), "ownerReferences": [owner] },
        "spec": {
            "selector": { "matchLabels": { "app": set } },
            "updateStrategy": { "type": "OnDelete" },
            "template": { "metadata": { "labels": labels(set) }, "spec": template(set, image) },
        },
    });
    sets.patch(set, &params, &Patch::Apply(&object)).await?;
    let status = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": set }, "status": {
        "observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberReady": nodes,
        "numberAvailable": nodes, "updatedNumberScheduled": nodes, "numberMisscheduled": 0 } });
    sets.patch_status(set, &params, &Patch::Apply(&status)).await?;
    Ok(())
}
