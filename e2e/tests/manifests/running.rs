//! What the manager's Pod needs to run at all, and alone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, pod};
use crate::security::{pods, set};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Istio's sidecar",
        avoided: no_sidecar_is_injected,
        ways_in: &[|files| set(files, "/metadata/labels/sidecar.istio.io~1inject", &json!("true"))],
    },
    Trap {
        name: "Priority",
        avoided: the_pod_has_kymas_priority,
        ways_in: &[
            |files| files.each("PriorityClass", |class| class["value"] = json!(1_000_000_000)),
            |files| files.each("PriorityClass", |class| class["globalDefault"] = json!(true)),
            |files| files.drop("PriorityClass"),
            |files| {
                set(
                    files,
                    "/spec/priorityClassName",
                    &json!("system-cluster-critical"),
                );
            },
        ],
    },
    Trap {
        name: "Two managers",
        avoided: never_two_at_once,
        ways_in: &[
            |files| {
                files.each("Deployment", |deployment| {
                    deployment["spec"]["replicas"] = json!(2);
                });
            },
            |files| {
                files.each("Deployment", |deployment| {
                    deployment["spec"]["strategy"]["type"] = json!("RollingUpdate");
                });
            },
            |files| set(files, "/spec/containers/0/env", &json!([])),
        ],
    },
    Trap {
        name: "Resources",
        avoided: resources_are_requested_and_limited,
        ways_in: &[
            |files| {
                set(
                    files,
                    "/spec/containers/0/resources/limits",
                    &json!({ "cpu": "1" }),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/containers/0/resources/requests",
                    &json!({ "memory": "128Mi" }),
                );
            },
        ],
    },
    Trap {
        name: "Probes",
        avoided: both_probes_ask_the_health_port,
        ways_in: &[
            |files| {
                set(
                    files,
                    "/spec/containers/0/readinessProbe/httpGet/port",
                    &json!("metrics"),
                );
            },
            |files| set(files, "/spec/containers/0/livenessProbe", &Value::Null),
        ],
    },
];

/// kyma-system has sidecars, which would stand between the manager and the API server.
fn no_sidecar_is_injected(files: &Files) -> Result<()> {
    for (pod, _) in pods(files)? {
        ensure!(pod["metadata"]["labels"]["sidecar.istio.io/inject"] == "false");
    }
    Ok(())
}

fn the_pod_has_kymas_priority(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let class = files.object(flavour, "PriorityClass");
        ensure!(
            class["value"] == 2_000_000 && class["globalDefault"] == false,
            "{class}"
        );
        let of_pod = &pod(files, flavour)["spec"]["priorityClassName"];
        ensure!(*of_pod == class["metadata"]["name"], "the Pod has {of_pod}");
    }
    Ok(())
}

/// A Lease keeps a second one waiting; it needs the names of namespace and Pod.
fn never_two_at_once(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let spec = files.object(flavour, "Deployment")["spec"].clone();
        ensure!(
            spec["replicas"] == 1 && spec["strategy"] == json!({ "type": "Recreate" }),
            "{spec}"
        );
    }
    for (_, container) in pods(files)? {
        for (name, path) in [
            ("POD_NAMESPACE", "metadata.namespace"),
            ("POD_NAME", "metadata.name"),
        ] {
            let wanted = json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
            ensure!(
                container["env"]
                    .as_array()
                    .is_some_and(|all| all.contains(&wanted)),
                "no {name}"
            );
        }
    }
    Ok(())
}

fn resources_are_requested_and_limited(files: &Files) -> Result<()> {
    for (_, container) in pods(files)? {
        for kind in ["requests", "limits"] {
            for resource in ["cpu", "memory"] {
                ensure!(
                    container["resources"][kind][resource].is_string(),
                    "no {kind} of {resource}"
                );
            }
        }
    }
    Ok(())
}

fn both_probes_ask_the_health_port(files: &Files) -> Result<()> {
    for (_, container) in pods(files)? {
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let asked = &container[probe]["httpGet"];
            ensure!(
                *asked == json!({ "path": path, "port": "health" }),
                "{probe}: {asked}"
            );
        }
    }
    Ok(())
}
