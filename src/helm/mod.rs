//! Drives the `helm` binary: installs, upgrades, rolls back, uninstalls and reads releases.
//!
//! Knows everything about helm and nothing of the custom resource or the Kubernetes API. [`Helm`] is the door;
//! `args` builds command lines and `output` reads what comes back, both without I/O; `process` runs them.
//! One change runs at a time, never more, also across a restart of the operator (see `workdir`).
//! What a change has led to is read from the release's Secrets afterwards, not from helm's exit code.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;
use serde_json::Value;
use tokio::sync::Mutex;

mod args;
mod environment;
mod error;
mod interrupt;
mod output;
mod process;
mod run;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod values;
mod version;
mod workdir;

pub use args::{RELEASE_FLAGS, ReleaseRef, RollbackOptions, UninstallOptions, UpgradeOptions};
pub use environment::{ApiAccess, PASSED_ON, PASSED_ON_WITH_KUBECONFIG};
pub use error::{HelmError, OpenError};
pub use interrupt::{Cause, Interrupt, Interrupter, Phase, interrupt};
pub use output::{ReleaseMetadata, RevisionStatus};
pub use run::longest_change;

use interrupt::OnShutdown;
use run::{Steps, deadline};
use workdir::{LockError, WorkDir};

/// How long the start waits for a helm process of an earlier operator; the first change waits longer.
const OPEN_LOCK_LIMIT: Duration = Duration::from_secs(1);

/// Where helm is and how it may work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the binary; a bare name is not looked up in `PATH`.
    pub binary: PathBuf,
    /// A folder for helm's home, caches and files with values. It is made if missing, with all rights taken from
    /// others, and has to be the same after a restart: the lock in it keeps two operators' helms apart.
    pub work_dir: PathBuf,
    /// The API server.
    pub api: ApiAccess,
    /// Variables of the operator's environment for helm; only names in [`PASSED_ON`] (with a kubeconfig also those in
    /// [`PASSED_ON_WITH_KUBECONFIG`]) are taken.
    pub environment: Vec<(String, String)>,
}

/// A change that helm reports as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How long helm took.
    pub elapsed: Duration,
}

/// A helm binary that was checked once and is ready to use.
#[derive(Debug)]
pub struct Helm {
    binary: PathBuf,
    version: Version,
    work_dir: WorkDir,
    environment: Vec<(OsString, OsString)>,
    interrupt: Interrupt,
    /// Held while a change runs.
    change: Mutex<()>,
}

impl Helm {
    /// Prepares the working directory and asks the binary for its version.
    pub async fn open(settings: Settings, interrupt: Interrupt) -> Result<Self, OpenError> {
        let work_dir_error = |source| OpenError::WorkDir {
            path: settings.work_dir.clone(),
            source,
        };
        let work_dir = WorkDir::create(&settings.work_dir).map_err(work_dir_error)?;
        // Taking the lock removes what a killed operator left; if its helm still runs, the first change does it.
        if let Err(LockError::Io(error)) = work_dir.lock(OPEN_LOCK_LIMIT, &interrupt).await {
            return Err(work_dir_error(error));
        }
        let binary = absolute(&settings.binary);
        let api = match settings.api {
            ApiAccess::Kubeconfig(path) => ApiAccess::Kubeconfig(absolute(&path)),
            api @ ApiAccess::InCluster { .. } => api,
        };
        let mut helm = Self {
            environment: environment::environment(&work_dir, &api, &settings.environment),
            binary,
            version: Version::new(0, 0, 0),
            work_dir,
            interrupt,
            change: Mutex::new(()),
        };
        helm.version = helm.ask_version().await?;
        tracing::info!(version = %helm.version, binary = %helm.binary.display(), "helm found");
        Ok(helm)
    }

    /// Version of the binary.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The name under which the API server keeps what Helm applies: that of its binary (helm.sh/helm/v4 `pkg/kube/client.go`).
    pub fn field_manager(&self) -> Cow<'_, str> {
        self.binary.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Waits for a helm process that an earlier operator left behind, so that what it does is not taken for dead.
    pub async fn await_left_over(&self, limit: Duration) -> Result<(), HelmError> {
        self.turn("start", limit).await.map(drop)
    }

