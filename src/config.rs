//! Flags and environment become [`Cli`]; the only file that reads the environment.

mod cleanup;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::admin::{HEALTH_PORT, METRICS_PORT};
use crate::helm::{ApiAccess, PASSED_ON, PASSED_ON_WITH_KUBECONFIG};
use crate::telemetry::{DEFAULT_FILTER, Format};

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

/// A registry as `--allowed-registries` takes it. A slash at its end would allow nothing.
fn registry(text: &str) -> Result<String, String> {
    let name = text.trim().trim_end_matches('/');
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:/".contains(c);
    if name.is_empty() || !name.chars().all(allowed) || name.contains("://") {
        return Err("expected a registry like registry.example/path, without scheme and tag".to_owned());
    }
    Ok(name.to_owned())
}

/// Makes a text a Kubernetes label value: at most 63 characters, the last ones kept as they tell processes apart.
fn label_value(text: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let clean: String = text.chars().map(allowed).collect();
    let tail = &clean[clean.len().saturating_sub(63)..];
    tail.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_well_formed_and_run_is_the_default() {
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["gpu-manager", "--log-format", "text"]).unwrap();
        assert_eq!(cli.command, None);
        let cli = Cli::try_parse_from(["gpu-manager", "run", "--charts-dir", "/c"]).unwrap();
        assert_eq!(
            (cli.command, cli.run.charts_dir),
            (Some(Command::Run), PathBuf::from("/c"))
        );
    }

    #[test]
    fn registries_are_listed_by_commas() {
        let parse = |list: &str| {
            let words = ["gpu-manager", "--allowed-registries", list];
            Cli::try_parse_from(words).map(|cli| cli.run.allowed_registries)
        };
        assert_eq!(
            parse("a.example:5000, b.example/c/").unwrap(),
            ["a.example:5000", "b.example/c"]
        );
        for wrong in ["https://a.example", "a.example,", "A.example", " "] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let cli = Cli::try_parse_from(["gpu-manager"]).unwrap();
        assert!(cli.run.allowed_registries.is_empty());
    }

    #[test]
    fn only_one_kubeconfig_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let with_colon = folder.path().join("a:b");
        std::fs::write(&with_colon, "").unwrap();
        let access = |path: &Path| {
            let words = [Path::new("gpu-manager"), Path::new("--kubeconfig"), path];
            Cli::try_parse_from(words).unwrap().run.api_access()
        };
        let accepted = access(&with_colon).unwrap();
        assert_eq!(accepted, ApiAccess::Kubeconfig(with_colon));
        let refused = access(Path::new("/a/config:/b/config")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "KUBECONFIG lists several files (/a/config:/b/config), name a single one"
        );
    }

    #[test]
    fn identities_are_label_values() {
        assert_eq!(label_value("gpu-manager-7d9f-x2b"), "gpu-manager-7d9f-x2b");
        assert_eq!(label_value("höst name!"), "h-st-name");
        let long = label_value(&format!("{}-42", "x".repeat(80)));
        assert!(long.len() <= 63 && long.ends_with("-42"), "{long}");
    }
}
