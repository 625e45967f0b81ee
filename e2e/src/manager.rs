//! Runs the operator under test: the real binary, with a token of exactly the ServiceAccount that the manifests give it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use gpu_manager::api::GpuModule;
use gpu_manager::telemetry::DEFAULT_FILTER;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;

use crate::charts::Charts;
use crate::cluster::{Cluster, Process};
use crate::manifests::{self, Flavour, Release};
use crate::tools::{Tool, repository_root};
use crate::wait::eventually;

/// Namespace and name of the operator's ServiceAccount in the community manifests.
pub const MANAGER: &str = "gpu-manager";

/// How long the API server may take to serve a new CRD.
const SOON: Duration = Duration::from_secs(30);

/// How a manager process is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder with the chart archives.
    pub charts: PathBuf,
    /// Folder with another chart catalogue.
    pub catalogue: Option<PathBuf>,
    /// Registries that a GpuModule may name, separated by commas; without it any.
    pub allowed_registries: Option<String>,
    /// Another helm binary than the pinned one.
    pub helm: Option<PathBuf>,
    /// Namespace that the manifests put it into, with its ServiceAccount.
    pub namespace: String,
    /// Name of the process, also of its working folder.
    pub identity: String,
    /// Seconds after which its Lease passes on.
    pub lease_duration: u64,
    /// Seconds for which somebody else's unfinished Helm operation is left alone.
    pub foreign_operation_limit: u32,
    /// Filter of its log lines.
    pub log_level: String,
    /// Another operator binary than the one of [`binary`].
    pub program: Option<PathBuf>,
}

impl Options {
    /// A manager with these charts and the settings of production, but for a short Lease.
    pub fn new(charts: &Path) -> Self {
        Self {
            charts: charts.to_owned(),
            catalogue: None,
            allowed_registries: None,
            helm: None,
            namespace: MANAGER.to_owned(),
            identity: "gpu-manager-0".to_owned(),
            lease_duration: 15,
            foreign_operation_limit: 600,
            log_level: format!("{DEFAULT_FILTER},gpu_manager=debug"),
            program: None,
        }
    }

    /// A manager with a set of charts and, for the stand-in, the catalogue that accepts it.
    pub fn with_charts(charts: &Charts) -> Self {
        Self {
            catalogue: charts.catalogue().map(Path::to_owned),
            ..Self::new(charts.dir())
        }
    }

    /// The same with another chart catalogue.
    #[must_use]
    pub fn with_catalogue(mut self, folder: &Path) -> Self {
        self.catalogue = Some(folder.to_owned());
        self
    }

    /// The same with another helm binary.
    #[must_use]
    pub fn with_helm(mut self, binary: &Path) -> Self {
        self.helm = Some(binary.to_owned());
        self
    }

    /// The same with registries that a GpuModule may name.
    #[must_use]
    pub fn with_allowed_registries(mut self, registries: &str) -> Self {
        self.allowed_registries = Some(registries.to_owned());
        self
    }

    /// The same in another namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, identity: &str) -> Self {
        identity.clone_into(&mut self.identity);
        self
    }
}

/// A running manager process; it is stopped hard when this is dropped.
pub struct Manager {
    /// The process.
    pub process: Process,
    /// Address of `/healthz` and `/readyz`.
    pub health: SocketAddr,
    /// Address of `/metrics`.
    pub metrics: SocketAddr,
}

/// Path of the `gpu-manager` binary, built once per test process with the profile of the caller.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let built = profile_folder().and_then(|profile| {
            let optimised = profile.ends_with("release");
            // Without the workspace cargo would build it once more, with the features that it would have alone.
            let selection: &[&str] = if optimised {
                &["--workspace", "--release"]
            } else {
                &["--workspace"]
            };
            build(selection, &profile)
        });
        built.map_err(|error| format!("{error:#}"))
    });
    built.clone().map_err(|error| anyhow!(error))
}

/// Path of the `gpu-manager` binary as it ships: optimised, and with the features that it has alone.
pub fn release_binary() -> Result<PathBuf> {
    build(
        &["--package", "gpu-manager", "--release"],
        &target_folder()?.join("release"),
    )
}

/// Cargo's target folder, in which this program lies.
pub fn target_folder() -> Result<PathBuf> {
    let profile = profile_folder()?;
    let target = profile
        .parent()
        .context("this program lies in no target folder")?;
    Ok(target.to_owned())
}

/// `<target>/<profile>`, where this program is `<target>/<profile>/[deps/]<this>`.
fn profile_folder() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let profile = this
        .ancestors()
        .skip(1)
        .find(|folder| !folder.ends_with("deps"))
        .context("this program lies in no target folder")?;
    Ok(profile.to_owned())
}

