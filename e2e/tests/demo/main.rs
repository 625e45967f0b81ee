//! The demo as a user runs it: what it shows, how it ends, and that it leaves nothing behind.

mod acceptance;
mod run;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::demo::default_chart_version;
use rustix::process::Signal;

use run::Run;

/// How long a run may take on a busy machine; it takes under a minute on two idle cores.
const DEADLINE: Duration = Duration::from_mins(10);

/// What it shows, in this order. `{version}` is the default chart version.
const SHOWN: [&str; 23] = [
    "Build what is missing",
    "Start a local cluster",
    "3 nodes are Ready",
    "Run the operator",
    "Real:      kube-apiserver",
    "Simulated: ",
    "Apply the default GpuModule",
    "gpumodule.operator.kyma-project.io/default created",
    "Processing  ",
    "Ready       all 2 GPU nodes can be used",
    "$ kubectl get gpumodule\n",
    "default   Ready   {version}    2/2 ",
    "$ helm list -n gpu-operator\n",
    "deployed\tgpu-operator-v{version}",
    "one-gpu was scheduled to gpu-",
    "Insufficient nvidia.com/gpu",
    "Delete the GpuModule",
    "Deleting    ",
    "the GpuModule is gone",
    "See what is left",
    "clusterpolicies.nvidia.com",
    "Labels of NVIDIA and NFD on nodes: 0",
    "All of it",
];

fn check_text(text: &str) -> Result<()> {
    let mut rest = text;
    let version = default_chart_version()?;
    for wanted in SHOWN.map(|wanted| wanted.replace("{version}", &version)) {
        let (_, after) = rest
            .split_once(&wanted)
            .with_context(|| format!("'{wanted}' is not shown, or not in its place:\n{text}"))?;
        rest = after;
    }
    for (node, pool, gpus) in [
        ("gpu-0", "gpu", "1"),
        ("gpu-1", "gpu", "1"),
        ("worker-0", "worker", "0"),
    ] {
        let row = [
            node,
            pool,
            "Garden",
            "Linux",
            "1877.13",
            "6.12.47-cloud-amd64",
            gpus,
        ];
        let is_row = |line: &str| line.split_whitespace().eq(row);
        ensure!(text.lines().any(is_row), "no row {row:?} in:\n{text}");
    }
    Ok(())
}

#[tokio::test]
async fn it_shows_the_whole_life_and_leaves_nothing() -> Result<()> {
    let mut run = Run::start(&[])?;
    let status = run.end(DEADLINE).await?;
    ensure!(status.success(), "{status}:\n{}", run.text());
    check_text(&run.text())?;
    run.is_gone().await
}

#[tokio::test]
async fn it_keeps_the_cluster_when_asked_to() -> Result<()> {
    let mut run = Run::start(&[("KEEP", "1")])?;
    run.shows("Ctrl-C here", DEADLINE).await?;
    let text = run.text();
    check_text(&text)?;
    let told = |variable: &str| -> Result<String> {
        let start = format!("  export {variable}=");
        let line = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(start.trim_start()));
        Ok(line
            .with_context(|| format!("{variable} is not told:\n{text}"))?
            .replace("$PATH", ""))
    };
    let path = told("PATH")?;
    let kubectl = path
        .split(':')
        .map(|folder| std::path::Path::new(folder).join("kubectl"))
        .find(|file| file.is_file())
        .context("no kubectl in the folders told")?;
    // Its cache would otherwise go into the tree.
    let home = tempfile::tempdir()?;
    let mut get = Command::new(kubectl);
    get.args(["get", "nodes", "-o", "name"])
        .env_clear()
        .env("HOME", home.path())
        .env("KUBECONFIG", told("KUBECONFIG")?);
    let nodes = String::from_utf8(get.output()?.stdout)?;
    ensure!(nodes == "node/gpu-0\nnode/gpu-1\nnode/worker-0\n", "{nodes}");

    run.signal(Signal::INT)?;
    let status = run.end(DEADLINE).await?;
    ensure!(status.success(), "{status}:\n{}", run.text());
    run.is_gone().await
}

/// While helm installs, which is when most could be left behind.
#[tokio::test]
async fn a_signal_ends_it_early_and_leaves_nothing() -> Result<()> {
    let mut run = Run::start(&[])?;
    run.shows("Processing", DEADLINE).await?;
    run.signal(Signal::TERM)?;
    let status = run.end(DEADLINE).await?;
    ensure!(status.code() == Some(128 + 15), "{status}:\n{}", run.text());
    run.is_gone().await
}

#[tokio::test]
async fn it_says_what_is_wrong_and_fails() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let folder = nothing.path().to_str().context("a path that is no text")?;
    let mut run = Run::start(&[("GPU_OPERATOR_CHARTS", folder)])?;
    let status = run.end(DEADLINE).await?;
    let text = run.text();
    ensure!(
        status.code() == Some(1) && text.contains("lacks gpu-operator-v"),
        "{status}:\n{text}"
    );
    run.is_gone().await
}
