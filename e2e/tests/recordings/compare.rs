//! What of a recorded and of a simulated object is compared.
//!
//! Left out, and why:
//! - UIDs, times, generations, revision hashes: differ from cluster to cluster.
//! - `nvidia.com/last-applied-hash`: hashes Go structures that are not rebuilt here.
//! - The hold annotation on Pods and the `simulated.` annotations on nodes: the simulation's own.
//! - Commands, environments, volumes, probes of containers: no container ever starts.
//! - Defaults that the API server fills in (`restartPolicy`, `dnsPolicy`, `revisionHistoryLimit` ...).
//! - NFD's DaemonSet and objects of the chart: helm makes them, not the controller.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use e2e::simulated::memory::Memory;
use e2e::simulated::{Faults, Kind, names};
use kube::ResourceExt as _;
use serde_json::{Value, json};

const IGNORED_ANNOTATIONS: [&str; 2] = [
    "deprecated.daemonset.template.generation",
    names::LAST_APPLIED_HASH,
];
const POD_FIELDS: [&str; 10] = [
    "nodeSelector",
    "tolerations",
    "affinity",
    "priorityClassName",
    "serviceAccountName",
    "runtimeClassName",
    "hostPID",
    "hostIPC",
    "automountServiceAccountToken",
    "imagePullSecrets",
];
const COUNTS: [&str; 6] = [
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberReady",
    "numberMisscheduled",
];

/// The controller's DaemonSets by name, reduced to what is compared.
pub fn daemon_sets(objects: &[Value]) -> BTreeMap<String, Value> {
    let owned = objects
        .iter()
        .filter(|object| object["metadata"]["ownerReferences"].is_array());
    owned
        .map(|object| {
            let (metadata, spec) = (&object["metadata"], &object["spec"]);
            let counts: BTreeMap<_, _> = COUNTS
                .iter()
                .map(|field| (*field, object["status"][*field].as_i64().unwrap_or_default()))
                .collect();
            let reduced = json!({
                "labels": metadata["labels"],
                "annotations": without(&metadata["annotations"], &IGNORED_ANNOTATIONS),
                "owners": owners(metadata),
                "selector": spec["selector"],
                "updateStrategy": spec["updateStrategy"],
                "podLabels": spec["template"]["metadata"]["labels"],
                "podAnnotations": without(&spec["template"]["metadata"]["annotations"], &[names::HOLD]),
                "pod": pod_spec(&spec["template"]["spec"]),
                "counts": counts,
            });
            (name(object), reduced)
        })
        .collect()
}

fn pod_spec(spec: &Value) -> Value {
    let mut reduced: BTreeMap<_, _> = POD_FIELDS
        .iter()
        .map(|field| (*field, spec[*field].clone()))
        .collect();
    for list in ["initContainers", "containers"] {
        let containers = spec[list].as_array().into_iter().flatten().map(|container| {
            json!([
                container["name"],
                container["image"],
                container["imagePullPolicy"]
            ])
        });
        reduced.insert(list, containers.collect());
    }
    json!(reduced)
}

/// A driver Pod that has not started.
pub fn pod(pod: &Value) -> Value {
    let changing = ["controller-revision-hash", "pod-template-generation"];
    let spec = &pod["spec"];
    json!({
        "labels": without(&pod["metadata"]["labels"], &changing),
        "annotations": without(&pod["metadata"]["annotations"], &[names::HOLD, "memory/target"]),
        "nodeSelector": spec["nodeSelector"],
        "antiAffinity": spec["affinity"]["podAntiAffinity"],
        "images": [spec["initContainers"][0]["image"], spec["containers"][0]["image"]],
        "phase": pod["status"]["phase"],
    })
}

/// RuntimeClasses by name.
pub fn runtime_classes<'a>(objects: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, Value> {
    let classes = objects
        .into_iter()
        .filter(|object| object["kind"] == "RuntimeClass");
    classes
        .map(|class| {
            let metadata = &class["metadata"];
            let reduced = json!([class["handler"], metadata["labels"], owners(metadata)]);
            (name(class), reduced)
        })
        .collect()
}

/// Labels, annotations and GPUs of a node.
pub fn labels_and_gpus(node: &Value) -> Value {
    let gpus = |field: &str| node["status"][field][names::GPU_RESOURCE].clone();
    json!({
        "labels": node["metadata"]["labels"],
        "annotations": without(&node["metadata"]["annotations"], &[names::GPUS]),
        "gpus": [gpus("capacity"), gpus("allocatable")],
    })
}

/// State and conditions of a status, without times.
pub fn verdict(object: &Value) -> Value {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<Value> = conditions
        .map(|condition| without(condition, &["lastTransitionTime"]))
        .collect();
    json!({"state": status["state"], "namespace": status["namespace"], "conditions": conditions})
}

/// Kind and name of everything that the controller made and whose name speaks of a GPU.
pub fn owned_names(memory: &Memory) -> BTreeSet<String> {
    let daemon_sets = memory
        .view
        .daemon_sets
        .iter()
        .map(|found| (Kind::DaemonSet, found.name_any()));
    let objects = memory.objects.keys().cloned();
    daemon_sets
        .chain(objects)
        .filter(|(_, name)| name.contains("nvidia") || name.contains("gpu"))
        .map(|(kind, name)| format!("{}/{name}", kind.name().to_lowercase()))
        .collect()
}

