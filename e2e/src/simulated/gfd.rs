//! The part of GPU Feature Discovery: labels about the GPU and its driver.
//!
//! GFD hands its labels to NFD, which publishes and owns them; so they come and go with NFD's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::device_plugin::Offer;
use super::names;
use super::view::{View, annotation};

/// The labels of a node where GFD runs and a driver is loaded; none elsewhere.
pub fn labels(view: &View, node: &Node) -> BTreeMap<String, String> {
    let name = node.name_any();
    let version = match view.ready_driver_on(&name) {
        Some(pod) => driver_version(pod),
        None if annotation(node, names::PREINSTALLED_DRIVER) == Some("true") => "580.178.04".to_owned(),
        None => return BTreeMap::new(),
    };
    let Some(offer) = Offer::seen_by(view, node, names::GFD_APP) else {
        return BTreeMap::new();
    };
    let model = offer.model;
    let sharing = if offer.is_time_sliced() {
        "time-slicing"
    } else {
        "none"
    };
    let mut parts = version.split('.');
    let mut part = || parts.next().unwrap_or("0").to_owned();
    let (major, minor, revision) = (part(), part(), part());
    let about_the_gpu = [
        ("gpu.memory", model.memory.to_string()),
        ("gpu.family", model.family.to_owned()),
        ("gpu.machine", "simulated".to_owned()),
        ("gpu.mode", "compute".to_owned()),
        ("gpu.compute.major", model.compute.0.to_string()),
        ("gpu.compute.minor", model.compute.1.to_string()),
        ("gpu.sharing-strategy", sharing.to_owned()),
        ("cuda.driver-version.full", version.clone()),
        ("cuda.driver-version.major", major),
        ("cuda.driver-version.minor", minor),
        ("cuda.driver-version.revision", revision),
        ("cuda.runtime-version.full", cuda_version(&version).to_owned()),
        ("mig.capable", (model.slices > 0).to_string()),
        ("mps.capable", "false".to_owned()),
        ("vgpu.present", "false".to_owned()),
    ];
    let about_the_gpu = about_the_gpu.map(|(key, value)| (key.to_owned(), value));
    let labels = offer.labels().into_iter().chain(about_the_gpu);
    labels
        .map(|(key, value)| (format!("{}{key}", names::NVIDIA_PREFIX), value))
        .collect()
}

/// The newest CUDA version of a driver, as NVIDIA's release notes have it.
fn cuda_version(driver: &str) -> &'static str {
    match driver.split('.').next().unwrap_or_default() {
        "590" => "13.1",
        "580" => "13.0",
        _ => "12.8",
    }
}

/// The full driver version behind a branch, as of the Garden Linux installer 1.17.0.
fn driver_version(pod: &Pod) -> String {
    let image = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.containers.first()?.image.clone())
        .unwrap_or_default();
    let tag = image.rsplit(':').next().unwrap_or_default();
    match tag.split('-').next().unwrap_or_default() {
        "590" => "590.48.01",
        "580" => "580.178.04",
        "570" => "570.211.01",
        other => other,
    }
    .to_owned()
}
