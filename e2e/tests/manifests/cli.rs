//! What Kyma's CLI does with a community module (`kyma module add`, `list`, `delete`), in order and form of its requests.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use e2e::wait::eventually;
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::files::title;
use crate::lab::{STEP, everywhere, name, place};

/// Where the CLI puts an object that names no namespace.
const FALLBACK: &str = "kyma-system";

/// How long the CLI waits for an object to be gone; then it ends with an error.
const DELETION: Duration = Duration::from_secs(100);

/// The pieces of a manifest: cut at every three hyphens.
pub fn pieces(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .split("---")
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
}

pub struct Cli {
    pub client: Client,
}

impl Cli {
    /// Brings the objects one after the other and, right after the last one, the default GpuModule.
    pub async fn add(&self, template: &Value, manifest: &str) -> Result<()> {
        for piece in pieces(manifest) {
            self.apply(&serde_saphyr::from_str(piece)?).await?;
        }
        self.apply(&template["spec"]["data"]).await
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let params = PatchParams::apply("cli").force();
        let api = place(&self.client, object, FALLBACK).await?;
        api.patch(name(object), &params, &Patch::Apply(object))
            .await
            .with_context(|| title(object))?;
        Ok(())
    }

    /// The version that `kyma module list` shows: the manager's, where it is the template's.
    pub async fn installed_version(&self, template: &Value, manifest: &str) -> Result<Option<String>> {
        let manager = &template["spec"]["manager"];
        let objects = pieces(manifest)
            .map(serde_saphyr::from_str::<Value>)
            .collect::<Result<Vec<_>, _>>()?;
        let mut objects = objects.iter();
        let found =
            objects.find(|object| object["kind"] == manager["kind"] && name(object) == manager["name"]);
        let found = found.context("the manifest has no manager")?;
        let Some(manager) = place(&self.client, found, FALLBACK)
            .await?
            .get_opt(name(found))
            .await?
        else {
            return Ok(None);
        };
        let manager = serde_json::to_value(manager)?;
        let label = manager["metadata"]["labels"]["app.kubernetes.io/version"].as_str();
        let version = label
            .map(ToOwned::to_owned)
            .or_else(|| version_of_image(&manager));
        Ok(version.filter(|version| template["spec"]["version"] == **version))
    }

    /// Deletes the associated resources, then the objects of the manifest, the last one first, and waits for each to be gone.
    pub async fn delete(&self, template: &Value, manifest: &str, mut manager: Manager) -> Result<()> {
        let associated = template["spec"]["associatedResources"]
            .as_array()
            .into_iter()
            .flatten();
        for resource in associated {
            let version =
                [&resource["group"], &resource["version"]].map(|part| part.as_str().unwrap_or_default());
            let kind = json!({ "apiVersion": version.join("/"), "kind": resource["kind"] });
            for found in everywhere(&self.client, &kind)
                .await?
                .list(&ListParams::default())
                .await?
            {
                let mut object = kind.clone();
                object["metadata"] = serde_json::to_value(&found.metadata)?;
                self.remove(&object).await?;
            }
        }
        let mut objects = pieces(manifest)
            .map(serde_saphyr::from_str)
            .collect::<Result<Vec<Value>, _>>()?;
        objects.reverse();
        for object in &objects {
            self.remove(object).await?;
            if object["kind"] == "Deployment" {
                // What the kubelet does then.
                manager.process.signal(Signal::TERM)?;
                let status = manager.process.wait(STEP).await?;
                ensure!(status.success(), "the operator ended with {status}");
            }
        }
        Ok(())
    }

    async fn remove(&self, object: &Value) -> Result<()> {
        let api = place(&self.client, object, FALLBACK).await?;
        api.delete(name(object), &DeleteParams::default())
            .await
            .with_context(|| title(object))?;
        eventually(&format!("{} to be gone", title(object)), DELETION, async || {
            let left = api.get_opt(name(object)).await?;
            ensure!(left.is_none(), "{:?}", left.map(|left| left.data));
            Ok(())
        })
        .await
    }
}

/// What stands behind the last colon of the image of a container whose name has `manager` in it.
fn version_of_image(manager: &Value) -> Option<String> {
    let mut containers = manager["spec"]["template"]["spec"]["containers"]
        .as_array()?
        .iter();
    let container = containers.find(|container| {
        container["name"]
            .as_str()
            .is_some_and(|name| name.contains("manager"))
    })?;
    container["image"]
        .as_str()?
        .rsplit_once(':')
        .map(|(_, version)| version.to_owned())
}
