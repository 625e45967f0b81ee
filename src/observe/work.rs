//! Reads what a change of the driver would interrupt, and when it may happen anyhow. Asked for by a decision, never watched:
//! Pods change all the time, and nearly always nobody wants to know.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec, ResourceRequirements};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::api::{RELEASE_NAMESPACE, SHOOT_INFO, SHOOT_INFO_NAMESPACE};
use crate::facts::{GpuPod, MaintenanceWindow, WindowFacts, WorkFacts};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Lists of Pods, one per node, that are asked for at a time.
const AT_ONCE: usize = 8;

/// Every resource of NVIDIA's device plugin: GPUs, shared ones and MIG devices, under whatever name they have.
const RESOURCES: &str = "nvidia.com/";

/// RuntimeClasses of NVIDIA's operator. Containers get GPUs through them without asking for any.
const RUNTIME_CLASSES: [&str; 3] = ["nvidia", "nvidia-cdi", "nvidia-legacy"];

/// The Pods outside of NVIDIA's stack that use a GPU on these nodes. `runtime_class` is one more name of NVIDIA's RuntimeClass.
pub async fn gpu_work(
    client: &Client,
    nodes: Vec<String>,
    runtime_class: Option<&str>,
    now: Timestamp,
) -> WorkFacts {
    let lists = stream::iter(nodes)
        .map(|node| pods_on(client, node))
        .buffer_unordered(AT_ONCE);
    match lists.try_collect::<Vec<Vec<Pod>>>().await {
        Ok(lists) => {
            let pods = lists.iter().flatten();
            let mut pods: Vec<_> = pods.filter_map(|pod| gpu_pod(pod, runtime_class, now)).collect();
            pods.sort_unstable();
            WorkFacts::Read(pods)
        }
        Err(error) => WorkFacts::Unreadable(error.to_string()),
    }
}

async fn pods_on(client: &Client, node: String) -> Result<Vec<Pod>, ApiError> {
    let pods = Api::<Pod>::all(client.clone());
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let what = "list the Pods of a GPU node";
    Ok(deadline(API_DEADLINE, what, pods.list(&params)).await?.items)
}

/// A Pod that uses a GPU now and is no part of NVIDIA's stack; `None` for any other.
fn gpu_pod(pod: &Pod, runtime_class: Option<&str>, now: Timestamp) -> Option<GpuPod> {
    let spec = pod.spec.as_ref()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    // The time at which its grace ends: until then it works on. After it, the node is gone or nearly so.
    let over = pod
        .metadata
        .deletion_timestamp
        .as_ref()
        .is_some_and(|at| at.0 <= now);
    let node = spec.node_name.clone()?;
    let counts = !matches!(phase, Some("Succeeded" | "Failed"))
        && !over
        && pod.metadata.namespace.as_deref() != Some(RELEASE_NAMESPACE);
    (counts && uses_gpu(spec, runtime_class)).then(|| GpuPod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        node,
    })
}

fn uses_gpu(spec: &PodSpec, runtime_class: Option<&str>) -> bool {
    let by_runtime = spec
        .runtime_class_name
        .as_deref()
        .is_some_and(|class| RUNTIME_CLASSES.contains(&class) || Some(class) == runtime_class);
    // Whose devices a claim asks for stands in other objects. On a GPU node it is taken for a GPU.
    let by_claim = spec
        .resource_claims
        .as_ref()
        .is_some_and(|claims| !claims.is_empty());
    by_runtime || by_claim || asks_for_gpu(spec)
}

fn asks_for_gpu(spec: &PodSpec) -> bool {
    let of = |containers: &[Container]| {
        let resources = containers
            .iter()
            .filter_map(|container| container.resources.as_ref());
        resources.into_iter().any(names_gpu)
    };
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    of(&spec.containers)
        || of(spec.init_containers.as_deref().unwrap_or_default())
        || ephemeral
            .filter_map(|container| container.resources.as_ref())
            .any(names_gpu)
        || spec.resources.as_ref().is_some_and(names_gpu)
}

fn names_gpu(resources: &ResourceRequirements) -> bool {
    let named = [&resources.limits, &resources.requests];
    named
        .into_iter()
        .flatten()
        .flatten()
        .any(|(name, amount)| name.starts_with(RESOURCES) && amount.0 != "0")
}

