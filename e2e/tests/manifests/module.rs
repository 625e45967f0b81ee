//! Traps in the ModuleTemplate.

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::{DEFAULT_CR, Flavour};
use semver::Version;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "ModuleTemplate",
        avoided: the_template_is_of_kymas_form,
        ways_in: &[
            |files| files.edit_template(|template| template["metadata"]["name"] = json!("gpu")),
            |files| files.edit_template(|template| template["metadata"]["namespace"] = json!("kyma-system")),
            |files| {
                files.edit_template(|template| {
                    template["metadata"]["annotations"]["operator.kyma-project.io/is-cluster-scoped"] =
                        json!("false");
                });
            },
            |files| {
                files.edit_template(|template| {
                    template["metadata"]["labels"]["operator.kyma-project.io/module-name"] = json!("gpus");
                });
            },
            |files| files.edit_template(|template| template["spec"]["moduleName"] = json!("gpu2")),
            |files| files.edit_template(|template| template["spec"]["version"] = json!("v0.1.0")),
            |files| {
                files.edit_template(|template| template["spec"]["data"]["spec"] = json!({ "suspend": true }));
            },
            |files| {
                files.edit_template(|template| {
                    drop(
                        template["spec"]
                            .as_object_mut()
                            .and_then(|spec| spec.remove("descriptor")),
                    );
                });
            },
        ],
    },
    Trap {
        name: "Manager of the module",
        avoided: the_manager_is_in_the_manifest,
        ways_in: &[
            |files| {
                files.edit_template(|template| template["spec"]["manager"]["name"] = json!("gpu-operator"));
            },
            |files| {
                files.edit_template(|template| {
                    template["spec"]["manager"]["namespace"] = json!("kyma-system");
                });
            },
            |files| files.edit_config(|config| config["manager"]["kind"] = json!("StatefulSet")),
        ],
    },
    Trap {
        name: "Associated resources",
        avoided: only_the_modules_own_kind_is_associated,
        ways_in: &[
            |files| files.edit_template(|template| template["spec"]["associatedResources"] = json!([])),
            |files| {
                files.edit_template(|template| {
                    let policy = json!({ "group": "nvidia.com", "version": "v1", "kind": "ClusterPolicy" });
                    template["spec"]["associatedResources"] =
                        json!([template["spec"]["associatedResources"][0], policy]);
                });
            },
            |files| {
                files.edit_config(|config| config["associatedResources"][0]["version"] = json!("v1beta1"));
            },
            |files| {
                files.each("CustomResourceDefinition", |crd| {
                    crd["spec"]["names"]["plural"] = json!("gpumodulelist");
                });
            },
        ],
    },
    Trap {
        name: "Links",
        avoided: links_lead_to_files_of_this_release,
        ways_in: &[
            |files| {
                files.edit_template(|template| {
                    template["spec"]["resources"][0]["link"] =
                        json!("https://git.example/0.1.0/gpu-manager.yaml");
                });
            },
            |files| {
                files.edit_template(|template| template["spec"]["resources"][0]["name"] = json!("manifest"));
            },
            |files| {
                files.edit_template(|template| {
                    template["spec"]["info"]["repository"] = json!("http://git.example");
                });
            },
            |files| {
                files.edit_config(|config| {
                    config["resources"][0]["link"] = json!("https://git.example/gpu-manager.yaml");
                });
            },
        ],
    },
];

/// A version as ModuleTemplate takes it: one word at most behind the numbers, and no digit in front of it.
pub fn is_version(text: &str) -> bool {
    Version::parse(text).is_ok_and(|version| {
        let word = version.pre.as_str();
        version.build.is_empty()
            && !word.contains('.')
            && !word.starts_with(|first: char| first.is_ascii_digit())
    }) && text.len() <= 32
}

/// Words of three or more small letters, joined by hyphens.
fn is_module_name(text: &str) -> bool {
    let words = |text: &str| {
        text.split('-')
            .all(|word| word.len() >= 3 && word.chars().all(|c| c.is_ascii_lowercase()))
    };
    text.len() <= 64 && words(text)
}

