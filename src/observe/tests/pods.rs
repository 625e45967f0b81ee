//! Pods of the stack, in the states that kubelet and scheduler leave them in.

use serde_json::{Value, json};

use super::reduction::{merged, read};
use crate::facts::{DriverPod, OperandPod, Part, PodState};
use crate::observe::reduce;

const DRIVER: &str =
    "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:590-6.12.47-cloud-amd64-gardenlinux0";

/// A driver's Pod whose driver container has that state, of a NVIDIADriver.
fn driver(container: &Value) -> Value {
    json!({
        "metadata": { "name": "d", "namespace": "gpu-operator", "creationTimestamp": "2026-11-30T08:00:00Z", "labels": {
            "app": "nvidia-gpu-driver-gardenlinux0-68499dcc", "app.kubernetes.io/component": "nvidia-driver" } },
        "spec": {
            "nodeName": "gpu-0",
            "nodeSelector": { "feature.node.kubernetes.io/kernel-version.full": "6.12.47-cloud-amd64" },
            "initContainers": [{ "name": "k8s-driver-manager", "image": "manager" }],
            "containers": [{ "name": "nvidia-driver-ctr", "image": DRIVER }],
        },
        "status": {
            "conditions": [
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-30T08:00:01Z" },
                { "type": "Ready", "status": "False", "lastTransitionTime": "2026-11-30T08:00:02Z" },
            ],
            "initContainerStatuses": [{ "name": "k8s-driver-manager", "image": "manager", "imageID": "", "ready": true,
                "restartCount": 4, "state": { "terminated": { "exitCode": 0 } } }],
            "containerStatuses": [merged(
                json!({ "name": "nvidia-driver-ctr", "image": DRIVER, "imageID": "", "ready": false, "restartCount": 0,
                    "state": {}, "lastState": {} }),
                &container.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value.clone())).collect::<Vec<_>>(),
            )],
        },
    })
}

fn pod(object: Value) -> Option<OperandPod> {
    reduce::operand_pod(&read(object))
}

fn state(object: Value) -> PodState {
    pod(object).unwrap().state
}

#[test]
fn a_pod_in_full() {
    let expected = OperandPod {
        node: "gpu-0".into(),
        part: Part::Driver,
        state: PodState::Starting,
        since: "2026-11-30T08:00:02Z".parse().unwrap(),
        driver: Some(DriverPod {
            image: DRIVER.into(),
            kernel: Some("6.12.47-cloud-amd64".into()),
        }),
    };
    assert_eq!(pod(driver(&json!({}))), Some(expected.clone()));
    let ready = merged(
        driver(&json!({})),
        &[("/status/conditions/1/status", json!("True"))],
    );
    assert_eq!(state(ready), PodState::Ready);
    let heartbeat = merged(
        driver(&json!({})),
        &[("/status/conditions/0/lastTransitionTime", json!(null))],
    );
    assert_eq!(pod(heartbeat), Some(expected));
}

#[test]
fn parts_are_told_by_their_labels_in_both_layouts() {
    let part = |labels: Value| {
        let with = merged(driver(&json!({})), &[("/metadata/labels", labels)]);
        pod(with).map(|pod| (pod.part, pod.driver.is_some()))
    };
    let app = |app: &str| part(json!({ "app": app }));
    assert_eq!(
        app("nvidia-container-toolkit-daemonset"),
        Some((Part::Toolkit, false))
    );
    assert_eq!(
        app("nvidia-device-plugin-daemonset"),
        Some((Part::DevicePlugin, false))
    );
    assert_eq!(app("nvidia-operator-validator"), Some((Part::Validator, false)));
    let policy = json!({ "app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver" });
    assert_eq!(part(policy), Some((Part::Driver, true)));
    let nfd = |role: &str| part(json!({ "app.kubernetes.io/name": "node-feature-discovery", "role": role }));
    assert_eq!(nfd("worker"), Some((Part::NodeFeatureDiscovery, false)));
    assert_eq!(nfd("master"), None);
    assert_eq!(app("train"), None);
    assert_eq!(part(json!(null)), None);
}

