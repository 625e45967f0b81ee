//! Traps in names and labels.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::Flavour;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, pod, title};
use crate::trap::Trap;

const THE_GPUMODULE: &str = "the default GpuModule";

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Module label",
        avoided: everything_has_the_module_label,
        ways_in: &[
            |files| {
                files.each("PriorityClass", |class| {
                    class["metadata"]["labels"]["kyma-project.io/module"] = json!("gpu-manager");
                });
            },
            |files| {
                files.each("Deployment", |deployment| {
                    unlabel(&mut deployment["spec"]["template"], "kyma-project.io/module");
                });
            },
            |files| files.edit_default_cr(|module| unlabel(module, "kyma-project.io/module")),
        ],
    },
    Trap {
        name: "Recommended labels",
        avoided: everything_has_the_recommended_labels,
        ways_in: &[
            |files| {
                files.each("CustomResourceDefinition", |crd| {
                    unlabel(crd, "app.kubernetes.io/component");
                });
            },
            |files| {
                files.each("NetworkPolicy", |policy| {
                    unlabel(policy, "app.kubernetes.io/name");
                });
            },
            |files| files.edit_template(|template| unlabel(template, "app.kubernetes.io/part-of")),
            |files| files.edit_release_meta(|meta| unlabel(meta, "app.kubernetes.io/managed-by")),
            |files| files.edit_default_cr(|module| unlabel(module, "app.kubernetes.io/component")),
        ],
    },
    Trap {
        name: "Version label",
        avoided: the_version_label_is_the_version,
        ways_in: &[
            |files| {
                files.each("Deployment", |deployment| {
                    deployment["metadata"]["labels"]["app.kubernetes.io/version"] = json!("0.0.1");
                });
            },
            |files| {
                files.each("ServiceAccount", |account| {
                    unlabel(account, "app.kubernetes.io/version");
                });
            },
            |files| {
                files.edit_default_cr(|module| {
                    module["metadata"]["labels"]["app.kubernetes.io/version"] = json!("0.1.0");
                });
            },
            |files| {
                files.edit_template(|template| {
                    template["metadata"]["labels"]["app.kubernetes.io/version"] = json!("0.0.1");
                });
            },
        ],
    },
    Trap {
        name: "Prefixed roles",
        avoided: the_roles_for_users_have_kymas_names,
        ways_in: &[
            |files| rename(files, "kyma-gpu-view", "gpu-manager-kyma-gpu-view"),
            |files| rename(files, "kyma-gpu-edit", "kyma-gpu-manager-edit"),
        ],
    },
    Trap {
        name: "Names of NetworkPolicies",
        avoided: network_policies_have_kymas_names,
        ways_in: &[|files| {
            files.each("NetworkPolicy", |policy| {
                policy["metadata"]["name"] = json!("allow-to-apiserver");
            });
        }],
    },
    Trap {
        name: "Selectors of labels that others write",
        avoided: selectors_use_labels_that_stay,
        ways_in: &[
            |files| {
                select(
                    files,
                    "Deployment",
                    "/spec/selector/matchLabels",
                    "app.kubernetes.io/part-of",
                );
            },
            |files| {
                select(
                    files,
                    "Deployment",
                    "/spec/selector/matchLabels",
                    "app.kubernetes.io/version",
                );
            },
            |files| {
                select(
                    files,
                    "NetworkPolicy",
                    "/spec/podSelector/matchLabels",
                    "app.kubernetes.io/component",
                );
            },
            |files| {
                files.each("Deployment", |deployment| {
                    deployment["spec"]["template"]["metadata"]["labels"]["control-plane"] = json!("other");
                });
            },
        ],
    },
];

fn unlabel(object: &mut Value, label: &str) {
    object["metadata"]["labels"]
        .as_object_mut()
        .and_then(|labels| labels.remove(label));
}

fn rename(files: &mut Files, from: &str, to: &str) {
    files.each("ClusterRole", |role| {
        if role["metadata"]["name"] == from {
            role["metadata"]["name"] = json!(to);
        }
    });
}

fn select(files: &mut Files, kind: &str, pointer: &str, label: &str) {
    files.each(kind, |object| {
        if let Some(selector) = object.pointer_mut(pointer) {
            selector[label] = json!("x");
        }
    });
}

