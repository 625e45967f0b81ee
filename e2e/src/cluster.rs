//! A real Kubernetes control plane on loopback, with fake nodes, for one test or one demo.
//!
//! Etcd, the API server, the controllers and the scheduler are the real programs; KWOK plays the kubelets.
//! A cluster lives in one temporary folder and is gone with the value that holds it, also when the process is
//! killed. No two clusters share anything, so tests may run side by side.

mod audit;
mod components;
mod heartbeat;
mod kubeconfig;
mod lifecycle;
mod nodes;
mod process;
mod stages;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use self::components::Components;
use self::kubeconfig::Credentials;
use self::process::Guardian;
use crate::pki::ADMIN_GROUP;
use crate::tools::{Tool, Tools};

pub use self::audit::{AuditEvent, AuditLog, AuditObject, AuditStatus, AuditUser, Mark};
pub use self::heartbeat::heartbeat;
pub use self::kubeconfig::client_for;
pub use self::nodes::{FakeNode, HARDWARE_GPUS, HARDWARE_PRODUCT, POOL_LABEL};
pub use self::process::Process;
pub use self::stages::HOLD;

/// How long one `kubectl` may take.
const KUBECTL_DEADLINE: Duration = Duration::from_mins(2);

/// How long a token of [`Cluster::kubeconfig_for_service_account`] is valid: longer than any test.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// What runs beside etcd and the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Run kube-controller-manager: Deployments, DaemonSets, Jobs, garbage collection, namespace deletion.
    pub controllers: bool,
    /// Run kube-scheduler.
    pub scheduler: bool,
    /// Run KWOK, which plays the kubelets of [`FakeNode`]s.
    pub kwok: bool,
}

impl Options {
    /// Etcd and the API server only: objects are stored, nothing acts on them.
    pub fn api_server_only() -> Self {
        Self::default()
    }

    /// Everything.
    pub fn full() -> Self {
        Self {
            controllers: true,
            scheduler: true,
            kwok: true,
        }
    }
}

/// A running cluster.
pub struct Cluster {
    client: kube::Client,
    kubeconfig: PathBuf,
    components: Components,
    // The order matters for dropping: processes first, then the folder that they write to.
    processes: Mutex<BTreeMap<&'static str, Process>>,
    guardian: Arc<Guardian>,
    dir: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it serves; builds the binaries first when they are missing.
    pub async fn start(options: Options) -> Result<Self> {
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        let dir = tempfile::Builder::new()
            .prefix("gpu-manager-cluster-")
            .tempdir()?;
        let guardian = Guardian::start(dir.path())?;
        let components = Components::prepare(tools, dir.path(), free_port()?)?;
        let kubeconfig = components.kubeconfig("admin", "admin", Some(ADMIN_GROUP))?;
        let client = client_for(&kubeconfig).await?;
        let processes = Mutex::default();
        let cluster = Self {
            client,
            kubeconfig,
            components,
            processes,
            guardian,
            dir,
        };

        cluster.start_processes(options).await?;
        Ok(cluster)
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// A kubeconfig with all rights. It refers to files in the cluster's folder.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The binaries that the cluster runs, `helm` among them.
    pub fn tools(&self) -> &Tools {
        self.components.tools()
    }

    /// The cluster's folder, removed with it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The requests that reached the API server.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.components.audit_log())
    }

    /// Where the API server listens.
    pub fn api_address(&self) -> SocketAddr {
        self.components.address()
    }

    /// The certificate of the authority that signed the API server's.
    pub fn certificate_authority(&self) -> PathBuf {
        self.components.endpoint().certificate_authority
    }

    /// A kubeconfig with a token of a service account: exactly its rights. The account must exist.
    pub async fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name).await?;
        let path = self.dir().join(format!("{namespace}.{name}.kubeconfig"));
        self.components
            .endpoint()
            .write_kubeconfig(&path, &Credentials::Token(token))?;
        Ok(path)
    }

    /// A token of a service account, as a Pod has it. The account must exist.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for the service account {namespace}/{name}"))?;
        let status = answer
            .status
            .context("a token request was answered without a token")?;
        Ok(status.token)
    }

    /// Runs `kubectl` with all rights and returns what it printed. A failure carries its error output.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::from(self.components.command(Tool::Kubectl));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .args(args)
            .kill_on_drop(true);
        let shown = format!("kubectl {}", args.join(" "));
        let output = tokio::time::timeout(KUBECTL_DEADLINE, command.output())
            .await
            .with_context(|| format!("'{shown}' took longer than {KUBECTL_DEADLINE:?}"))?
            .with_context(|| format!("cannot run '{shown}'"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "'{shown}' ended with {}: {}",
            output.status,
            errors.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a fake node. KWOK makes it Ready within a second.
    pub async fn create_node(&self, node: &FakeNode) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.client());
        Ok(nodes.create(&PostParams::default(), &node.build()).await?)
    }

    /// Deletes a node, and its Pods with it.
    ///
    /// The Pods would go by themselves, but Kubernetes waits about a minute before it believes that a node is
    /// gone for good.
    pub async fn delete_node(&self, name: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        nodes.delete(name, &DeleteParams::default()).await?;
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods: Api<Pod> = Api::all(self.client());
        for pod in pods.list(&on_node).await? {
            let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace().unwrap_or_default());
            let now = DeleteParams::default().grace_period(0);
            match pods.delete(&pod.name_any(), &now).await {
                // It went by itself meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted?),
            }
        }
        Ok(())
    }

    /// Serves the kind PodMonitor, which NVIDIA's chart renders where its values ask for it.
    pub async fn serve_pod_monitors(&self) -> Result<()> {
        let crd: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": { "name": "podmonitors.monitoring.coreos.com" },
            "spec": {
                "group": "monitoring.coreos.com",
                "scope": "Namespaced",
                "names": { "kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor" },
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        }))?;
        let crds: Api<CustomResourceDefinition> = Api::all(self.client());
        crds.create(&PostParams::default(), &crd).await?;
        Ok(())
    }

    /// Runs a program of the test's own beside the cluster, with its output in a file of the cluster's folder.
    ///
    /// Like the cluster's processes it has its own process group and does not outlive the test. The command
    /// gets no kubeconfig but what it names itself.
    pub fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        let log = self.dir().join(format!("{name}.log"));
        Process::spawn(name, command, log, Arc::clone(&self.guardian))
    }
}

/// A port that nobody listens on right now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