#[test]
fn discovery_counts_only_while_it_is_not_ready() {
    let labels = json!({ "app.kubernetes.io/name": "node-feature-discovery", "role": "worker" });
    let worker = merged(driver(&json!({})), &[("/metadata/labels", labels)]);
    assert!(pod(worker.clone()).is_some());
    assert_eq!(
        pod(merged(worker, &[("/status/conditions/1/status", json!("True"))])),
        None
    );
}

#[test]
fn an_image_that_cannot_be_pulled_is_named() {
    let missing = |image: &str, is_absent| PodState::ImageMissing {
        image: image.into(),
        is_absent,
    };
    for (reason, message, is_absent) in [
        (
            "ErrImagePull",
            "rpc error: code = NotFound desc = failed to pull and unpack image: r/d:1: not found",
            true,
        ),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"r/d:1\": ErrImagePull: manifest unknown",
            true,
        ),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"r/d:1\": 429 Too Many Requests",
            false,
        ),
        ("InvalidImageName", "", false),
    ] {
        let waiting = json!({ "/state": { "waiting": { "reason": reason, "message": message } } });
        assert_eq!(
            state(driver(&waiting)),
            missing(DRIVER, is_absent),
            "{reason} {message}"
        );
    }
    let creating = json!({ "/state": { "waiting": { "reason": "ContainerCreating" } } });
    assert_eq!(state(driver(&creating)), PodState::Starting);
    let init = merged(
        driver(&json!({})),
        &[
            ("/status/initContainerStatuses/0/ready", json!(false)),
            (
                "/status/initContainerStatuses/0/state",
                json!({ "waiting": { "reason": "ImagePullBackOff" } }),
            ),
        ],
    );
    assert_eq!(state(init), missing("manager", false));
}

#[test]
fn a_crash_loop_stays_one_while_its_container_runs_again() {
    let run = |restarts: u32, state: Value, last: Value| {
        driver(&json!({ "/restartCount": restarts, "/state": state, "/lastState": { "terminated": last } }))
    };
    let ended = |code: i32, at: &str| json!({ "exitCode": code, "startedAt": "2026-11-30T08:00:00Z", "finishedAt": at });
    let soon = ended(1, "2026-11-30T08:00:20Z");
    let running = json!({ "running": { "startedAt": "2026-11-30T08:05:00Z" } });
    let pause = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    assert_eq!(
        state(run(1, pause, soon.clone())),
        PodState::CrashLoop { restarts: 1 }
    );
    for (restarts, told) in [(3, 2), (4, 4), (5, 4), (11, 8)] {
        let looping = run(restarts, running.clone(), soon.clone());
        assert_eq!(
            state(looping),
            PodState::CrashLoop { restarts: told },
            "{restarts}"
        );
    }
    assert_eq!(state(run(2, running.clone(), soon)), PodState::Starting);
    // A node that was restarted for the sixth time.
    let long = ended(255, "2026-11-30T20:00:00Z");
    assert_eq!(state(run(6, running.clone(), long)), PodState::Starting);
    assert_eq!(
        state(run(6, running, ended(0, "2026-11-30T08:00:20Z"))),
        PodState::Starting
    );
}

#[test]
fn a_pod_without_a_node_is_the_one_that_it_is_meant_for() {
    let mut waiting = driver(&json!({}));
    waiting["spec"]["nodeName"] = json!(null);
    waiting["spec"]["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["gpu-1"] }] }] } } });
    waiting["status"] =
        json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] });
    let facts = pod(waiting.clone()).unwrap();
    assert_eq!((&*facts.node, facts.state), ("gpu-1", PodState::Unschedulable));
    assert_eq!(facts.since, "2026-11-30T08:00:00Z".parse().unwrap());
    waiting["status"] = json!(null);
    assert_eq!(state(waiting), PodState::Starting);
}

#[test]
fn a_pod_that_is_being_deleted_is_leaving_although_it_says_ready() {
    let mut leaving = merged(
        driver(&json!({})),
        &[("/status/conditions/1/status", json!("True"))],
    );
    leaving["metadata"]["deletionTimestamp"] = json!("2026-11-30T09:00:00Z");
    let facts = pod(leaving).unwrap();
    assert_eq!(facts.state, PodState::Leaving);
    assert_eq!(facts.since, "2026-11-30T09:00:00Z".parse().unwrap());
}
