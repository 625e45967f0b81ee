//! Traps in the names of images.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::manifests::{IMAGES_FILE, patch_for};
use e2e::tools::{Tools, repository_root};
use gpu_manager::catalogue::Catalogue;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, pod};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Image tag",
        avoided: the_tag_is_the_version,
        ways_in: &[
            |files| set_image(files, "registry.example/gpu-manager:0.0.1"),
            |files| set_image(files, "registry.example/gpu-manager:latest"),
            |files| set_image(files, "registry.example/gpu-manager"),
            |files| {
                set_image(
                    files,
                    &format!("registry.example/gpu-manager:0.1.0@sha256:{:064}", 0),
                );
            },
        ],
    },
    Trap {
        name: "Container name",
        avoided: the_first_container_is_the_manager,
        ways_in: &[
            |files| container(files, |containers| containers[0]["name"] = json!("operator")),
            |files| {
                container(files, |containers| {
                    containers.insert(0, json!({ "name": "proxy", "image": "a/b:1" }));
                });
            },
        ],
    },
    Trap {
        name: "Images in variables",
        avoided: every_image_is_a_variable,
        ways_in: &[
            |files| set_variable(files, "IMAGE_GPU_MANAGER", "registry.example/gpu-manager:0.0.1"),
            |files| {
                set_variable(
                    files,
                    "IMAGE_CONTAINER_TOOLKIT",
                    "nvcr.io/nvidia/k8s/container-toolkit",
                );
            },
            |files| set_variable(files, "IMAGE_GPU_OPERATOR", "nvcr.io/nvidia/gpu-operator:latest"),
        ],
    },
    Trap {
        name: "Variables that look like images",
        avoided: no_other_variable_looks_like_an_image,
        ways_in: &[
            |files| set_variable(files, "LISTEN", "[::]:8080"),
            |files| set_variable(files, "PROXY", "https://proxy.example:3128"),
        ],
    },
];

fn container(files: &mut Files, change: impl Fn(&mut Vec<Value>)) {
    files.each("Deployment", |deployment| {
        if let Some(containers) = deployment["spec"]["template"]["spec"]["containers"].as_array_mut() {
            change(containers);
        }
    });
}

fn set_image(files: &mut Files, image: &str) {
    container(files, |containers| containers[0]["image"] = json!(image));
}

fn set_variable(files: &mut Files, name: &str, value: &str) {
    container(files, |containers| {
        if let Some(variables) = containers[0]["env"].as_array_mut() {
            variables.retain(|variable| variable["name"] != name);
            variables.push(json!({ "name": name, "value": value }));
        }
    });
}

/// The manager's container in each manifest.
fn managers(files: &Files) -> [Value; 2] {
    MANIFESTS.map(|flavour| pod(files, flavour)["spec"]["containers"][0].clone())
}

/// The variables of a container that have a value of their own.
fn variables(container: &Value) -> BTreeMap<String, String> {
    let all = container["env"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    all.filter_map(|variable| Some((text(&variable["name"])?, text(&variable["value"])?)))
        .collect()
}

/// The tag of a reference without a digest.
fn tag(reference: &str) -> Option<&str> {
    let name = reference.rsplit('/').next()?;
    let (_, tag) = name.split_once(':')?;
    (!tag.is_empty() && !reference.contains('@')).then_some(tag)
}

/// modulectl compares both, the dashboard shows what stands behind the last colon.
fn the_tag_is_the_version(files: &Files) -> Result<()> {
    let version = files.template()["spec"]["version"].clone();
    for manager in managers(files) {
        let image = manager["image"].as_str().context("no image")?;
        ensure!(
            tag(image).is_some_and(|tag| version == tag),
            "the image is {image}"
        );
    }
    Ok(())
}

/// The CLI looks for the name, the dashboard for the first one.
fn the_first_container_is_the_manager(files: &Files) -> Result<()> {
    for manager in managers(files) {
        ensure!(
            manager["name"] == "manager",
            "the first container is {}",
            manager["name"]
        );
    }
    Ok(())
}

/// Mirrors and scanners find images here alone.
fn every_image_is_a_variable(files: &Files) -> Result<()> {
    for manager in managers(files) {
        let variables = variables(&manager);
        let own = variables
            .get("IMAGE_GPU_MANAGER")
            .context("its own image is in no variable")?;
        ensure!(manager["image"] == **own, "its own image is {own}");
        for (name, reference) in variables.iter().filter(|(name, _)| name.starts_with("IMAGE_")) {
            let tag = tag(reference).with_context(|| format!("{name} has no tag: {reference}"))?;
            ensure!(
                !["latest", "main"].contains(&tag),
                "{name} has a tag that moves: {reference}"
            );
        }
    }
    Ok(())
}

/// modulectl takes every value with a colon or an @ for an image, and stops at one that is none.
fn no_other_variable_looks_like_an_image(files: &Files) -> Result<()> {
    for manager in managers(files) {
        for (name, value) in variables(&manager)
            .iter()
            .filter(|(name, _)| !name.starts_with("IMAGE_"))
        {
            ensure!(
                !value.contains([':', '@']) || value.contains(char::is_whitespace),
                "{name} is {value}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_variables_are_the_images_of_every_chart_that_can_be_installed() -> Result<()> {
    let tools = Tools::ensure()?;
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
    let names: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &names, "the test of the list of images").await? else {
        return Ok(());
    };
    let wanted = patch_for(&e2e::manifests::images(&tools, &charts).await?);
    let found = std::fs::read_to_string(repository_root().join(IMAGES_FILE))?;
    ensure!(found == wanted, "{IMAGES_FILE} is out of date: run `make images`");
    // More than the operator and Node Feature Discovery: the operands are found as well.
    ensure!(wanted.matches("- name: IMAGE_").count() > 5, "{wanted}");
    for version in versions {
        let operator = format!("/gpu-operator:v{version}\n");
        ensure!(wanted.contains(&operator), "nothing of chart {version}");
    }
    Ok(())
}
