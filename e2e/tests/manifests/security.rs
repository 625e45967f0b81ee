//! What a security reviewer looks for in the manager's Pod.

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::Flavour;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, pod};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Rights of the Pod",
        avoided: the_pod_is_confined,
        ways_in: &[
            |files| set(files, "/spec/securityContext/runAsUser", &json!(0)),
            |files| set(files, "/spec/securityContext/runAsNonRoot", &json!(false)),
            |files| {
                set(
                    files,
                    "/spec/securityContext/seccompProfile/type",
                    &json!("Unconfined"),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/containers/0/securityContext/readOnlyRootFilesystem",
                    &json!(false),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/containers/0/securityContext/allowPrivilegeEscalation",
                    &json!(true),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/containers/0/securityContext/capabilities",
                    &json!({ "drop": ["ALL"], "add": ["NET_ADMIN"] }),
                );
            },
            |files| set(files, "/spec/hostNetwork", &json!(true)),
            |files| set(files, "/spec/containers/0/ports/0/hostPort", &json!(8080)),
            |files| {
                set(
                    files,
                    "/spec/initContainers",
                    &json!([{ "name": "init", "image": "a/b:1" }]),
                );
            },
        ],
    },
    Trap {
        name: "Volumes",
        avoided: only_bounded_empty_folders_are_writable,
        ways_in: &[
            |files| {
                set(
                    files,
                    "/spec/volumes/0",
                    &json!({ "name": "tmp", "emptyDir": {} }),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/volumes/0",
                    &json!({ "name": "tmp", "hostPath": { "path": "/tmp" } }),
                );
            },
            |files| {
                set(
                    files,
                    "/spec/containers/0/volumeMounts/0/mountPath",
                    &json!("/var"),
                );
            },
        ],
    },
    Trap {
        name: "Pod security of the namespace",
        avoided: the_community_namespace_is_restricted,
        ways_in: &[|files| {
            files.each("Namespace", |namespace| {
                namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("privileged");
            });
        }],
    },
    Trap {
        name: "Token",
        avoided: only_the_pod_has_a_token,
        ways_in: &[
            |files| {
                files.each("ServiceAccount", |account| {
                    account["automountServiceAccountToken"] = json!(true);
                });
            },
            |files| set(files, "/spec/serviceAccountName", &json!("default")),
        ],
    },
];

/// Sets a field of the Pod template in both manifests; adds it where it is not there.
pub fn set(files: &mut Files, pointer: &str, value: &Value) {
    let (parent, field) = pointer.rsplit_once('/').expect("a JSON pointer");
    let field = field.replace("~1", "/");
    files.each("Deployment", |deployment| {
        let parent = deployment["spec"]["template"]
            .pointer_mut(parent)
            .expect("a field of the Pod");
        match parent {
            Value::Array(items) => items[field.parse::<usize>().expect("an index")] = value.clone(),
            parent => parent[&field] = value.clone(),
        }
    });
}

/// Pods of both manifests with their only container.
pub fn pods(files: &Files) -> Result<Vec<(Value, Value)>> {
    MANIFESTS
        .into_iter()
        .map(|flavour| {
            let pod = pod(files, flavour);
            let containers = pod["spec"]["containers"].as_array().context("no containers")?;
            let [container] = containers.as_slice() else {
                anyhow::bail!("{} containers", containers.len())
            };
            Ok((pod.clone(), container.clone()))
        })
        .collect()
}

fn the_pod_is_confined(files: &Files) -> Result<()> {
    for (pod, container) in pods(files)? {
        let context = json!({
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        });
        let of_container = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        });
        ensure!(
            pod["spec"]["securityContext"] == context,
            "{}",
            pod["spec"]["securityContext"]
        );
        ensure!(
            container["securityContext"] == of_container,
            "{}",
            container["securityContext"]
        );
        for field in [
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "shareProcessNamespace",
            "initContainers",
        ] {
            ensure!(pod["spec"].get(field).is_none(), "it has {field}");
        }
        let ports = container["ports"].as_array().context("no ports")?;
        ensure!(
            ports.iter().all(|port| port.get("hostPort").is_none()),
            "{ports:?}"
        );
    }
    Ok(())
}

/// The root is read-only; helm needs /tmp.
fn only_bounded_empty_folders_are_writable(files: &Files) -> Result<()> {
    for (pod, container) in pods(files)? {
        let volumes = pod["spec"]["volumes"].as_array().context("no volumes")?;
        for volume in volumes {
            ensure!(volume["emptyDir"]["sizeLimit"].is_string(), "{volume}");
        }
        let mounts = container["volumeMounts"].as_array().context("no mounts")?;
        let paths: Vec<_> = mounts.iter().map(|mount| &mount["mountPath"]).collect();
        ensure!(paths == ["/tmp"], "{paths:?}");
    }
    Ok(())
}

fn the_community_namespace_is_restricted(files: &Files) -> Result<()> {
    let namespace = files.object(Flavour::Community, "Namespace");
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    ensure!(level == "restricted", "{level}");
    Ok(())
}

fn only_the_pod_has_a_token(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let account = files.object(flavour, "ServiceAccount");
        ensure!(
            account["automountServiceAccountToken"] == false,
            "each Pod with the account has its token"
        );
        let pod = &pod(files, flavour)["spec"];
        ensure!(
            pod["automountServiceAccountToken"] == true,
            "the manager has none"
        );
        ensure!(
            pod["serviceAccountName"] == account["metadata"]["name"],
            "{}",
            pod["serviceAccountName"]
        );
    }
    Ok(())
}
