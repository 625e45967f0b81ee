//! The binaries that a local cluster needs, built from Go modules.
//!
//! `hack/tools/<family>/go.mod` pins the versions; nothing else names one. Binaries land in a folder of the
//! user's cache whose name is a digest over the pins, the build recipe and the Go version, so that a second
//! clone finds them and a changed pin never meets an old binary. A binary in `KUBEBUILDER_ASSETS` is taken
//! instead when its version fits.

mod build;
mod cache;
mod recipe;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, Result};

pub use cache::{cache_dir, repository_root};

/// One binary of the local cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// The Kubernetes API server.
    KubeApiserver,
    /// The controllers of Kubernetes itself (Deployments, DaemonSets, garbage collection and so on).
    KubeControllerManager,
    /// The scheduler.
    KubeScheduler,
    /// The command line client.
    Kubectl,
    /// The API server's store.
    Etcd,
    /// Plays the kubelet for fake nodes.
    Kwok,
    /// The Helm release that ships with the operator.
    Helm,
    /// The last Helm 3, which makes the old releases that the operator must be able to take over.
    Helm3,
}

impl Tool {
    /// All binaries, the ones needed first in front.
    pub const ALL: [Self; 8] = [
        Self::Helm,
        Self::Etcd,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::Helm3,
    ];

    /// The file name of the binary.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Etcd => "etcd",
            Self::Kwok => "kwok",
            Self::Helm => "helm",
            Self::Helm3 => "helm3",
        }
    }
}

/// Where each binary is.
#[derive(Clone, Debug)]
pub struct Tools {
    dir: PathBuf,
    /// Binaries taken from `KUBEBUILDER_ASSETS` instead.
    assets: BTreeMap<Tool, PathBuf>,
}

impl Tools {
    /// Finds every binary and builds what is missing, with one line of progress for each on standard error.
    ///
    /// The first call in a fresh checkout takes minutes (about ten on two cores); later ones take
    /// milliseconds. Fails when Go is missing or too old, or when a build fails.
    pub fn ensure() -> Result<Self> {
        static FOUND: Mutex<Option<Tools>> = Mutex::new(None);
        let mut found = FOUND
            .lock()
            .map_err(|_| anyhow::anyhow!("an earlier search for the tools panicked"))?;
        if let Some(tools) = found.as_ref() {
            return Ok(tools.clone());
        }
        let tools = build::ensure(&Tool::ALL).context("the local cluster's tools are not available")?;
        *found = Some(tools.clone());
        Ok(tools)
    }

    /// The path of one binary, without building the others.
    pub fn only(tool: Tool) -> Result<PathBuf> {
        Ok(Self::with(tool)?.path(tool))
    }

    /// One binary for who needs no other: theirs are not built.
    pub fn with(tool: Tool) -> Result<Self> {
        build::ensure(&[tool]).with_context(|| format!("{} is not available", tool.file_name()))
    }

    /// The path of one binary.
    pub fn path(&self, tool: Tool) -> PathBuf {
        self.assets
            .get(&tool)
            .cloned()
            .unwrap_or_else(|| self.dir.join(tool.file_name()))
    }

    /// The cache folder with the built binaries.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder with KWOK's own stages, taken from the pinned KWOK module.
    pub fn kwok_stages(&self) -> PathBuf {
        self.dir.join(build::KWOK_STAGES)
    }
}
