//! Kubeconfig files for the cluster's own clients and for the programs under test.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::pki::Identity;

/// How a client reaches the API server and knows that it is the right one.
pub(super) struct Endpoint {
    pub url: String,
    pub certificate_authority: PathBuf,
}

/// How a client proves who it is.
pub(super) enum Credentials {
    Certificate(Identity),
    Token(String),
}

impl Endpoint {
    /// Writes a kubeconfig that only its owner can read.
    pub(super) fn write_kubeconfig(&self, path: &Path, credentials: &Credentials) -> Result<()> {
        let user = match credentials {
            Credentials::Certificate(identity) => {
                json!({ "client-certificate": identity.certificate, "client-key": identity.key })
            }
            Credentials::Token(token) => json!({ "token": token }),
        };
        let name = "local";
        let cluster = json!({ "server": self.url, "certificate-authority": self.certificate_authority });
        // JSON is YAML, so every client reads this.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": name, "cluster": cluster }],
            "users": [{ "name": name, "user": user }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
            "current-context": name,
        });
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path);
        file.map_err(anyhow::Error::from)
            .and_then(|file| Ok(serde_json::to_writer_pretty(file, &config)?))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A client that uses the given kubeconfig and nothing of the environment.
pub async fn client_for(kubeconfig: &Path) -> Result<kube::Client> {
    let context = || format!("cannot use the kubeconfig {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).with_context(context)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(file, &options)
        .await
        .with_context(context)?;
    // kube takes it from HTTPS_PROXY, but no proxy leads to loopback.
    config.proxy_url = None;
    kube::Client::try_from(config).with_context(context)
}
