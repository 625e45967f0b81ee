//! The samples of the documentation, applied as they are: the module's by an administrator, the others by somebody who may do
//! no more than edit one namespace.

mod limits;
mod modules;
mod shared;
mod team;
mod work;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::tools::repository_root;
use e2e::wait::eventually;
use gpu_manager::api::State;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::Value;

use crate::lab::{Lab, STEP};

/// Samples of the GpuModule begin so.
const MODULE: &str = "gpumodule-";

fn folder() -> PathBuf {
    repository_root().join("docs/user/samples")
}

fn path(sample: &str) -> String {
    folder().join(sample).display().to_string()
}

/// The object in a sample.
fn read(sample: &str) -> Result<Value> {
    let text = std::fs::read_to_string(path(sample)).with_context(|| sample.to_owned())?;
    serde_saphyr::from_str(&text).with_context(|| sample.to_owned())
}

/// Names of all samples.
fn all() -> Result<BTreeSet<String>> {
    names(&folder())
}

fn names(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

/// Applies a sample of the GpuModule as an administrator does.
async fn administer(lab: &Lab, sample: &str) -> Result<()> {
    apply(lab, &path(sample)).await
}

async fn apply(lab: &Lab, file: &str) -> Result<()> {
    lab.cluster
        .kubectl(&["apply", "--server-side", "-f", file])
        .await?;
    Ok(())
}

/// The same, and waits until the module is Ready with it.
async fn until_ready(lab: &Lab, sample: &str) -> Result<()> {
    administer(lab, sample).await?;
    lab.until(State::Ready).await?;
    Ok(())
}

/// Waits until a node offers so many of a resource.
async fn until_offered(lab: &Lab, node: &str, resource: &str, count: u32) -> Result<Node> {
    let nodes: Api<Node> = Api::all(lab.cluster.client());
    let what = format!("{count} {resource} on {node}");
    eventually(&what, STEP, async || {
        let node = nodes.get(node).await?;
        let offered = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref());
        let offered = offered.context("nothing is allocatable")?;
        let found = offered.get(resource).map(|quantity| quantity.0.as_str());
        ensure!(found == Some(count.to_string().as_str()), "{offered:?}");
        Ok(node)
    })
    .await
    .with_context(|| lab.logs())
}

/// Every sample is applied: those of the GpuModule all together, each other one by its name.
#[test]
fn no_sample_is_left_out() -> Result<()> {
    let tests = repository_root().join("e2e/tests/spine/samples");
    let code: String = names(&tests)?
        .iter()
        .map(|name| std::fs::read_to_string(tests.join(name)))
        .collect::<std::io::Result<_>>()?;
    let mut left_out = all()?;
    left_out.retain(|name| !name.starts_with(MODULE) && !code.contains(&format!("\"{name}\"")));
    ensure!(left_out.is_empty(), "{left_out:?}");
    Ok(())
}
