//! Finds archives of the gpu-operator chart for tests and the demo.
//!
//! NVIDIA's own archives come first: a folder that the user names, `../shared/charts` beside the repository,
//! NVIDIA's public chart repository. Without them a stand-in takes their place: a chart of this project with
//! the same names, CRDs and hooks, in `e2e/charts`, packaged under each wanted version. Tests that use it
//! prove less, so that is said loudly, and with `CI=true` it is an error.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use gpu_manager::catalogue::{Catalogue, Stage};
use tempfile::TempDir;
use tokio::process::Command;

use crate::catalogue::CatalogueFolder;
use crate::tools::{Tool, Tools, cache_dir, repository_root};

/// NVIDIA's public chart repository.
const REPOSITORY: &str = "https://helm.ngc.nvidia.com/nvidia";

const HOW_TO_BRING_CHARTS: &str =
    "put the archives into ../shared/charts or name their folder in GPU_OPERATOR_CHARTS";

/// How long one helm may take; downloading is the slow part.
const HELM_DEADLINE: Duration = Duration::from_mins(1);

/// Where the archives came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// NVIDIA's own archives.
    Nvidia,
    /// The project's stand-in.
    StandIn,
}

/// A folder with the archives `gpu-operator-v<version>.tgz`.
#[derive(Debug)]
pub struct Charts {
    dir: PathBuf,
    origin: Origin,
    catalogue: Option<CatalogueFolder>,
    // Holds a packaged stand-in.
    _temporary: Option<TempDir>,
}

impl Charts {
    /// Finds the archives of all `versions`, for example `26.7.0`, in one place.
    ///
    /// The digests are not checked here; the operator does that before each use.
    pub async fn find(tools: &Tools, versions: &[impl AsRef<str>]) -> Result<Self> {
        match Self::search(tools, &texts(versions)).await? {
            Ok(charts) => Ok(charts),
            Err(reason) => {
                warn("USING THE PROJECT'S STAND-IN CHART INSTEAD", &reason);
                Self::stand_in(tools, versions).await
            }
        }
    }

    /// Finds NVIDIA's archives for `what`, which would prove nothing with the stand-in. `None` where they cannot be
    /// had: `what` must be left out then, which is said here.
    pub async fn nvidia(tools: &Tools, versions: &[impl AsRef<str>], what: &str) -> Result<Option<Self>> {
        match Self::search(tools, &texts(versions)).await? {
            Ok(charts) => Ok(Some(charts)),
            Err(reason) => {
                warn(&format!("{} IS LEFT OUT", what.to_uppercase()), &reason);
                Ok(None)
            }
        }
    }

