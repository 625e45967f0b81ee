//! Flags and environment become [`Cli`]; the only file that reads the environment.

mod cleanup;
mod parse;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::admin::{HEALTH_PORT, METRICS_PORT};
use crate::helm::{ApiAccess, PASSED_ON, PASSED_ON_WITH_KUBECONFIG};
use crate::telemetry::{DEFAULT_FILTER, Format};
use parse::{label_value, registry, value_path};

pub use cleanup::CleanupArgs;

/// The Kyma GPU module: installs, upgrades and removes NVIDIA's gpu-operator and says which GPU nodes work.
#[derive(Clone, Debug, Parser)]
#[command(name = "gpu-manager", version)]
pub struct Cli {
    /// What to do; without a command: run.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Settings of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What the binary can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Run the operator.
    Run,
    /// Finish a removal for which no operator is left. Tells what it would do; --yes does it.
    Cleanup(CleanupArgs),
    /// Print the CustomResourceDefinition of GpuModule as YAML.
    Crds,
}

/// Settings of the operator.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Path of the helm binary (version 4); without it helm is looked for in PATH.
    #[arg(long, global = true, env = "HELM_BIN", value_name = "FILE")]
    pub helm: Option<PathBuf>,

    /// Folder with NVIDIA's chart archives, for example gpu-operator-v26.7.0.tgz.
    #[arg(
        long,
        global = true,
        env = "GPU_MANAGER_CHARTS_DIR",
        default_value = "/charts",
        value_name = "FOLDER"
    )]
    pub charts_dir: PathBuf,

    /// Folder with a chart catalogue that replaces the built-in one.
    #[arg(long, global = true, env = "GPU_MANAGER_CATALOGUE_DIR", value_name = "FOLDER")]
    pub catalogue_dir: Option<PathBuf>,

    /// Registries, with or without a path, that a GpuModule may name for images besides those of the module itself, separated by
    /// commas; without it any.
    #[arg(
        long,
        global = true,
        env = "GPU_MANAGER_ALLOWED_REGISTRIES",
        value_delimiter = ',',
        value_parser = registry,
        value_name = "REGISTRIES"
    )]
    pub allowed_registries: Vec<String>,

    /// Refuse spec.values, but for what --open-values names. The other fields of a GpuModule stay open.
    #[arg(
        long,
        global = true,
        env = "GPU_MANAGER_LOCKED_VALUES",
        value_parser = clap::builder::BoolishValueParser::new(),
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub locked_values: bool,

    /// Dotted paths, separated by commas, at and below which spec.values may be set although --locked-values is given.
    #[arg(
        long,
        global = true,
        env = "GPU_MANAGER_OPEN_VALUES",
        value_delimiter = ',',
        value_parser = value_path,
        value_name = "PATHS"
    )]
    pub open_values: Vec<String>,

    /// Whether Kyma asks for validated cryptography. There is none here, which the log then says.
    #[arg(
        long,
        global = true,
        env = "KYMA_FIPS_MODE_ENABLED",
        value_parser = clap::builder::FalseyValueParser::new(),
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub fips_mode: bool,

    /// Folder that helm may write to; must outlive a restart of the container.
    #[arg(
        long,
        global = true,
        env = "GPU_MANAGER_WORK_DIR",
        default_value = "/tmp/gpu-manager",
        value_name = "FOLDER"
    )]
    pub work_dir: PathBuf,

    /// Namespace that the operator runs in: of its ServiceAccount and of its Lease.
    #[arg(
        long,
        global = true,
        env = "POD_NAMESPACE",
        default_value = "kyma-system",
        value_name = "NAMESPACE"
    )]
    pub namespace: String,

    /// Name of this process, unique among those that run; without it the host name and the process id.
    #[arg(long, global = true, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,

    /// Kubeconfig file; without it the Pod's ServiceAccount is used.
    #[arg(long, global = true, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of /healthz and /readyz.
    #[arg(long, global = true, default_value_t = SocketAddr::from(([0, 0, 0, 0], HEALTH_PORT)), value_name = "ADDRESS")]
    pub health_address: SocketAddr,

    /// Address of /metrics.
    #[arg(long, global = true, default_value_t = SocketAddr::from(([0, 0, 0, 0], METRICS_PORT)), value_name = "ADDRESS")]
    pub metrics_address: SocketAddr,

    /// Seconds after which the Lease of a silent replica passes on.
    #[arg(long, global = true, default_value_t = 30, value_parser = clap::value_parser!(u64).range(3..=300), value_name = "SECONDS")]
    pub lease_duration: u64,

    /// Seconds for which somebody else's unfinished Helm operation on the release is left alone: twice Helm's own default timeout.
    #[arg(long, global = true, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=86_400), value_name = "SECONDS")]
    pub foreign_operation_limit: u32,

    /// Form of the log lines.
    #[arg(long, global = true, env = "LOG_FORMAT", value_enum, default_value_t = Format::Json)]
    pub log_format: Format,

    /// Filter of the log lines, for example debug or info,kube=debug.
    #[arg(long, global = true, env = "LOG_LEVEL", default_value = DEFAULT_FILTER, value_name = "FILTER")]
    pub log_level: String,
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// No helm binary.
    #[error("no helm binary is in PATH, install helm 4 or name it with --helm")]
    NoHelm,
    /// Neither in a Pod nor with a kubeconfig.
    #[error("the process runs in no Pod, name the cluster with --kubeconfig")]
    NoCluster,
    /// Open paths, and nothing is locked.
    #[error("--open-values names what stays open with --locked-values, give both or none")]
    NothingLocked,
    /// Several kubeconfig files, as kubectl takes them.
    #[error("KUBECONFIG lists several files ({}), name a single one", .0.display())]
    SeveralKubeconfigs(PathBuf),
}

