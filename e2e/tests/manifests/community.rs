//! The community module by the way of Kyma's CLI.

use anyhow::{Context as _, Result, ensure};
use e2e::inventory::Inventory;
use e2e::manifests::Flavour;
use gpu_manager::api::State;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cli::Cli;
use crate::files::Files;
use crate::lab::Lab;

const HERE: Flavour = Flavour::Community;

#[tokio::test(flavor = "multi_thread")]
async fn the_cli_brings_the_community_module_and_takes_it_away() -> Result<()> {
    let files = Files::of_the_source()?;
    let (template, manifest) = (files.template(), files.manifest(HERE));
    let lab = Lab::start().await?;
    let before = Inventory::take(&lab.client()).await?;
    let cli = Cli { client: lab.client() };

    cli.add(&template, manifest).await?;
    let manager = lab.manager(HERE).await?;
    lab.until_available(HERE).await?;
    lab.until(State::Ready).await?;

    let version = template["spec"]["version"].as_str().context("no version")?;
    ensure!(cli.installed_version(&template, manifest).await?.as_deref() == Some(version));
    // Without the label the image tells the same; with another one it is another version.
    label_version(&lab, None).await?;
    ensure!(cli.installed_version(&template, manifest).await?.as_deref() == Some(version));
    label_version(&lab, Some("0.0.1")).await?;
    ensure!(cli.installed_version(&template, manifest).await?.is_none());

    // A second time, as an upgrade does it.
    cli.add(&template, manifest).await?;
    ensure!(cli.installed_version(&template, manifest).await?.as_deref() == Some(version));
    lab.until(State::Ready).await?;

    cli.delete(&template, manifest, manager).await?;
    before.ensure_is_back(&lab.client()).await
}

async fn label_version(lab: &Lab, version: Option<&str>) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(lab.client(), HERE.namespace());
    let patch = json!({ "metadata": { "labels": { "app.kubernetes.io/version": version } } });
    deployments
        .patch("gpu-manager", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}