/// The same from the recorded list, where the kinds carry their groups: without Pods and what helm,
/// Deployments or other software made.
pub fn recorded_names(list: &str) -> BTreeSet<String> {
    let by_others = |kind: &str, name: &str| match kind {
        "pod" | "replicaset" | "deployment" | "externalartifact" => true,
        "service" => false,
        _ => name == "gpu-operator" || name.starts_with("gpu-operator-node-feature-discovery"),
    };
    list.lines()
        .filter_map(|line| line.split_once('/'))
        .map(|(kind, name)| (kind.split('.').next().unwrap_or(kind), name))
        .filter(|(kind, name)| !by_others(kind, name))
        .map(|(kind, name)| format!("{kind}/{name}"))
        .collect()
}

/// One row of the README's table about a driver change.
#[derive(Clone, Debug)]
pub struct Row {
    /// State of NVIDIADriver, and reason and message if it is not ready.
    pub driver: String,
    /// The same of ClusterPolicy.
    pub policy: String,
    /// Desired, updated and ready Pods of the driver DaemonSet.
    pub counts: [i64; 3],
    /// Driver image of each GPU node's Pod.
    pub images: Vec<String>,
    /// Upgrade state of each GPU node, with ` cordoned` if it is.
    pub upgrade: [Option<String>; 2],
    /// The annotation about automatic driver changes on each GPU node.
    pub annotation: [Option<String>; 2],
}

impl Row {
    /// The row as the cluster stands.
    pub fn of(memory: &Memory) -> Self {
        let view = &memory.view;
        let drivers = view
            .daemon_sets
            .iter()
            .map(|found| json!(found))
            .filter(is_driver);
        let status = drivers
            .map(|found| found["status"].clone())
            .next()
            .unwrap_or_default();
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        let pods = view.pods.iter().filter(|pod| is_driver(&json!(pod)));
        let images = pods.filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
        let upgrade = |index: usize| {
            let node = view
                .nodes
                .iter()
                .filter(|node| node.name_any().starts_with("gpu"))
                .nth(index)?;
            let state = node.labels().get(names::UPGRADE_STATE)?;
            let cordoned = node
                .spec
                .as_ref()
                .and_then(|spec| spec.unschedulable)
                .unwrap_or_default();
            Some(format!("{state}{}", if cordoned { " cordoned" } else { "" }))
        };
        let annotation = |index: usize| {
            view.nodes
                .get(index)?
                .annotations()
                .get(names::UPGRADE_ENABLED)
                .cloned()
        };
        Self {
            driver: view
                .nvidia_drivers
                .first()
                .map(|object| summary(&json!(object)))
                .unwrap_or_default(),
            policy: summary(&json!(view.cluster_policies[0])),
            counts: ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"].map(count),
            images: images.collect(),
            upgrade: [upgrade(0), upgrade(1)],
            annotation: [annotation(0), annotation(1)],
        }
    }

    /// Driver branch of each Pod.
    pub fn branches(&self) -> Vec<&str> {
        let tags = self.images.iter().filter_map(|image| image.rsplit(':').next());
        tags.filter_map(|tag| tag.split('-').next()).collect()
    }
}

/// Lets the cluster go on, round by round, until a row fits.
pub fn run_until(memory: &mut Memory, faults: &Faults, fits: impl Fn(&Row) -> bool) -> Result<Row> {
    for _ in 0..100 {
        memory.round(faults, true)?;
        let row = Row::of(memory);
        if fits(&row) {
            return Ok(row);
        }
    }
    bail!("No such row came; the last was {:#?}", Row::of(memory))
}

/// Driver image of a DaemonSet.
pub fn driver_image(memory: &Memory, name: &str) -> Result<String> {
    let daemon_set = json!(memory.view.daemon_set(name));
    let image = daemon_set["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
    Ok(image
        .with_context(|| format!("There is no DaemonSet {name}."))?
        .to_owned())
}

/// Whether a Pod or DaemonSet is one of a driver.
fn is_driver(object: &Value) -> bool {
    object["metadata"]["labels"][names::COMPONENT] == names::DRIVER_COMPONENT
}

fn summary(object: &Value) -> String {
    let status = &object["status"];
    let state = status["state"].as_str().unwrap_or("none");
    let error = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Error" && condition["status"] == "True");
    match error {
        Some(error) => {
            let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
            format!("{state} {} {}", text("reason"), text("message"))
        }
        None => state.to_owned(),
    }
}

fn owners(metadata: &Value) -> Value {
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    owners.map(|owner| without(owner, &["uid"])).collect()
}

/// A map without some keys; an absent map is an empty one.
fn without(map: &Value, keys: &[&str]) -> Value {
    let fields = map.as_object().cloned().unwrap_or_default();
    Value::Object(
        fields
            .into_iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()))
            .collect(),
    )
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
