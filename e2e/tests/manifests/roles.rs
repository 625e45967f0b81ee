//! What people get by the roles that the module adds to those of Kubernetes.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::catalogue::Catalogue;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Rights to look",
        avoided: viewers_see_what_the_module_brings,
        ways_in: &[
            |files| rule(files, "kyma-gpu-view", |rules| drop(rules.pop())),
            |files| {
                rule(files, "kyma-gpu-view", |rules| {
                    rules[0]["verbs"] = json!(["get", "list"]);
                });
            },
            |files| {
                rule(files, "kyma-gpu-view", |rules| {
                    rules[0]["verbs"] = json!(["get", "list", "watch", "patch"]);
                });
            },
            |files| {
                rule(files, "kyma-gpu-view", |rules| {
                    rules.push(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }));
                });
            },
            |files| aggregate(files, "kyma-gpu-view", "edit"),
        ],
    },
    Trap {
        name: "Rights to edit",
        avoided: editors_edit_the_gpu_module_alone,
        ways_in: &[
            |files| {
                rule(files, "kyma-gpu-edit", |rules| {
                    rules[0]["verbs"] =
                        json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
                });
            },
            |files| {
                rule(files, "kyma-gpu-edit", |rules| {
                    rules[1]["verbs"] = json!(["get", "patch"]);
                });
            },
            |files| {
                rule(files, "kyma-gpu-edit", |rules| {
                    rules.push(json!({ "apiGroups": ["nvidia.com"], "resources": ["clusterpolicies"], "verbs": ["patch"] }));
                });
            },
            |files| aggregate(files, "kyma-gpu-edit", "view"),
        ],
    },
];

fn rule(files: &mut Files, role: &str, change: impl Fn(&mut Vec<Value>)) {
    files.each("ClusterRole", |object| {
        if object["metadata"]["name"] == role
            && let Some(rules) = object["rules"].as_array_mut()
        {
            change(rules);
        }
    });
}

fn aggregate(files: &mut Files, role: &str, to: &str) {
    files.each("ClusterRole", |object| {
        if object["metadata"]["name"] == role {
            object["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{to}")] =
                json!("true");
        }
    });
}

/// The role of a name in each manifest.
fn roles(files: &Files, name: &str) -> Result<Vec<Value>> {
    let find = |flavour| {
        let mut all = files.objects(flavour).into_iter();
        let role = all.find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name);
        role.with_context(|| format!("no ClusterRole {name}"))
    };
    MANIFESTS.into_iter().map(find).collect()
}

/// Roles of Kubernetes that a role is added to.
fn aggregated_to(role: &Value) -> BTreeSet<&str> {
    let labels = role["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .filter_map(|(label, _)| label.strip_prefix("rbac.authorization.k8s.io/aggregate-to-"))
        .collect()
}

fn words(value: &Value) -> BTreeSet<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

/// `plural.group`, as CRDs are named, with the verbs on it.
fn grants(role: &Value) -> Vec<(String, BTreeSet<String>)> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules
        .flat_map(|rule| {
            let (groups, resources, verbs) = (
                words(&rule["apiGroups"]),
                words(&rule["resources"]),
                words(&rule["verbs"]),
            );
            groups.into_iter().flat_map(move |group| {
                let verbs = verbs.clone();
                let resources = resources.clone().into_iter();
                resources.map(move |resource| (format!("{resource}.{group}"), verbs.clone()))
            })
        })
        .collect()
}

fn verbs(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|verb| (*verb).to_owned()).collect()
}

/// GpuModules, and every kind whose CRD comes with a chart; nothing else, no Secrets, and no way to change anything.
fn viewers_see_what_the_module_brings(files: &Files) -> Result<()> {
    let catalogue = Catalogue::compiled_in()?;
    let mut brought: BTreeSet<_> = catalogue.charts().flat_map(|chart| chart.crds.clone()).collect();
    brought.insert("gpumodules.operator.kyma-project.io".to_owned());
    for role in roles(files, "kyma-gpu-view")? {
        ensure!(
            aggregated_to(&role) == BTreeSet::from(["view"]),
            "{}",
            role["metadata"]["labels"]
        );
        let mut seen = BTreeSet::new();
        for (resource, granted) in grants(&role) {
            if resource == "gpumodules/status.operator.kyma-project.io" {
                ensure!(granted == verbs(&["get"]), "{resource}: {granted:?}");
            } else {
                ensure!(
                    granted == verbs(&["get", "list", "watch"]),
                    "{resource}: {granted:?}"
                );
                seen.insert(resource);
            }
        }
        ensure!(
            seen == brought,
            "they see {seen:?}, the module brings {brought:?}"
        );
    }
    Ok(())
}

/// Who edits an object of NVIDIA's starts privileged Pods. The dashboard deletes a module's resources as a collection.
fn editors_edit_the_gpu_module_alone(files: &Files) -> Result<()> {
    let all = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    for role in roles(files, "kyma-gpu-edit")? {
        ensure!(
            aggregated_to(&role) == BTreeSet::from(["edit"]),
            "{}",
            role["metadata"]["labels"]
        );
        let granted = grants(&role);
        let wanted = [
            ("gpumodules.operator.kyma-project.io".to_owned(), verbs(&all)),
            (
                "gpumodules/status.operator.kyma-project.io".to_owned(),
                verbs(&["get"]),
            ),
        ];
        ensure!(granted == wanted, "{granted:?}");
    }
    Ok(())
}
