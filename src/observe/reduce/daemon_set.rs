//! DaemonSets of the whole cluster: those of the release, and those of others that do the same work.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Container;
use kube::ResourceExt;

use super::owner;
use crate::api::{LABEL_MANAGED_BY, NFD_WORKER, RELEASE_NAMESPACE};
use crate::facts::{DaemonSetFacts, DaemonSetRole, DriverImage, Neighbour, NeighbourKind};

/// Names of images with a device plugin for NVIDIA's GPUs: NVIDIA's own, and the one of Google's clusters, which the earlier Kyma
/// module takes.
const DEVICE_PLUGINS: [&str; 2] = ["k8s-device-plugin", "nvidia-gpu-device-plugin"];

/// Namespace of the earlier Kyma module, and the prefix of the labels on what it makes (kyma-project/gpu-driver).
const GPU_DRIVER_NAMESPACE: &str = "gpu-driver-system";
const GPU_DRIVER_LABELS: &str = "gpu.kyma-project.io/";

/// Label by which charts name what they install.
const LABEL_NAME: &str = "app.kubernetes.io/name";

/// What a DaemonSet is to the module; `None`: nothing.
pub fn daemon_set(set: &DaemonSet) -> Option<DaemonSetRole> {
    if set.namespace().as_deref() == Some(RELEASE_NAMESPACE)
        && let Some(facts) = of_release(set)
    {
        return Some(DaemonSetRole::OfRelease(facts));
    }
    beside(set).map(DaemonSetRole::Beside)
}

/// A DaemonSet of NVIDIA's operator or of the release.
fn of_release(set: &DaemonSet) -> Option<DaemonSetFacts> {
    let managed = match set.labels().get(LABEL_MANAGED_BY).map(String::as_str) {
        Some("gpu-operator") => true,
        // Others may have put a chart of their own into the namespace.
        Some("Helm") => is_module_release(set),
        _ => false,
    };
    // NVIDIA's operator leaves its usual label off driver DaemonSets that a NVIDIADriver asked for.
    let is_driver = set
        .labels()
        .get("app.kubernetes.io/component")
        .is_some_and(|part| part == "nvidia-driver");
    let status = set.status.as_ref();
    (managed || is_driver).then(|| DaemonSetFacts {
        name: set.name_any(),
        desired: status.map_or(0, |status| status.desired_number_scheduled),
        ready: status.map_or(0, |status| status.number_ready),
        updated: status
            .and_then(|status| status.updated_number_scheduled)
            .unwrap_or(0),
        terminating: set.metadata.deletion_timestamp.is_some(),
        driver: is_driver.then(|| driver_image(set)).flatten(),
    })
}

fn driver_image(set: &DaemonSet) -> Option<DriverImage> {
    Some(DriverImage {
        uid: set.uid().unwrap_or_default(),
        owner: set.owner_references().first()?.name.clone(),
        image: containers(set).first()?.image.clone()?,
    })
}

/// A DaemonSet that does the work of a part of the release and is not one. What is being deleted does not count any more.
fn beside(set: &DaemonSet) -> Option<Neighbour> {
    if set.metadata.deletion_timestamp.is_some() || is_of_a_release(set) {
        return None;
    }
    Some(Neighbour {
        kind: kind(set)?,
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        ready: set.status.as_ref().map_or(0, |status| status.number_ready),
    })
}

/// True for what NVIDIA's operator made, whoever runs it (then its ClusterPolicy tells), and for what the chart makes for the
/// module's release. The name counts there beside Helm's marks: in that namespace nobody else can have it, and marks can get lost.
fn is_of_a_release(set: &DaemonSet) -> bool {
    let made_by_operator = set
        .owner_references()
        .iter()
        .any(|owner| owner.api_version.starts_with("nvidia.com/"));
    let named_by_chart =
        set.namespace().as_deref() == Some(RELEASE_NAMESPACE) && set.name_any() == NFD_WORKER;
    made_by_operator || named_by_chart || is_module_release(set)
}

fn is_module_release(set: &DaemonSet) -> bool {
    owner(&set.metadata).is_some_and(|owner| owner.is_module_release())
}

fn kind(set: &DaemonSet) -> Option<NeighbourKind> {
    let gpu_driver = set.namespace().as_deref() == Some(GPU_DRIVER_NAMESPACE)
        || set.labels().keys().any(|key| key.starts_with(GPU_DRIVER_LABELS));
    let has_plugin = containers(set)
        .iter()
        .filter_map(|container| container.image.as_deref())
        .any(|image| DEVICE_PLUGINS.contains(&image_name(image)));
    let label = |key: &str| set.labels().get(key).map(String::as_str);
    let labelled_worker = label(LABEL_NAME) == Some("node-feature-discovery")
        && [label("role"), label("app.kubernetes.io/component")].contains(&Some("worker"));
    if gpu_driver {
        Some(NeighbourKind::GpuDriver)
    } else if has_plugin {
        Some(NeighbourKind::DevicePlugin)
    } else if labelled_worker || containers(set).iter().any(runs_nfd_worker) {
        Some(NeighbourKind::NodeFeatureDiscovery)
    } else {
        None
    }
}

fn runs_nfd_worker(container: &Container) -> bool {
    let command = container.command.iter().chain(&container.args).flatten();
    command
        .filter_map(|word| word.rsplit('/').next())
        .any(|program| program == "nfd-worker")
}

fn containers(set: &DaemonSet) -> &[Container] {
    let pod = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.map_or(&[], |pod| &pod.containers)
}

/// `k8s-device-plugin` of `nvcr.io/nvidia/k8s-device-plugin:v0.17.1@sha256:...`.
fn image_name(image: &str) -> &str {
    let path = image.split('@').next().unwrap_or(image);
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split(':').next().unwrap_or(last)
}