/// The maintenance window of the shoot.
pub async fn maintenance_window(client: &Client) -> WindowFacts {
    let place = format!("ConfigMap {SHOOT_INFO_NAMESPACE}/{SHOOT_INFO}");
    let maps = Api::<ConfigMap>::namespaced(client.clone(), SHOOT_INFO_NAMESPACE);
    let read = deadline(API_DEADLINE, format!("read {place}"), maps.get(SHOOT_INFO)).await;
    match found(read) {
        Ok(Some(map)) => {
            window_in(&map).map_err(|error| format!("{place} has no maintenance window: {error}"))
        }
        Ok(None) => Err(format!("there is no {place}")),
        Err(error) => Err(error.to_string()),
    }
}

fn window_in(map: &ConfigMap) -> Result<MaintenanceWindow, String> {
    let text = |key: &str| {
        let value = map.data.as_ref().and_then(|data| data.get(key));
        value.ok_or_else(|| format!("{key} is missing"))
    };
    MaintenanceWindow::parse(text("maintenanceBegin")?, text("maintenanceEnd")?)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn counts(change: impl FnOnce(&mut Value)) -> bool {
        let mut pod = json!({
            "metadata": { "namespace": "team", "name": "train" },
            "spec": { "nodeName": "gpu-0", "containers": [{ "name": "main" }] },
            "status": { "phase": "Running" },
        });
        change(&mut pod);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let found = gpu_pod(&pod, Some("custom"), NOW);
        assert!(found.as_ref().is_none_or(|found| found.name == "train"));
        found.is_some()
    }

    fn with_gpu(pod: &mut Value) {
        pod["spec"]["containers"][0]["resources"] = json!({ "limits": { "nvidia.com/gpu": "1" } });
    }

    #[test]
    fn a_gpu_is_used_in_many_ways() {
        assert!(!counts(|_| {}));
        assert!(counts(with_gpu));
        for resources in [
            json!({ "requests": { "nvidia.com/gpu.shared": "1" } }),
            json!({ "limits": { "nvidia.com/mig-1g.5gb": "1" } }),
        ] {
            for at in ["containers", "initContainers", "ephemeralContainers"] {
                let of_pod = |pod: &mut Value| {
                    pod["spec"][at] = json!([{ "name": "x", "resources": resources }]);
                };
                assert!(counts(of_pod), "{at} {resources}");
            }
            assert!(counts(|pod| pod["spec"]["resources"] = resources.clone()));
        }
        for (class, uses) in [
            ("nvidia", true),
            ("nvidia-cdi", true),
            ("nvidia-legacy", true),
            ("custom", true),
            ("gvisor", false),
        ] {
            assert_eq!(counts(|pod| pod["spec"]["runtimeClassName"] = json!(class)), uses);
        }
        assert!(counts(
            |pod| pod["spec"]["resourceClaims"] = json!([{ "name": "gpu" }])
        ));
        let other = json!({ "limits": { "amd.com/gpu": "1", "nvidia.com/gpu": "0" } });
        assert!(!counts(|pod| pod["spec"]["containers"][0]["resources"] = other));
    }

    #[test]
    fn only_what_runs_outside_of_the_stack_counts() {
        let but = |change: &dyn Fn(&mut Value)| {
            counts(|pod| {
                with_gpu(pod);
                change(pod);
            })
        };
        for (phase, runs) in [
            ("Pending", true),
            ("Running", true),
            ("Unknown", true),
            ("Succeeded", false),
            ("Failed", false),
        ] {
            assert_eq!(but(&|pod| pod["status"]["phase"] = json!(phase)), runs, "{phase}");
        }
        assert!(!but(
            &|pod| pod["metadata"]["namespace"] = json!(RELEASE_NAMESPACE)
        ));
        assert!(!but(&|pod| pod["spec"]["nodeName"] = Value::Null));
        let deleted = |at: &str| but(&|pod| pod["metadata"]["deletionTimestamp"] = json!(at));
        assert!(deleted("1970-01-01T00:10:00Z"), "it has its grace");
        assert!(!deleted("1970-01-01T00:00:00Z"));
    }

    #[test]
    fn a_window_is_found_or_said_to_be_missing() {
        let read = |data: Value| window_in(&serde_json::from_value(json!({ "data": data })).unwrap());
        let ends = json!({ "maintenanceBegin": "220000+0100", "maintenanceEnd": "230000+0100" });
        assert!(read(ends).is_ok());
        assert_eq!(read(json!({})).unwrap_err(), "maintenanceBegin is missing");
        let wrong = json!({ "maintenanceBegin": "220000+0100", "maintenanceEnd": "soon" });
        assert_eq!(read(wrong).unwrap_err(), "'soon' is no time like 220000+0100");
    }
}
