//! What the manager's Pod needs to run at all, and alone.

use anyhow::{Context as _, Result, ensure};
use e2e::tools::repository_root;
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
            // The manager and the helm that installs fit, but not one that reads meanwhile.
            |files| memory(files, "limits", "192Mi"),
            // All of them fit, with nothing to spare.
            |files| memory(files, "limits", "208Mi"),
            |files| memory(files, "requests", "96Mi"),
            |files| memory(files, "requests", "512Mi"),
            |files| memory(files, "limits", "384"),
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
    resources_fit_what_was_measured(files)
}

fn memory(files: &mut Files, kind: &str, quantity: &str) {
    set(
        files,
        &format!("/spec/containers/0/resources/{kind}/memory"),
        &json!(quantity),
    );
}

/// The most memory that was measured, in MiB, as docs/contributor/packaging.md records it.
struct Measured {
    idle: u64,
    /// With thousands of nodes.
    busy: u64,
    /// Of a helm that changes a release.
    changing: u64,
    /// Of one that reads meanwhile.
    reading: u64,
}

impl Measured {
    fn recorded() -> Result<Self> {
        let text = std::fs::read_to_string(repository_root().join("docs/contributor/packaging.md"))?;
        let words: Vec<_> = text.split_whitespace().collect();
        let text = words.join(" ");
        let after = |phrase: &str| {
            let (_, rest) = text
                .split_once(phrase)
                .with_context(|| format!("packaging.md no longer says '{phrase}'"))?;
            let figure = rest.split_whitespace().next().unwrap_or_default();
            figure
                .parse()
                .with_context(|| format!("after '{phrase}' stands {figure}"))
        };
        Ok(Self {
            idle: after("the operator is resident with")?,
            busy: after("must stay below")?,
            changing: after("helm needed up to")?,
            reading: after("to uninstall and")?,
        })
    }
}

/// The quantity in MiB; none where it is not written in MiB or GiB.
fn mebibytes(quantity: &Value) -> Option<u64> {
    let text = quantity.as_str()?;
    match text.strip_suffix("Gi") {
        Some(number) => Some(number.parse::<u64>().ok()? * 1024),
        None => text.strip_suffix("Mi")?.parse().ok(),
    }
}

/// What is over the limit is killed, helm in the middle of a change among it: half as much again is left to spare.
fn resources_fit_what_was_measured(files: &Files) -> Result<()> {
    let measured = Measured::recorded()?;
    let usual = measured.idle + measured.changing;
    let most = measured.busy + measured.changing + measured.reading;
    for (_, container) in pods(files)? {
        let [requested, limit] = ["requests", "limits"].map(|kind| {
            let quantity = &container["resources"][kind]["memory"];
            mebibytes(quantity).with_context(|| format!("{kind} of memory: {quantity}"))
        });
        let (requested, limit) = (requested?, limit?);
        ensure!(
            (usual..=limit).contains(&requested),
            "{requested} MiB are requested, {usual} are in use while helm changes something"
        );
        ensure!(
            limit * 2 >= most * 3,
            "the limit of {limit} MiB has too little to spare over {most} MiB"
        );
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
