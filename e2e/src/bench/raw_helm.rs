//! Helm without an operator, with the same chart, values, rights and way to apply: what the operator is compared with.
//!
//! The rights matter: of who is no administrator the API server checks for each role whether he may grant it, and waits a tenth of
//! a second where the role is so new that its cache does not have it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{GpuModuleSpec, NodeFeatureDiscovery, RELEASE_NAME, RELEASE_NAMESPACE, RELEASE_ROLE};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired;
use gpu_manager::helm::RELEASE_FLAGS;
use serde_json::Value;
use tokio::process::Command;

use crate::charts::Charts;
use crate::cluster::Cluster;
use crate::manager::MANAGER;
use crate::tools::Tool;

/// How long one helm may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// Name of its ServiceAccount.
const ACCOUNT: &str = "raw-helm";

/// What the operator's ServiceAccount may do; here all of it in the whole cluster, since nobody binds a role in a new namespace.
const ROLES: [&str; 3] = [MANAGER, "gpu-manager-release-cluster", RELEASE_ROLE];

/// `helm` with a home that lasts, so that its caches are warm as the operator's are.
pub struct RawHelm {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
    archive: PathBuf,
    catalogue: Catalogue,
}

impl RawHelm {
    /// For a cluster on which the manifests of the operator are installed.
    pub async fn new(cluster: &Cluster, charts: &Charts, chart_version: &str) -> Result<Self> {
        let home = cluster.dir().join("raw-helm");
        std::fs::create_dir_all(&home)?;
        cluster
            .kubectl(&["-n", MANAGER, "create", "serviceaccount", ACCOUNT])
            .await?;
        for role in ROLES {
            let (name, role) = (format!("{ACCOUNT}-{role}"), format!("--clusterrole={role}"));
            let account = format!("--serviceaccount={MANAGER}:{ACCOUNT}");
            cluster
                .kubectl(&["create", "clusterrolebinding", &name, &role, &account])
                .await?;
        }
        Ok(Self {
            binary: cluster.tools().path(Tool::Helm),
            kubeconfig: cluster.kubeconfig_for_service_account(MANAGER, ACCOUNT).await?,
            home,
            archive: charts.archive(chart_version),
            catalogue: match charts.catalogue() {
                Some(folder) => Catalogue::from_folder(folder)?,
                None => Catalogue::compiled_in()?,
            },
        })
    }

    /// Installs what the operator installs for this spec, namespace and CRDs included.
    pub async fn install(&self, spec: &Value) -> Result<()> {
        let mut command = self.change(&["upgrade", "--install", "--create-namespace"], spec)?;
        run(&mut command).await
    }

    /// Upgrades to what the operator would make of this spec. Helm leaves CRDs alone then.
    pub async fn upgrade(&self, spec: &Value) -> Result<()> {
        run(&mut self.change(&["upgrade"], spec)?).await
    }

    /// Removes the release. The chart's hook Jobs would only delete CRDs.
    pub async fn uninstall(&self) -> Result<()> {
        let mut command = self.command();
        command.args([
            "uninstall",
            RELEASE_NAME,
            "--namespace",
            RELEASE_NAMESPACE,
            "--no-hooks",
        ]);
        run(&mut command).await
    }

    fn change(&self, verb: &[&str], spec: &Value) -> Result<Command> {
        let spec: GpuModuleSpec = serde_json::from_value(spec.clone())?;
        let desired = desired::resolve(
            &spec,
            &self.catalogue,
            NodeFeatureDiscovery::Module,
            RELEASE_FLAGS,
        )?;
        let values = self.home.join("values.json");
        std::fs::write(&values, desired.values.to_string())?;
        let mut command = self.command();
        command.args(verb).arg(RELEASE_NAME).arg(&self.archive);
        command
            .args(["--namespace", RELEASE_NAMESPACE, "--values"])
            .arg(values);
        // The operator applies the CRDs itself, an administrator leaves them to Helm.
        command.args(RELEASE_FLAGS.iter().filter(|flag| **flag != "--skip-crds"));
        command.arg("--history-max=5");
        Ok(command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear().env("HOME", &self.home);
        command.env("KUBECONFIG", &self.kubeconfig);
        command.env("HELM_NO_PLUGINS", "1");
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

async fn run(command: &mut Command) -> Result<()> {
    let output = tokio::time::timeout(DEADLINE, command.output())
        .await
        .with_context(|| format!("helm took longer than {DEADLINE:?}"))?
        .context("cannot run helm")?;
    ensure!(
        output.status.success(),
        "helm ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
