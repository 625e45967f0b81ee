//! The demo: the module's whole life on a local cluster, shown and checked at every step.
//!
//! [`steps`] is the path itself, which `make acceptance` walks on a real cluster too; [`local`] is what it runs on here.

mod follow;
mod left;
mod local;
mod nodes;
mod programs;
mod screen;
pub mod steps;
mod workload;

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use gpu_manager::catalogue::Catalogue;

use crate::simulated::names::GPU_RESOURCE;

pub use follow::{follow, is_ready};
pub use left::Left;
pub use local::{Local, default_module};
pub use nodes::NodeRow;
pub use programs::Programs;
pub use screen::Screen;
pub use steps::Steps;
pub use workload::Workload;

/// How long a step may take that takes seconds on an idle machine.
const DEADLINE: Duration = Duration::from_mins(5);

/// Namespace of the Pods.
const NAMESPACE: &str = "demo";

/// Image of the GPU Pods. Its CUDA runs on every driver branch that the module offers.
pub const IMAGE: &str = "nvcr.io/nvidia/cuda:12.8.1-base-ubuntu24.04";

/// The chart version that an empty GpuModule installs.
pub fn default_chart_version() -> Result<String> {
    let catalogue = Catalogue::compiled_in()?;
    let chart = catalogue
        .default_chart()
        .context("the catalogue has no default chart")?;
    Ok(chart.version.to_string())
}

/// Goes the whole path on a cluster that [`Local::start`] has made.
pub async fn run(local: &Local, screen: &mut Screen<'_>) -> Result<()> {
    let steps = Steps::new(local.cluster.client(), local.programs.clone());
    path(&steps, screen).await.map_err(|error| {
        let log = local.manager.process.log_tail();
        anyhow!("{error:#}\nThe operator's log ends so:\n{log}")
    })
}

async fn path(steps: &Steps, screen: &mut Screen<'_>) -> Result<()> {
    screen.phase("Apply the default GpuModule and wait until it is Ready");
    steps.apply(screen).await?;
    steps.until_ready(screen, DEADLINE).await?;

    screen.phase("Look at it");
    let shown = steps.show(screen).await?;
    let offering = shown.nodes.iter().filter(|node| node.gpus > 0).count();
    ensure!(
        usize::try_from(shown.usable)? == offering,
        "the status counts {} usable GPU nodes, {offering} offer GPUs",
        shown.usable
    );
    ensure!(
        shown.usable == 2 && shown.chart_version == default_chart_version()?,
        "two usable GPU nodes and the default chart were expected: {shown:?}"
    );
    check_nodes(&shown.nodes)?;

    screen.phase("Run GPU Pods as a user");
    pods(steps, screen, &shown.nodes).await?;

    screen.phase("Delete the GpuModule");
    steps.delete(screen, DEADLINE).await?;

    screen.phase("See what is left");
    steps.left().await?.show(screen);
    Ok(())
}

fn check_nodes(nodes: &[NodeRow]) -> Result<()> {
    let seen: Vec<_> = nodes
        .iter()
        .map(|node| {
            (
                node.pool.as_deref(),
                node.os.starts_with("Garden Linux "),
                node.gpus,
            )
        })
        .collect();
    let wanted = [
        (Some("gpu"), true, 1),
        (Some("gpu"), true, 1),
        (Some("worker"), true, 0),
    ];
    ensure!(seen == wanted, "other nodes than expected: {nodes:?}");
    Ok(())
}

async fn pods(steps: &Steps, screen: &mut Screen<'_>, nodes: &[NodeRow]) -> Result<()> {
    let workload = Workload::create(steps.client(), NAMESPACE).await?;
    let command = ["nvidia-smi"];
    workload.start("one-gpu", IMAGE, &command, 1).await?;
    workload.start("too-many-gpus", IMAGE, &command, 8).await?;
    screen.progress(&format!(
        "namespace {NAMESPACE}: Pod one-gpu asks for {GPU_RESOURCE}: 1, Pod too-many-gpus for {GPU_RESOURCE}: 8"
    ));
    let running = workload.until_phase("one-gpu", &["Running"], DEADLINE).await?;
    let node = running.spec.and_then(|spec| spec.node_name).unwrap_or_default();
    screen.progress(&format!("one-gpu was scheduled to {node}"));
    ensure!(
        nodes.iter().any(|row| row.name == node && row.gpus > 0),
        "{node} has no GPU"
    );
    let reason = workload.until_unschedulable("too-many-gpus", DEADLINE).await?;
    screen.progress(&format!("too-many-gpus waits; the scheduler says: {reason}"));
    ensure!(
        reason.contains(&format!("Insufficient {GPU_RESOURCE}")),
        "another reason than too few GPUs"
    );
    workload
        .until_phase("too-many-gpus", &["Pending"], DEADLINE)
        .await?;
    let columns = "custom-columns=NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName";
    let args = ["get", "pods", "-n", NAMESPACE, "-o", columns];
    let output = steps.programs().kubectl(&args).await?;
    screen.command(&format!("kubectl {}", args.join(" ")), &output);
    workload.remove().await?;
    screen.progress("the namespace and its Pods are deleted");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn other_nodes_than_announced_end_the_demo() {
        let node = |pool: &str, os: &str, gpus| NodeRow {
            name: String::new(),
            pool: Some(pool.to_owned()),
            os: os.to_owned(),
            kernel: String::new(),
            gpus,
            labels: BTreeSet::new(),
        };
        let linux = "Garden Linux 1877.3";
        let good = [
            node("gpu", linux, 1),
            node("gpu", linux, 1),
            node("worker", linux, 0),
        ];
        assert!(check_nodes(&good).is_ok());
        for (index, wrong) in [
            (0, node("gpu", linux, 0)),
            (1, node("worker", linux, 1)),
            (2, node("worker", "Ubuntu 24.04", 0)),
            (2, node("worker", linux, 1)),
        ] {
            let mut nodes = good.clone();
            nodes[index] = wrong;
            assert!(check_nodes(&nodes).is_err(), "{nodes:?}");
        }
    }
}