    /// Installs the release, or upgrades it to exactly this chart and these values. CRDs in the chart are left alone.
    /// Releases of Helm 3 are taken over.
    pub async fn upgrade_install(
        &self,
        release: &ReleaseRef,
        chart: &Path,
        values: &Value,
        options: &UpgradeOptions,
    ) -> Result<Finished, HelmError> {
        let verb = "upgrade";
        let turn = self.turn(verb, longest_change(options.timeout)).await?;
        let file = self
            .work_dir
            .write_values(values)
            .map_err(|source| HelmError::Run { verb, source })?;
        let args = args::upgrade_install(release, &absolute(chart), file.name(), options);
        let deadline = deadline(options.timeout, Steps::One);
        self.change(verb, &args, deadline, OnShutdown::Stop, turn).await
    }

    /// Goes back to an earlier revision, whatever the state of the newest one is.
    pub async fn rollback(
        &self,
        release: &ReleaseRef,
        to: u32,
        options: &RollbackOptions,
    ) -> Result<Finished, HelmError> {
        let verb = "rollback";
        let turn = self.turn(verb, longest_change(options.timeout)).await?;
        let args = args::rollback(release, to, options);
        let deadline = deadline(options.timeout, Steps::One);
        self.change(verb, &args, deadline, OnShutdown::Finish, turn).await
    }

    /// Deletes what the release made and then its records; `None` when there is no such release. Helm skips objects
    /// that lost its ownership marks and still succeeds, so what is left has to be checked by the caller.
    pub async fn uninstall(
        &self,
        release: &ReleaseRef,
        options: &UninstallOptions,
    ) -> Result<Option<Finished>, HelmError> {
        let verb = "uninstall";
        let turn = self.turn(verb, longest_change(options.timeout)).await?;
        let args = args::uninstall(release, options);
        let deadline = deadline(options.timeout, Steps::Two);
        found(self.change(verb, &args, deadline, OnShutdown::Finish, turn).await)
    }

    /// A revision (the newest by default) in short; `None` when there is no such revision.
    pub async fn get_metadata(
        &self,
        release: &ReleaseRef,
        revision: Option<u32>,
    ) -> Result<Option<ReleaseMetadata>, HelmError> {
        let args = args::get_metadata(release, revision);
        found(self.read("get metadata", &args, output::metadata).await)
    }

    /// The values that a revision (the newest by default) was made with, without the chart's defaults; `None` when
    /// there is no such revision.
    pub async fn get_values(
        &self,
        release: &ReleaseRef,
        revision: Option<u32>,
    ) -> Result<Option<Value>, HelmError> {
        found(
            self.read("get values", &args::get_values(release, revision), output::values)
                .await,
        )
    }

    /// The values that a revision was made with, over the defaults of its chart; `None` when there is no such revision.
    pub async fn get_all_values(
        &self,
        release: &ReleaseRef,
        revision: u32,
    ) -> Result<Option<Value>, HelmError> {
        let args = args::get_all_values(release, revision);
        found(self.read("get values", &args, output::values).await)
    }

    /// The defaults of a chart, without those of its dependencies that it does not change, as YAML.
    pub async fn show_values(&self, chart: &Path) -> Result<String, HelmError> {
        self.read("show values", &args::show_values(&absolute(chart)), |text| {
            Ok(text.to_owned())
        })
        .await
    }

    /// The objects of a revision as YAML documents; `None` when there is no such revision. Helm keeps the text as the chart
    /// rendered it: what Helm itself adds to each object when it applies them is not in it.
    pub async fn get_manifest(
        &self,
        release: &ReleaseRef,
        revision: u32,
    ) -> Result<Option<String>, HelmError> {
        let args = args::get_manifest(release, revision);
        found(self.read("get manifest", &args, |text| Ok(text.to_owned())).await)
    }

    /// The CRDs that a chart and its dependencies bring along, as YAML documents.
    pub async fn show_crds(&self, chart: &Path) -> Result<String, HelmError> {
        self.read("show crds", &args::show_crds(&absolute(chart)), |text| {
            Ok(text.to_owned())
        })
        .await
    }
}

fn found<T>(result: Result<T, HelmError>) -> Result<Option<T>, HelmError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(HelmError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Helm runs in a directory of its own, so a relative path of ours would lead astray.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