/// A text; empty where there is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn the_template_is_of_kymas_form(files: &Files) -> Result<()> {
    let template = files.template();
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    let (module, version) = (text(&spec["moduleName"]), text(&spec["version"]));
    ensure!(
        template["apiVersion"] == "operator.kyma-project.io/v1beta2" && template["kind"] == "ModuleTemplate"
    );
    ensure!(
        is_module_name(module) && is_version(version),
        "module {module}, version {version}"
    );
    ensure!(
        metadata["name"] == format!("{module}-{version}"),
        "its name is {}",
        metadata["name"]
    );
    ensure!(
        metadata.get("namespace").is_none(),
        "whoever pulls it chooses the namespace"
    );
    ensure!(
        metadata["labels"]["operator.kyma-project.io/module-name"] == module,
        "{}",
        metadata["labels"]
    );
    ensure!(spec["descriptor"] == json!({}), "no descriptor");
    ensure!(
        spec["data"] == files.default_cr(),
        "its data are not {DEFAULT_CR}"
    );
    let is_cluster_scoped = &metadata["annotations"]["operator.kyma-project.io/is-cluster-scoped"];
    for flavour in MANIFESTS {
        let scope = &files.object(flavour, "CustomResourceDefinition")["spec"]["scope"];
        ensure!(
            scope == "Cluster" && is_cluster_scoped == "true",
            "{scope} and {is_cluster_scoped}"
        );
    }
    Ok(())
}

/// The CLI looks for it by kind and name, and asks the cluster for its namespace.
fn the_manager_is_in_the_manifest(files: &Files) -> Result<()> {
    let of_template = files.template()["spec"]["manager"].clone();
    let of_config = files.config()["manager"].clone();
    for (flavour, manager) in [(Flavour::Community, of_template), (Flavour::Managed, of_config)] {
        let version = [text(&manager["group"]), text(&manager["version"])].join("/");
        let all = files.objects(flavour);
        let found = all.iter().any(|object| {
            let metadata = &object["metadata"];
            object["apiVersion"] == *version
                && object["kind"] == manager["kind"]
                && metadata["name"] == manager["name"]
                && metadata["namespace"] == manager["namespace"]
        });
        ensure!(found, "{manager} is not in {}", flavour.file());
    }
    Ok(())
}

/// The CLI deletes these first, and the dashboard asks users to; of NVIDIA's objects the operator takes care. The dashboard
/// makes the plural itself.
fn only_the_modules_own_kind_is_associated(files: &Files) -> Result<()> {
    let of_template = files.template()["spec"]["associatedResources"].clone();
    let of_config = files.config()["associatedResources"].clone();
    for (flavour, associated) in [(Flavour::Community, of_template), (Flavour::Managed, of_config)] {
        let crd = files.object(flavour, "CustomResourceDefinition")["spec"].clone();
        let own = json!([{
            "group": crd["group"],
            "version": crd["versions"][0]["name"],
            "kind": crd["names"]["kind"],
        }]);
        ensure!(associated == own, "{associated}");
        let plural = format!("{}s", text(&crd["names"]["kind"]).to_lowercase());
        ensure!(
            crd["names"]["plural"] == plural,
            "the plural is {}",
            crd["names"]["plural"]
        );
    }
    Ok(())
}

fn links_lead_to_files_of_this_release(files: &Files) -> Result<()> {
    let template = files.template()["spec"].clone();
    let config = files.config();
    let infos = [&template["info"], &config];
    for link in infos
        .iter()
        .flat_map(|info| [&info["repository"], &info["documentation"]])
    {
        ensure!(text(link).starts_with("https://"), "{link}");
    }
    let both = [
        (Flavour::Community, &template["resources"]),
        (Flavour::Managed, &config["resources"]),
    ];
    for (flavour, resources) in both {
        for (name, file) in [("rawManifest", flavour.file()), ("defaultResource", DEFAULT_CR)] {
            let all = resources.as_array().context("no resources")?;
            let found = all.iter().find(|resource| resource["name"] == name);
            let link = text(&found.with_context(|| format!("no {name}"))?["link"]);
            let end = format!("/releases/download/{}/{file}", text(&template["version"]));
            ensure!(
                link.starts_with("https://") && link.ends_with(&end),
                "{name} is {link}"
            );
        }
    }
    Ok(())
}
