//! A real Kubernetes control plane on loopback, with fake nodes, for one test or one demo.
//!
//! Etcd, the API server, the controllers and the scheduler are the real programs; KWOK plays the kubelets.
//! A cluster lives in one temporary folder and is gone with the value that holds it, also when the process is
//! killed. No two clusters share anything, so tests may run side by side.

mod audit;
mod components;
mod kubeconfig;
mod nodes;
mod process;
mod stages;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use tempfile::TempDir;

use self::components::Components;
use self::kubeconfig::Credentials;
use self::process::Guardian;
use crate::pki::ADMIN_GROUP;
use crate::tools::{Tool, Tools};
use crate::wait::eventually;

pub use self::audit::{AuditEvent, AuditLog, AuditStatus, AuditUser, Mark};
pub use self::kubeconfig::client_for;
pub use self::nodes::{FakeNode, HARDWARE_GPUS, POOL_LABEL};
pub use self::process::Process;
pub use self::stages::HOLD;

/// How long a control plane may take to start. It takes about four seconds on two idle cores.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// How long one `kubectl` may take.
const KUBECTL_DEADLINE: Duration = Duration::from_mins(2);

/// How long a token of [`Cluster::kubeconfig_for_service_account`] is valid: longer than any test.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// Pause between two looks at whether the processes still run.
const DEATH_CHECK: Duration = Duration::from_millis(100);

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";

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

        cluster.run(ETCD, cluster.components.etcd())?;
        cluster.start_api_server().await?;
        if options.controllers {
            cluster.run(
                "kube-controller-manager",
                cluster.components.controller_manager()?,
            )?;
        }
        if options.scheduler {
            cluster.run("kube-scheduler", cluster.components.scheduler()?)?;
        }
        if options.kwok {
            cluster.run("kwok", cluster.components.kwok()?)?;
        }
        if options.controllers {
            cluster.wait_for_controllers().await?;
        }
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

    /// A kubeconfig with a token of a service account: exactly its rights. The account must exist.
    pub async fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
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
        let token = answer
            .status
            .context("a token request was answered without a token")?
            .token;
        let path = self.dir().join(format!("{namespace}.{name}.kubeconfig"));
        self.components
            .endpoint()
            .write_kubeconfig(&path, &Credentials::Token(token))?;
        Ok(path)
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
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
                .await?;
        }
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

    /// Kills the API server, as a crash would. Its data stays.
    pub fn stop_api_server(&self) {
        let process = self.processes().remove(API_SERVER);
        drop(process);
    }

    /// Starts the API server again, on the same address, and waits until it serves.
    pub async fn start_api_server(&self) -> Result<()> {
        self.run(API_SERVER, self.components.api_server())?;
        self.wait_for("a ready API server", async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            self.client.request_text(request).await?;
            Ok(())
        })
        .await
    }

    /// Kills the API server and starts it again.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server();
        self.start_api_server().await
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<&'static str, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, name: &'static str, command: Command) -> Result<()> {
        let process = self.spawn(name, command)?;
        self.processes().insert(name, process);
        Ok(())
    }

    /// Waits until the controllers have prepared the namespace `default`; from then on Pods can be created.
    async fn wait_for_controllers(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client());
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client());
        self.wait_for("the controllers' work in the namespace 'default'", async || {
            accounts.get("default").await?;
            maps.get("kube-root-ca.crt").await?;
            Ok(())
        })
        .await
    }

    /// Waits for a step of the start, but not longer than all processes live.
    async fn wait_for(&self, what: &str, condition: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let step = eventually(what, START_DEADLINE, condition);
        tokio::select! {
            done = step => done.with_context(|| self.log_tails()),
            death = self.first_death() => Err(death),
        }
    }

    /// Returns once one of the cluster's processes has ended, with the end of its log.
    async fn first_death(&self) -> anyhow::Error {
        loop {
            if let Err(death) = self
                .processes()
                .values_mut()
                .try_for_each(Process::ensure_running)
            {
                return death;
            }
            tokio::time::sleep(DEATH_CHECK).await;
        }
    }

    fn log_tails(&self) -> String {
        let processes = self.processes();
        let tails = processes
            .iter()
            .map(|(name, process)| format!("{name}:\n{}", process.log_tail()));
        format!(
            "the cluster did not start; its logs end so:\n{}",
            tails.collect::<Vec<_>>().join("\n")
        )
    }
}

/// A port that nobody listens on right now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
