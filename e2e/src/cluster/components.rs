//! Command lines of the cluster's processes.
//!
//! Everything listens on loopback or on a socket in the cluster's own folder, and nothing is written with
//! fsync: the data dies with the cluster anyway.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::kubeconfig::{Credentials, Endpoint};
use super::stages;
use crate::pki::{ADMIN_GROUP, Authority, Identity, SigningKey};
use crate::tools::{Tool, Tools};

/// Where cluster-internal addresses come from; the first one is the Service `kubernetes`.
const SERVICE_RANGE: &str = "10.0.0.0/24";
const KUBERNETES_SERVICE: &str = "10.0.0.1";

/// Everything the command lines refer to.
pub(super) struct Components {
    tools: Tools,
    dir: PathBuf,
    port: u16,
    authority: Authority,
    server: Identity,
    service_accounts: SigningKey,
}

impl Components {
    /// Makes the keys and files that the processes need, in `dir`. The API server will listen on `port`.
    pub(super) fn prepare(tools: Tools, dir: &Path, port: u16) -> Result<Self> {
        let pki = dir.join("pki");
        std::fs::create_dir(&pki).with_context(|| format!("cannot create {}", pki.display()))?;
        let authority = Authority::new(&pki)?;
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes.default.svc",
            KUBERNETES_SERVICE,
        ];
        let components = Self {
            server: authority.server("kube-apiserver", &names)?,
            service_accounts: authority.signing_key("service-accounts")?,
            tools,
            dir: dir.to_owned(),
            port,
            authority,
        };
        components.write_audit_policy()?;
        Ok(components)
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Where the API server listens.
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// How clients reach the API server.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            url: format!("https://127.0.0.1:{}", self.port),
            certificate_authority: self.authority.certificate(),
        }
    }

    /// Where the API server writes its audit log.
    pub(super) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.json")
    }

    fn write_audit_policy(&self) -> Result<()> {
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata" }],
        });
        Ok(std::fs::write(self.audit_policy(), policy.to_string())?)
    }

    /// A kubeconfig for the user `user`, who is known by a client certificate.
    pub(super) fn kubeconfig(&self, file: &str, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let identity = self.authority.client(file, user, group)?;
        let path = self.dir.join(format!("{file}.kubeconfig"));
        self.endpoint()
            .write_kubeconfig(&path, &Credentials::Certificate(identity))?;
        Ok(path)
    }

    /// A command with nothing of the caller's environment but what a program needs to start.
    pub(super) fn command(&self, tool: Tool) -> Command {
        let mut command = Command::new(self.tools.path(tool));
        command.current_dir(&self.dir).env_clear().env("HOME", &self.dir);
        for name in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    fn etcd_socket(&self) -> String {
        format!("unix://{}", self.dir.join("etcd.sock").display())
    }

    pub(super) fn etcd(&self) -> Command {
        let peers = self.dir.join("etcd-peers.sock");
        let mut command = self.command(Tool::Etcd);
        command.arg("--data-dir").arg(self.dir.join("etcd"));
        command.arg(format!("--listen-client-urls={}", self.etcd_socket()));
        command.arg(format!("--listen-peer-urls=unix://{}", peers.display()));
        // What is advertised must have a port, but nobody ever connects to it: there are no peers.
        command.arg("--advertise-client-urls=http://127.0.0.1:2379");
        command.arg("--initial-advertise-peer-urls=http://127.0.0.1:2380");
        command.arg("--initial-cluster=default=http://127.0.0.1:2380");
        command.args(["--unsafe-no-fsync", "--log-level=warn"]);
        command
    }

    pub(super) fn api_server(&self) -> Command {
        let mut command = self.command(Tool::KubeApiserver);
        command.arg(format!("--etcd-servers={}", self.etcd_socket()));
        command.arg(format!("--secure-port={}", self.port));
        command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"]);
        // The Service `kubernetes` cannot have a loopback address as its endpoint.
        command.arg("--endpoint-reconciler-type=none");
        command.arg(format!("--service-cluster-ip-range={SERVICE_RANGE}"));
        command.args(["--authorization-mode=Node,RBAC", "--allow-privileged=true"]);
        command.arg("--client-ca-file").arg(self.authority.certificate());
        command.arg("--tls-cert-file").arg(&self.server.certificate);
        command.arg("--tls-private-key-file").arg(&self.server.key);
        command.arg("--service-account-issuer=https://kubernetes.default.svc");
        command
            .arg("--service-account-signing-key-file")
            .arg(&self.service_accounts.private);
        command
            .arg("--service-account-key-file")
            .arg(&self.service_accounts.public);
        command.arg("--audit-policy-file").arg(self.audit_policy());
        command.arg("--audit-log-path").arg(self.audit_log());
        // One file, so that a position in it stays one.
        command.arg("--audit-log-maxsize=2000");
        command
    }

    pub(super) fn controller_manager(&self) -> Result<Command> {
        let name = "kube-controller-manager";
        let kubeconfig = self.kubeconfig(name, "system:kube-controller-manager", None)?;
        let mut command = self.command(Tool::KubeControllerManager);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args([
            "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
        ]);
        // The usual 20 requests a second would triple the time to start.
        command.args(["--kube-api-qps=1000", "--kube-api-burst=1000"]);
        command
            .arg("--service-account-private-key-file")
            .arg(&self.service_accounts.private);
        command.arg("--root-ca-file").arg(self.authority.certificate());
        Ok(command)
    }

    pub(super) fn scheduler(&self) -> Result<Command> {
        let kubeconfig = self.kubeconfig("kube-scheduler", "system:kube-scheduler", None)?;
        let mut command = self.command(Tool::KubeScheduler);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args(["--secure-port=0", "--leader-elect=false"]);
        Ok(command)
    }

    pub(super) fn kwok(&self) -> Result<Command> {
        let config = self.dir.join("kwok.yaml");
        stages::write_config(&self.tools.kwok_stages(), &config)?;
        let kubeconfig = self.kubeconfig("kwok", "kwok", Some(ADMIN_GROUP))?;
        let mut command = self.command(Tool::Kwok);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--config")
            .arg(config);
        command.arg("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake");
        command.args([
            "--node-ip=127.0.0.1",
            "--cidr=10.1.0.0/16",
            "--node-lease-duration-seconds=40",
        ]);
        Ok(command)
    }
}