impl RunArgs {
    /// Path of the helm binary.
    pub fn helm_binary(&self) -> Result<PathBuf, ConfigError> {
        match &self.helm {
            Some(path) => Ok(path.clone()),
            None => which::which("helm").map_err(|_| ConfigError::NoHelm),
        }
    }

    /// The paths at and below which `spec.values` may say something; `None`: everywhere.
    pub fn open_values(&self) -> Result<Option<Vec<String>>, ConfigError> {
        match (self.locked_values, self.open_values.is_empty()) {
            (true, _) => Ok(Some(self.open_values.clone())),
            (false, true) => Ok(None),
            (false, false) => Err(ConfigError::NothingLocked),
        }
    }

    /// How helm reaches the API server; the same way as the operator itself.
    pub fn api_access(&self) -> Result<ApiAccess, ConfigError> {
        if let Some(path) = &self.kubeconfig {
            // A file may have a colon in its name.
            if !path.exists() && std::env::split_paths(path).nth(1).is_some() {
                return Err(ConfigError::SeveralKubeconfigs(path.clone()));
            }
            return Ok(ApiAccess::Kubeconfig(path.clone()));
        }
        match (read("KUBERNETES_SERVICE_HOST"), read("KUBERNETES_SERVICE_PORT")) {
            (Some(host), Some(port)) => Ok(ApiAccess::InCluster { host, port }),
            _ => Err(ConfigError::NoCluster),
        }
    }

    /// Variables that helm may see.
    pub fn helm_environment(&self) -> Vec<(String, String)> {
        let names = PASSED_ON.iter().chain(&PASSED_ON_WITH_KUBECONFIG);
        names
            .filter_map(|name| Some(((*name).to_owned(), read(name)?)))
            .collect()
    }

    /// Name of this process: as given, or made of host name and process id. A Kubernetes label value.
    pub fn identity(&self) -> String {
        let given = self.identity.clone();
        let name = given.unwrap_or_else(|| {
            let host = std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
            format!("{}-{}", host.trim(), std::process::id())
        });
        label_value(&name)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