/// Objects of both manifests and the Pod, with titles.
fn labelled(files: &Files) -> Vec<(String, Value)> {
    let mut all = vec![];
    for flavour in MANIFESTS {
        let objects = files.objects(flavour);
        all.extend(objects.into_iter().map(|object| (title(&object), object)));
        all.push((format!("the Pod in {}", flavour.file()), pod(files, flavour)));
    }
    all
}

/// What has the version of the release, with titles: all but the default GpuModule.
fn of_the_version(files: &Files) -> Vec<(String, Value)> {
    let mut all = labelled(files);
    all.push(("the ModuleTemplate".to_owned(), files.template()));
    all.push(("the ModuleReleaseMeta".to_owned(), files.release_meta()));
    all
}

/// Everything of a release, with titles.
fn everything(files: &Files) -> Vec<(String, Value)> {
    let mut all = of_the_version(files);
    all.push((THE_GPUMODULE.to_owned(), files.default_cr()));
    all
}

/// Kyma attributes objects to modules by it.
fn everything_has_the_module_label(files: &Files) -> Result<()> {
    for (title, object) in everything(files) {
        let label = &object["metadata"]["labels"]["kyma-project.io/module"];
        ensure!(label == "gpu", "{title}: {label}");
    }
    Ok(())
}

fn everything_has_the_recommended_labels(files: &Files) -> Result<()> {
    for (title, object) in everything(files) {
        for name in [
            "name",
            "instance",
            "version",
            "component",
            "part-of",
            "managed-by",
        ] {
            if name == "version" && title == THE_GPUMODULE {
                continue;
            }
            let label = &object["metadata"]["labels"][format!("app.kubernetes.io/{name}")];
            ensure!(
                label.as_str().is_some_and(|label| !label.is_empty()),
                "{title} has no {name}"
            );
        }
    }
    Ok(())
}

/// The CLI reads it before it looks at the image. The GpuModule is the user's: nobody would bring its label up to date.
fn the_version_label_is_the_version(files: &Files) -> Result<()> {
    let version = files.template()["spec"]["version"].clone();
    for (title, object) in of_the_version(files) {
        let label = &object["metadata"]["labels"]["app.kubernetes.io/version"];
        ensure!(*label == version, "{title}: {label}");
    }
    let labels = &files.default_cr()["metadata"]["labels"];
    ensure!(
        labels.get("app.kubernetes.io/version").is_none(),
        "the default GpuModule has a version"
    );
    Ok(())
}

/// Kustomize's namePrefix would reach them, and the documented names would not be there.
fn the_roles_for_users_have_kymas_names(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let all = files.objects(flavour);
        let for_users = all.iter().filter(|object| {
            let labels = object["metadata"]["labels"].as_object();
            labels.is_some_and(|labels| {
                labels
                    .keys()
                    .any(|label| label.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
            })
        });
        let names: BTreeSet<_> = for_users.map(title).collect();
        ensure!(
            names
                == ["ClusterRole kyma-gpu-edit", "ClusterRole kyma-gpu-view"]
                    .map(ToOwned::to_owned)
                    .into(),
            "{names:?}"
        );
    }
    Ok(())
}

fn network_policies_have_kymas_names(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let all = files.objects(flavour);
        for policy in all.iter().filter(|object| object["kind"] == "NetworkPolicy") {
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            ensure!(name.starts_with("kyma-project.io--gpu-manager-allow-"), "{name}");
        }
    }
    Ok(())
}

/// Lifecycle Manager writes component and part-of on every object, and a version changes: a selector cannot.
fn selectors_use_labels_that_stay(files: &Files) -> Result<()> {
    let stay = ["app.kubernetes.io/name", "control-plane"];
    for flavour in [Flavour::Managed, Flavour::Community] {
        let labels = pod(files, flavour)["metadata"]["labels"].clone();
        for object in files.objects(flavour) {
            let selector = match object["kind"].as_str() {
                Some("Deployment") => &object["spec"]["selector"]["matchLabels"],
                Some("NetworkPolicy") => &object["spec"]["podSelector"]["matchLabels"],
                _ => continue,
            };
            let selector = selector
                .as_object()
                .with_context(|| format!("{} selects nothing", title(&object)))?;
            for (label, value) in selector {
                ensure!(
                    stay.contains(&label.as_str()),
                    "{} selects by {label}",
                    title(&object)
                );
                ensure!(
                    labels[label] == *value,
                    "{} does not select the Pod: {label}",
                    title(&object)
                );
            }
        }
    }
    Ok(())
}
