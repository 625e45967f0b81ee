//! The part of the kubelets: what becomes of the operands' Pods, and which GPUs a node announces.
//!
//! KWOK makes all other Pods ready. Those with the hold annotation get their status here, because whether
//! they start depends on images, faults and one another.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::change::Change;
use super::device_plugin::Offer;
use super::faults::Faults;
use super::names;
use super::upgrade::FAILED_RESTARTS;
use super::view::{View, annotation, label, node_of};

/// How a Pod fares on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Ready,
    ImageMissing,
    CrashLoop,
    NotReady,
}

/// All changes that the kubelets make: Pod statuses and GPUs of nodes.
pub fn pass(view: &View, faults: &Faults, now: Timestamp) -> Vec<Change> {
    let pods = view.pods.iter().filter_map(|pod| pod_change(pod, faults, now));
    let nodes = view
        .nodes
        .iter()
        .filter_map(|node| node_change(view, node, faults));
    pods.chain(nodes).collect()
}

fn pod_change(pod: &Pod, faults: &Faults, now: Timestamp) -> Option<Change> {
    let node = node_of(pod)?;
    if annotation(pod, names::HOLD).is_none() || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let fate = fate_of(pod, node, faults);
    (current_fate(pod) != Some(fate)).then(|| Change::PodStatus {
        name: pod.name_any(),
        patch: status(pod, fate, now),
    })
}

fn fate_of(pod: &Pod, node: &str, faults: &Faults) -> Fate {
    if label(pod, names::COMPONENT) == Some(names::DRIVER_COMPONENT) {
        let image = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.containers.first()?.image.as_deref());
        return if image.is_some_and(|image| faults.lacks_image(image)) {
            Fate::ImageMissing
        } else if faults.driver_crash_loop.strikes(node) {
            Fate::CrashLoop
        } else {
            Fate::Ready
        };
    }
    let stuck = match label(pod, "app") {
        Some(names::TOOLKIT_APP) => &faults.toolkit_not_ready,
        Some(names::DEVICE_PLUGIN_APP) => &faults.device_plugin_not_ready,
        _ => return Fate::Ready,
    };
    if stuck.strikes(node) {
        Fate::NotReady
    } else {
        Fate::Ready
    }
}

/// The fate that the Pod's status shows; `None` if it shows none yet.
fn current_fate(pod: &Pod) -> Option<Fate> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let waiting = container
        .state
        .as_ref()
        .and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    match waiting {
        Some("ImagePullBackOff") => Some(Fate::ImageMissing),
        Some("CrashLoopBackOff") => Some(Fate::CrashLoop),
        Some(_) => None,
        None if container.ready => Some(Fate::Ready),
        None => Some(Fate::NotReady),
    }
}

fn status(pod: &Pod, fate: Fate, now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let spec = pod.spec.clone().unwrap_or_default();
    let containers: Vec<Value> = spec
        .containers
        .iter()
        .map(|container| {
            let image = container.image.clone().unwrap_or_default();
            let mut status = json!({
                "name": container.name, "image": image, "imageID": "", "ready": fate == Fate::Ready,
                "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}},
            });
            match fate {
                Fate::Ready | Fate::NotReady => {}
                Fate::ImageMissing => {
                    let message =
                        format!("Back-off pulling image \"{image}\": ErrImagePull: {image}: not found");
                    status["started"] = json!(false);
                    status["state"] = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
                }
                Fate::CrashLoop => {
                    let message = format!("back-off 5m0s restarting failed container={}", container.name);
                    status["started"] = json!(false);
                    status["restartCount"] = json!(FAILED_RESTARTS + 1);
                    status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
                    status["lastState"] = json!({"terminated": {
                        "exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now,
                    }});
                }
            }
            status
        })
        .collect();
    let init: Vec<Value> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "", "ready": true,
                "restartCount": 0, "state": {"terminated": {
                    "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now,
                }},
            })
        })
        .collect();
    let phase = if fate == Fate::ImageMissing {
        "Pending"
    } else {
        "Running"
    };
    let mut patch = json!({"status": {
        "phase": phase,
        "conditions": conditions(pod, fate, &now),
        "containerStatuses": containers,
        "startTime": now,
    }});
    if !init.is_empty() {
        patch["status"]["initContainerStatuses"] = Value::Array(init);
    }
    patch
}

fn conditions(pod: &Pod, fate: Fate, now: &str) -> Vec<Value> {
    let names = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| container.name.as_str());
    let unready = format!(
        "containers with unready status: [{}]",
        names.collect::<Vec<_>>().join(" ")
    );
    ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .into_iter()
        .map(|name| {
            let good = fate == Fate::Ready || matches!(name, "PodScheduled" | "Initialized");
            if good {
                json!({"type": name, "status": "True", "lastTransitionTime": now})
            } else {
                json!({"type": name, "status": "False", "reason": "ContainersNotReady",
                       "message": unready, "lastTransitionTime": now})
            }
        })
        .collect()
}

/// A node announces what the device plugin offers once driver, toolkit and device plugin are ready, and announces zero
/// when one of them no longer is. A resource never goes away again by itself.
fn node_change(view: &View, node: &Node, faults: &Faults) -> Option<Change> {
    let name = node.name_any();
    let driver =
        view.ready_driver_on(&name).is_some() || annotation(node, names::PREINSTALLED_DRIVER) == Some("true");
    let usable =
        driver && view.app_ready_on(&name, names::TOOLKIT_APP) && !faults.gpus_not_allocatable.strikes(&name);
    let offer = Offer::seen_by(view, node, names::DEVICE_PLUGIN_APP).filter(|_| usable);

    let status = node.status.as_ref();
    let capacity = announced(status.and_then(|status| status.capacity.as_ref()));
    let allocatable = announced(status.and_then(|status| status.allocatable.as_ref()));
    let seen = capacity.keys().chain(allocatable.keys());
    let mut wanted: Resources = seen.map(|key| (key.clone(), "0".to_owned())).collect();
    let offered = offer.map(|offer| offer.resources()).unwrap_or_default();
    wanted.extend(offered.into_iter().map(|(key, count)| (key, count.to_string())));
    if capacity == wanted && allocatable == wanted {
        return None;
    }
    Some(Change::NodeStatus {
        name,
        patch: json!({"status": {"capacity": wanted, "allocatable": wanted}}),
    })
}

/// How many of what a node announces.
type Resources = BTreeMap<String, String>;

/// NVIDIA's part of a node's capacity or allocatable resources.
fn announced(list: Option<&BTreeMap<String, Quantity>>) -> Resources {
    let ours = list
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.starts_with(names::NVIDIA_PREFIX));
    ours.map(|(key, quantity)| (key.clone(), quantity.0.clone()))
        .collect()
}
