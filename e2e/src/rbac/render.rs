//! Renders each chart with each values file, and with what the operator makes of typical specs, through `helm template`,
//! which needs no cluster.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use gpu_manager::api::NodeFeatureDiscovery;
use gpu_manager::catalogue::{Catalogue, DriverLayout, Stage};
use gpu_manager::desired::{DriverUpgrades, Step, resolve_step};
use serde_json::json;

use super::ReleaseRights;
use crate::goldens::every_field;

/// The oldest Kubernetes the module supports.
const KUBE_VERSION: &str = "1.33.0";

/// Where the rights are derived from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The helm binary.
    pub helm: PathBuf,
    /// Folder with the chart archives `gpu-operator-v<version>.tgz`.
    pub charts: PathBuf,
    /// Folder with the values files; each is rendered with each chart.
    pub values: PathBuf,
}

/// Versions whose releases the operator may meet: those it installs and those it upgrades from.
pub fn versions() -> Result<Vec<String>> {
    let catalogue = Catalogue::compiled_in()?;
    let met = catalogue.charts().filter(|chart| chart.stage != Stage::Retired);
    Ok(met.map(|chart| chart.version.to_string()).collect())
}

/// The rights that all renders together need.
pub fn derive(sources: &Sources) -> Result<ReleaseRights> {
    let given = files(&sources.values)?;
    let folder = tempfile::tempdir()?;
    let mut rights = ReleaseRights::new();
    for version in versions()? {
        let chart = sources.charts.join(format!("gpu-operator-v{version}.tgz"));
        ensure!(
            chart.is_file(),
            "the chart {} is missing: name the folder that holds it in GPU_OPERATOR_CHARTS",
            chart.display()
        );
        let mut show = Command::new(&sources.helm);
        rights.add_crds(&output(show.args(["show", "crds"]).arg(&chart))?)?;
        let resolved = resolved(&version, folder.path())?;
        for file in given.iter().chain(&resolved) {
            let mut template = Command::new(&sources.helm);
            template
                .args(["template", "gpu-operator"])
                .arg(&chart)
                .args(["--namespace", "gpu-operator", "--skip-crds"])
                .args(["--kube-version", KUBE_VERSION, "--values"])
                .arg(file);
            rights
                .add_render(&version, &output(&mut template)?)
                .with_context(|| format!("chart {version} with {}", file.display()))?;
        }
    }
    Ok(rights)
}

/// What the operator makes of every field, in each mode, layout and world, as values files of one chart version.
fn resolved(version: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let catalogue = Catalogue::compiled_in()?;
    let chart = catalogue
        .chart(&version.parse()?)
        .with_context(|| format!("chart {version} is not in the catalogue"))?;
    if chart.stage != Stage::Install {
        return Ok(vec![]);
    }
    let specs = [
        json!({}),
        json!({ "driver": { "mode": "Preinstalled" } }),
        every_field()?,
    ];
    let mut layouts = vec![DriverLayout::ClusterPolicy];
    if chart.driver_layout != DriverLayout::ClusterPolicy {
        layouts.push(chart.driver_layout);
    }
    let mut files = vec![];
    for spec in specs {
        let spec = serde_json::from_value(spec)?;
        for layout in &layouts {
            for nfd in [NodeFeatureDiscovery::Module, NodeFeatureDiscovery::Cluster] {
                let step = Step {
                    chart: chart.version.clone(),
                    layout: *layout,
                    drivers: DriverUpgrades::AsConfigured,
                };
                let values = resolve_step(&spec, &catalogue, nfd, &step, &[])?.values;
                let file = folder.join(format!("{version}-{}.json", files.len()));
                fs::write(&file, values.to_string())?;
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// The values files of a folder, sorted.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("{} cannot be read", dir.display()))? {
        files.push(entry?.path());
    }
    ensure!(!files.is_empty(), "{} holds no values file", dir.display());
    files.sort();
    Ok(files)
}

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("{program} cannot be started: name the helm binary in HELM_BIN"))?;
    if !output.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("helm's output is not UTF-8")
}