    /// NVIDIA's archives, or why they cannot be had; with `CI=true` that is an error.
    async fn search(tools: &Tools, versions: &[&str]) -> Result<Result<Self>> {
        let named = std::env::var_os("GPU_OPERATOR_CHARTS")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from);
        if let Some(dir) = local(named, &repository_root().join("../shared/charts"), versions)? {
            return Ok(Ok(Self::in_folder(dir)));
        }
        match pull(tools, versions).await {
            Ok(dir) => Ok(Ok(Self::in_folder(dir))),
            Err(error) if in_ci() => {
                bail!("NVIDIA's chart is needed with CI=true: {HOW_TO_BRING_CHARTS} ({error:#})")
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Packages the stand-in chart under each of `versions`.
    ///
    /// The archives of one version are equal byte for byte, so their digest can be relied on.
    pub async fn stand_in(tools: &Tools, versions: &[impl AsRef<str>]) -> Result<Self> {
        let temporary = tempfile::Builder::new().prefix("gpu-manager-charts-").tempdir()?;
        let chart = repository_root().join("e2e/charts/gpu-operator");
        for version in texts(versions).into_iter().map(with_v) {
            let mut helm = helm(tools, temporary.path());
            helm.arg("package")
                .arg(&chart)
                .arg("--destination")
                .arg(temporary.path());
            helm.args(["--version", &version, "--app-version", &version]);
            run(&mut helm)
                .await
                .context("cannot package the stand-in chart")?;
        }
        Ok(Self {
            dir: temporary.path().to_owned(),
            origin: Origin::StandIn,
            catalogue: Some(CatalogueFolder::for_stand_in(temporary.path())?),
            _temporary: Some(temporary),
        })
    }

    fn in_folder(dir: PathBuf) -> Self {
        Self {
            dir,
            origin: Origin::Nvidia,
            catalogue: None,
            _temporary: None,
        }
    }

    /// The folder with the archives.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The catalogue that the operator needs to accept these archives; `None` with NVIDIA's, which the built-in one
    /// knows.
    pub fn catalogue(&self) -> Option<&Path> {
        self.catalogue.as_ref().map(CatalogueFolder::path)
    }

    /// Where they came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The archive of one version.
    pub fn archive(&self, version: &str) -> PathBuf {
        self.dir.join(file_name(version))
    }
}

/// Versions of the charts that the catalogue knows and that may still be on a cluster, oldest first.
pub fn known_versions() -> Result<Vec<String>> {
    let catalogue = Catalogue::compiled_in()?;
    let mut charts: Vec<_> = catalogue
        .charts()
        .filter(|chart| chart.stage != Stage::Retired)
        .collect();
    charts.sort_by(|a, b| a.version.cmp(&b.version));
    Ok(charts.iter().map(|chart| chart.version.to_string()).collect())
}

fn texts(versions: &[impl AsRef<str>]) -> Vec<&str> {
    versions.iter().map(AsRef::as_ref).collect()
}

fn with_v(version: &str) -> String {
    format!("v{}", version.trim_start_matches('v'))
}

fn file_name(version: &str) -> String {
    format!("gpu-operator-{}.tgz", with_v(version))
}

fn missing(dir: &Path, versions: &[&str]) -> Vec<String> {
    let names = versions.iter().map(|version| file_name(version));
    names.filter(|name| !dir.join(name).is_file()).collect()
}

/// The folder on this machine that has all archives, if there is one.
fn local(named: Option<PathBuf>, beside: &Path, versions: &[&str]) -> Result<Option<PathBuf>> {
    if let Some(dir) = named {
        // Naming a folder and then not using it would be a surprise.
        let missing = missing(&dir, versions);
        ensure!(
            missing.is_empty(),
            "GPU_OPERATOR_CHARTS names {}, which lacks {}; add the archives or unset the variable",
            dir.display(),
            missing.join(", ")
        );
        return Ok(Some(dir));
    }
    Ok(missing(beside, versions).is_empty().then(|| beside.to_owned()))
}

/// Straight to standard error: the test harness swallows `eprintln` of tests that pass.
fn warn(consequence: &str, reason: &anyhow::Error) {
    let _ = writeln!(
        std::io::stderr(),
        "NVIDIA'S GPU-OPERATOR CHART WAS NOT FOUND: {consequence}. To use it, {HOW_TO_BRING_CHARTS} ({reason:#})"
    );
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Downloads what the cache does not have yet.
async fn pull(tools: &Tools, versions: &[&str]) -> Result<PathBuf> {
    let dir = cache_dir()?.join("charts");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for version in versions.iter().map(|version| with_v(version)) {
        let archive = dir.join(file_name(&version));
        if archive.is_file() {
            continue;
        }
        // Into a folder of its own first, so that half an archive is never found.
        let temporary = tempfile::Builder::new().prefix(".pulling-").tempdir_in(&dir)?;
        let mut helm = helm(tools, temporary.path());
        helm.args([
            "pull",
            "gpu-operator",
            "--repo",
            REPOSITORY,
            "--version",
            &version,
            "--destination",
        ]);
        run(helm.arg(temporary.path()))
            .await
            .with_context(|| format!("no gpu-operator {version} from {REPOSITORY}"))?;
        std::fs::rename(temporary.path().join(file_name(&version)), &archive)
            .with_context(|| format!("cannot write {}", archive.display()))?;
    }
    Ok(dir)
}

/// A `helm` that keeps all its files in `home`.
fn helm(tools: &Tools, home: &Path) -> Command {
    let mut command = Command::new(tools.path(Tool::Helm));
    command
        .env("HOME", home)
        .env("HELM_NO_PLUGINS", "1")
        .kill_on_drop(true);
    for (variable, folder) in [
        ("HELM_CACHE_HOME", "cache"),
        ("HELM_CONFIG_HOME", "config"),
        ("HELM_DATA_HOME", "data"),
    ] {
        command.env(variable, home.join(".helm").join(folder));
    }
    // Makes archives reproducible: helm writes the time into them.
    command.env("SOURCE_DATE_EPOCH", "0");
    command
}

async fn run(helm: &mut Command) -> Result<()> {
    let output = tokio::time::timeout(HELM_DEADLINE, helm.output())
        .await
        .with_context(|| format!("helm took longer than {HELM_DEADLINE:?}"))?
        .context("cannot run helm")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [&str; 2] = ["26.7.0", "v26.3.3"];

    fn folder(versions: &[&str]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for version in versions {
            std::fs::write(dir.path().join(file_name(version)), "archive").unwrap();
        }
        dir
    }

    #[test]
    fn the_named_folder_comes_first_and_must_be_complete() {
        let (complete, half) = (folder(&WANTED), folder(&WANTED[..1]));
        let found = |named: Option<&TempDir>, beside: &TempDir| {
            local(named.map(|dir| dir.path().to_owned()), beside.path(), &WANTED)
        };
        assert_eq!(found(Some(&complete), &half).unwrap().unwrap(), complete.path());
        assert_eq!(found(None, &complete).unwrap().unwrap(), complete.path());
        assert_eq!(found(None, &half).unwrap(), None);
        let error = found(Some(&half), &complete).unwrap_err().to_string();
        assert!(error.contains("lacks gpu-operator-v26.3.3.tgz;"), "{error}");
    }
}
