//! Traps in what makes a managed module: modulectl's configuration and the ModuleReleaseMeta.

use anyhow::{Context as _, Result, ensure};
use e2e::manifests::{DEFAULT_CR, Flavour};
use serde_json::json;

use crate::files::Files;
use crate::module::{is_version, text};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "modulectl's configuration",
        avoided: the_configuration_is_of_modulectls_form,
        ways_in: &[
            |files| files.edit_config(|config| config["manifest"] = json!("/dist/gpu-manager.yaml")),
            |files| files.edit_config(|config| config["manifest"] = json!("gpu-manager-community.yaml")),
            |files| files.edit_config(|config| config["defaultCR"] = json!("gpu.yaml")),
            |files| files.edit_config(|config| config["name"] = json!("gpu")),
            |files| files.edit_config(|config| config["version"] = json!("0.1.1")),
            |files| files.edit_config(|config| config["icons"] = json!([])),
            |files| files.edit_config(|config| config["securityScanEnabled"] = json!(true)),
        ],
    },
    Trap {
        name: "ModuleReleaseMeta",
        avoided: the_release_meta_is_of_kymas_form,
        ways_in: &[
            |files| files.edit_release_meta(|meta| meta["spec"]["mandatory"] = json!({ "version": "0.1.0" })),
            |files| files.edit_release_meta(|meta| meta["spec"]["channels"][0]["channel"] = json!("fast-1")),
            |files| {
                files.edit_release_meta(|meta| {
                    meta["spec"]["ocmComponentName"] = json!("kyma-project.io/module/other");
                });
            },
        ],
    },
    Trap {
        name: "Downtime",
        avoided: the_downtime_is_the_same_everywhere,
        ways_in: &[
            |files| files.edit_template(|template| template["spec"]["requiresDowntime"] = json!(true)),
            |files| {
                files.edit_config(|config| {
                    drop(
                        config
                            .as_object_mut()
                            .and_then(|config| config.remove("requiresDowntime")),
                    );
                });
            },
        ],
    },
];

fn the_configuration_is_of_modulectls_form(files: &Files) -> Result<()> {
    let config = files.config();
    let (host, path) = text(&config["name"])
        .split_once('/')
        .context("its name has no path")?;
    ensure!(host.contains('.'), "its name begins with no host");
    let module = files.template()["spec"]["moduleName"].clone();
    ensure!(
        path.rsplit('/').next().is_some_and(|last| module == last),
        "its name does not end with the module's"
    );
    ensure!(
        config["version"] == files.template()["spec"]["version"],
        "its version is {}",
        config["version"]
    );
    // Relative to the file.
    ensure!(
        config["manifest"] == Flavour::Managed.file() && config["defaultCR"] == DEFAULT_CR,
        "its files"
    );
    let icon = &config["icons"][0];
    ensure!(
        icon["name"] == "module-icon" && text(&icon["link"]).starts_with("https://"),
        "its icon is {icon}"
    );
    // With a scan it wants a team of Kyma's.
    ensure!(
        config["securityScanEnabled"] == false && config.get("team").is_none(),
        "its scan"
    );
    Ok(())
}

fn the_release_meta_is_of_kymas_form(files: &Files) -> Result<()> {
    let spec = files.release_meta()["spec"].clone();
    ensure!(spec.get("mandatory").is_none(), "nobody has to have it");
    ensure!(
        spec["moduleName"] == files.template()["spec"]["moduleName"],
        "the module's name"
    );
    ensure!(
        spec["ocmComponentName"] == files.config()["name"],
        "the component's name"
    );
    let channels = spec["channels"].as_array().context("no channels")?;
    for channel in channels {
        let name = text(&channel["channel"]);
        let letters = (3..=32).contains(&name.len()) && name.chars().all(|c| c.is_ascii_lowercase());
        ensure!(letters && is_version(text(&channel["version"])), "{channel}");
    }
    Ok(())
}

fn the_downtime_is_the_same_everywhere(files: &Files) -> Result<()> {
    let of_template = files.template()["spec"]["requiresDowntime"]
        .as_bool()
        .context("not in the template")?;
    let of_config = files.config()["requiresDowntime"]
        .as_bool()
        .context("not in the configuration")?;
    ensure!(of_template == of_config);
    Ok(())
}
