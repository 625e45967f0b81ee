//! Runs the operator as its Pod would: own user, mounts, processes and network, made by the kernel's namespaces, without a
//! container runtime.
//!
//! What the container may have is read from `hack/deploy/base/deployment.yaml`: arguments, environment, user, and the
//! `emptyDirs` that alone are writable. Two stages of the binary `pod` make the namespaces: [`network`] has a loopback
//! of its own, on which only the API server answers, and [`root`] a read-only root.

pub mod account;
pub mod network;
pub mod root;
mod settings;

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Where the ServiceAccount is mounted.
pub const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Port of the API server in the Pod's network.
pub const API_PORT: u16 = 443;

/// What both stages need to know, passed on as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// An empty folder on which the root is mounted.
    pub root: PathBuf,
    /// Files and folders of this machine that the image has: source, then path in the image. All read-only.
    pub image: Vec<(PathBuf, PathBuf)>,
    /// Folder with `token`, `ca.crt` and `namespace`, which may change while the Pod runs.
    pub account: PathBuf,
    /// Writable folders: path, and most bytes.
    pub empty_dirs: Vec<(PathBuf, u64)>,
    /// The command.
    pub command: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// User and group in the container.
    pub user: u32,
    /// Socket that leads to the API server.
    pub api: PathBuf,
    /// Sockets that lead into the Pod, each with the port there.
    pub ports: Vec<(PathBuf, u16)>,
}

impl Settings {
    /// What a Deployment says about its only container; the rest is empty.
    pub fn of_deployment(yaml: &str, namespace: &str, pod: &str) -> Result<Self> {
        settings::of_deployment(yaml, namespace, pod)
    }

    /// Adds files of this machine to the image.
    #[must_use]
    pub fn with(mut self, source: &Path, path: &str) -> Self {
        self.image.push((source.to_owned(), path.into()));
        self
    }
}