fn build(selection: &[&str], profile: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(repository_root())
        .args(["build", "--quiet", "--bin", "gpu-manager"])
        .args(selection)
        .arg("--target-dir")
        .arg(profile.parent().context("a profile lies in a target folder")?);
    // What `cargo run` and `cargo test` tell this process about its own package would look like a change to build
    // scripts that read it, and half of the dependencies would be built again each time.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    let status = cargo.status().context("cargo cannot be started")?;
    ensure!(status.success(), "gpu-manager does not build");
    Ok(profile.join("gpu-manager"))
}

/// Installs what an administrator installs: the community manifest of the release that the source would make. Its
/// Deployment is scaled to zero, since the process runs outside of the cluster.
pub async fn install_manifests(cluster: &Cluster) -> Result<()> {
    let kubectl = cluster.tools().path(Tool::Kubectl);
    let manifest = manifests::render(&kubectl, Flavour::Community, &Release::current()?)?;
    let path = manifest_of(cluster);
    std::fs::write(&path, manifest)?;
    cluster.kubectl(&["apply", "--server-side", "-f", &path]).await?;
    cluster
        .kubectl(&["-n", MANAGER, "scale", "deployment", MANAGER, "--replicas=0"])
        .await?;
    until_served(cluster).await
}

/// Deletes everything that [`install_manifests`] has applied, in one command and without waiting for any of it.
pub async fn delete_manifests(cluster: &Cluster) -> Result<()> {
    let path = manifest_of(cluster);
    cluster.kubectl(&["delete", "--wait=false", "-f", &path]).await?;
    Ok(())
}

/// Where the manifest that is installed lies.
fn manifest_of(cluster: &Cluster) -> String {
    cluster
        .dir()
        .join(Flavour::Community.file())
        .display()
        .to_string()
}

/// Waits until the API server serves GpuModules.
pub async fn until_served(cluster: &Cluster) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    eventually("the CRD of GpuModule to be served", SOON, async || {
        let crd = crds.get("gpumodules.operator.kyma-project.io").await?;
        ensure!(
            is_crd_established().matches_object(Some(&crd)),
            "{:?}",
            crd.status
        );
        Ok(())
    })
    .await
}

impl Manager {
    /// Starts the operator with the rights of its ServiceAccount; the manifests must be installed.
    pub async fn start(cluster: &Cluster, options: &Options) -> Result<Self> {
        let kubeconfig = cluster
            .kubeconfig_for_service_account(&options.namespace, MANAGER)
            .await?;
        Self::start_with(cluster, options, &kubeconfig)
    }

    /// Starts the operator with the rights in a kubeconfig.
    pub fn start_with(cluster: &Cluster, options: &Options, kubeconfig: &Path) -> Result<Self> {
        let (health, metrics) = (free_address()?, free_address()?);
        let helm = options
            .helm
            .clone()
            .unwrap_or_else(|| cluster.tools().path(Tool::Helm));
        let program = options.program.clone().map_or_else(binary, Ok)?;
        let mut command = Command::new(program);
        command.env_clear().arg("run");
        command
            .arg("--helm")
            .arg(helm)
            .arg("--charts-dir")
            .arg(&options.charts);
        if let Some(catalogue) = &options.catalogue {
            command.arg("--catalogue-dir").arg(catalogue);
        }
        if let Some(registries) = &options.allowed_registries {
            command.arg("--allowed-registries").arg(registries);
        }
        command.arg("--kubeconfig").arg(kubeconfig);
        command
            .arg("--work-dir")
            .arg(cluster.dir().join(&options.identity));
        command.args(["--namespace", &options.namespace, "--identity", &options.identity]);
        command.args(["--lease-duration", &options.lease_duration.to_string()]);
        let limit = options.foreign_operation_limit.to_string();
        command.args(["--foreign-operation-limit", &limit]);
        command.args(["--log-format", "text", "--log-level", &options.log_level]);
        command.args([
            "--health-address",
            &health.to_string(),
            "--metrics-address",
            &metrics.to_string(),
        ]);
        let process = cluster.spawn(&options.identity, command)?;
        Ok(Self {
            process,
            health,
            metrics,
        })
    }
}

/// A loopback address and port on which nobody listens. The address is one of this process alone: connections begin at
/// 127.0.0.1, and one of the many that other tests open could have taken the port there before the operator listens.
fn free_address() -> Result<SocketAddr> {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 64 | (high & 63), middle, low);
    let listener = TcpListener::bind((host, 0)).context("no port is free on loopback")?;
    Ok(listener.local_addr()?)
}

/// The GpuModule in short, for messages of failed waits.
pub fn describe(module: &GpuModule) -> String {
    let Some(status) = &module.status else {
        return "no status".to_owned();
    };
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| format!("{}={}/{}", condition.type_, condition.status, condition.reason))
        .collect();
    format!(
        "{:?}: {} [{}] {}",
        status.state,
        status.description,
        conditions.join(" "),
        status.gpu_nodes.summary
    )
}
