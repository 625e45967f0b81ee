//! Traps in what the manifests hold, and in which order.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::Flavour;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, namespaced, title};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Order",
        avoided: what_others_need_comes_first,
        ways_in: &[
            |files| files.edit(Flavour::Community, |all| all.rotate_left(1)),
            |files| files.edit(Flavour::Managed, |all| all.rotate_right(1)),
            |files| {
                files.edit(Flavour::Community, |all| {
                    let crd = all.remove(1);
                    all.push(crd);
                });
            },
            |files| {
                files
                    .add(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "late" } }));
            },
        ],
    },
    Trap {
        name: "A second Deployment",
        avoided: the_manager_is_the_only_workload,
        ways_in: &[
            |files| {
                files.add(&json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "other" } }));
            },
            |files| {
                files.add(&json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "other" } }));
            },
            |files| files.drop("Deployment"),
        ],
    },
    Trap {
        name: "The release's namespace",
        avoided: the_release_namespace_is_nowhere,
        ways_in: &[
            |files| {
                files.add(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "gpu-operator" } }));
            },
            |files| {
                files.each("ServiceAccount", |account| {
                    account["metadata"]["namespace"] = json!("gpu-operator");
                });
            },
        ],
    },
    Trap {
        name: "No namespace",
        avoided: every_namespace_is_written,
        ways_in: &[
            |files| {
                files.each("NetworkPolicy", |policy| {
                    drop(
                        policy["metadata"]
                            .as_object_mut()
                            .and_then(|meta| meta.remove("namespace")),
                    );
                });
            },
            |files| {
                files.each("ClusterRoleBinding", |binding| {
                    binding["subjects"][0]["namespace"] = json!("default");
                });
            },
            |files| {
                files.each("Deployment", |deployment| {
                    deployment["metadata"]["namespace"] = json!("kyma");
                });
            },
            |files| {
                files.each("ClusterRole", |role| {
                    role["metadata"]["namespace"] = json!("kyma-system");
                });
            },
        ],
    },
    Trap {
        name: "An object twice",
        avoided: every_object_is_there_once,
        ways_in: &[|files| {
            files.edit(Flavour::Managed, |all| {
                all.push(all.last().cloned().unwrap_or_default());
            });
        }],
    },
    Trap {
        name: "kyma-system in the managed manifest",
        avoided: only_the_community_manifest_has_a_namespace,
        ways_in: &[
            |files| {
                let namespace =
                    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kyma-system" } });
                files.edit(Flavour::Managed, |all| all.insert(0, namespace));
            },
            |files| {
                files.edit(Flavour::Community, |all| {
                    all.retain(|object| object["kind"] != "Namespace");
                });
            },
        ],
    },
];

/// Rank of a kind: what a kind needs has a lower one. The CLI applies in the order of the file and deletes in the reverse.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "Deployment" => 3,
        _ => 2,
    }
}

fn what_others_need_comes_first(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let all = files.objects(flavour);
        let place = |found: &dyn Fn(&Value) -> bool| all.iter().position(found);
        let ranks: Vec<_> = all
            .iter()
            .map(|object| rank(object["kind"].as_str().unwrap_or_default()))
            .collect();
        ensure!(
            ranks.is_sorted(),
            "{}: Namespace, CRD, the rest, Deployment",
            flavour.file()
        );
        for (index, binding) in all
            .iter()
            .enumerate()
            .filter(|(_, object)| object.get("roleRef").is_some())
        {
            let role = &binding["roleRef"];
            let role =
                place(&|object| object["kind"] == role["kind"] && object["metadata"]["name"] == role["name"]);
            let role =
                role.with_context(|| format!("{} refers to a role that is not there", title(binding)))?;
            let account = place(&|object| object["kind"] == "ServiceAccount").context("no ServiceAccount")?;
            ensure!(
                role < index && account < index,
                "{} comes before what it binds",
                title(binding)
            );
        }
    }
    Ok(())
}

/// Lifecycle Manager takes the first workload for the manager.
fn the_manager_is_the_only_workload(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let workloads = [
            "CronJob",
            "DaemonSet",
            "Deployment",
            "Job",
            "Pod",
            "ReplicaSet",
            "StatefulSet",
        ];
        let all = files.objects(flavour);
        let found: Vec<_> = all
            .iter()
            .filter(|object| workloads.iter().any(|kind| object["kind"] == *kind))
            .map(title)
            .collect();
        ensure!(
            found == ["Deployment gpu-manager"],
            "{found:?} in {}",
            flavour.file()
        );
    }
    Ok(())
}

/// Removing the module removes what its manifest holds: the release would go without an uninstall.
fn the_release_namespace_is_nowhere(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        for object in files.objects(flavour) {
            let metadata = &object["metadata"];
            let named = object["kind"] == "Namespace" && metadata["name"] == "gpu-operator";
            ensure!(
                !named && metadata["namespace"] != "gpu-operator",
                "{} in {}",
                title(&object),
                flavour.file()
            );
        }
    }
    Ok(())
}

/// Without one the CLI would take kyma-system, Lifecycle Manager default.
fn every_namespace_is_written(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        for object in files.objects(flavour) {
            let expected =
                namespaced(object["kind"].as_str().unwrap_or_default()).then_some(flavour.namespace());
            ensure!(
                object["metadata"]["namespace"].as_str() == expected,
                "{} in {}",
                title(&object),
                flavour.file()
            );
            for subject in object["subjects"].as_array().into_iter().flatten() {
                ensure!(
                    subject["namespace"] == flavour.namespace(),
                    "{} binds {subject}",
                    title(&object)
                );
            }
        }
    }
    Ok(())
}

/// Lifecycle Manager drops the second one without a word.
fn every_object_is_there_once(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let all = files.objects(flavour);
        let titles: BTreeSet<_> = all.iter().map(title).collect();
        ensure!(titles.len() == all.len(), "{} repeats an object", flavour.file());
    }
    Ok(())
}

/// Pruning the module would delete kyma-system and all modules in it.
fn only_the_community_manifest_has_a_namespace(files: &Files) -> Result<()> {
    for (flavour, expected) in [
        (Flavour::Managed, None),
        (Flavour::Community, Some("gpu-manager")),
    ] {
        let namespace = files.object(flavour, "Namespace");
        ensure!(
            namespace["metadata"]["name"].as_str() == expected,
            "{} has {namespace}",
            flavour.file()
        );
    }
    Ok(())
}
