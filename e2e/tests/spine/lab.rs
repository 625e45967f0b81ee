//! A cluster with GPU nodes and the simulated NVIDIA operator, on which managers are started.

pub mod drivers;
pub mod helm;
pub mod http;
pub mod objects;
pub mod release;
pub mod wrapper;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::catalogue::CatalogueFolder;
use e2e::charts::{Charts, Origin, known_versions};
use e2e::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use e2e::manager::{Manager, Options, binary, describe, install_manifests};
use e2e::simulated;
use e2e::tools::Tools;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, GpuModule, GpuModuleStatus, MODULE_NAME, State, condition};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use wrapper::WrappedHelm;

/// How long the cluster and one manager may take for anything that this suite waits for; seconds are usual.
pub const STEP: Duration = Duration::from_mins(2);

/// How many clusters run at once, whatever the number of test threads: each is worth more than one core at its start.
static CLUSTERS: Semaphore = Semaphore::const_new(2);

/// The cluster and everything in it but a manager.
pub struct Lab {
    // Dropped in this order: whoever uses the cluster goes before it.
    pub nvidia: simulated::Operator,
    pub modules: Api<GpuModule>,
    pub charts: Charts,
    catalogue: CatalogueFolder,
    pub cluster: Cluster,
    _turn: SemaphorePermit<'static>,
}

impl Lab {
    /// Two nodes with a GPU and one without, the manifests of the module, and nobody who acts on them.
    pub async fn start() -> Result<Self> {
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        Self::with_charts(Charts::find(&tools, &known_versions()?).await?).await
    }

    /// The same with the project's stand-in for NVIDIA's charts.
    pub async fn with_stand_in() -> Result<Self> {
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        Self::with_charts(Charts::stand_in(&tools, &known_versions()?).await?).await
    }

    async fn with_charts(charts: Charts) -> Result<Self> {
        // Before the turn, since cargo may have to build it.
        tokio::task::spawn_blocking(binary).await??;
        let turn = CLUSTERS.acquire().await?;
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        for node in [
            FakeNode::with_gpus("gpu-0", 1),
            FakeNode::with_gpus("gpu-1", 1),
            FakeNode::new("cpu-0"),
        ] {
            cluster.create_node(&node).await?;
        }
        let nvidia = simulated::Operator::start(cluster.client(), simulated::Options::default());
        install_manifests(&cluster).await?;
        Ok(Self {
            nvidia,
            modules: Api::all(cluster.client()),
            catalogue: CatalogueFolder::for_charts(&charts)?,
            charts,
            cluster,
            _turn: turn,
        })
    }

    /// Settings of a manager on this cluster.
    pub fn options(&self) -> Options {
        let options = Options::new(self.charts.dir());
        match self.charts.origin() {
            // The catalogue that is compiled in is the one that ships.
            Origin::Nvidia => options,
            Origin::StandIn => options.with_catalogue(self.catalogue.path()),
        }
    }

    /// The catalogue for this cluster's charts, to be changed.
    pub fn new_catalogue(&self) -> Result<CatalogueFolder> {
        CatalogueFolder::for_charts(&self.charts)
    }

    /// Starts a manager.
    pub async fn manager(&self) -> Result<Manager> {
        Manager::start(&self.cluster, &self.options()).await
    }

    /// Starts a manager that runs this helm.
    pub async fn manager_with(&self, helm: &WrappedHelm) -> Result<Manager> {
        Manager::start(&self.cluster, &self.options().with_helm(&helm.binary())).await
    }

    /// Starts a manager and waits until a GpuModule with an empty spec is Ready.
    pub async fn ready(&self) -> Result<Manager> {
        let manager = self.manager().await?;
        self.apply(json!({})).await?;
        self.until(State::Ready).await?;
        Ok(manager)
    }

    /// Server-side-applies the whole spec of the GpuModule; what was there before and is not named goes.
    pub async fn apply(&self, spec: Value) -> Result<()> {
        let module = json!({
            "apiVersion": "operator.kyma-project.io/v1alpha1",
            "kind": "GpuModule",
            "metadata": { "name": MODULE_NAME },
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        self.modules
            .patch(MODULE_NAME, &params, &Patch::Apply(&module))
            .await?;
        Ok(())
    }

    /// Sets an annotation of the GpuModule.
    pub async fn annotate(&self, key: &str, value: &str) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.modules
            .patch(MODULE_NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// The GpuModule as it is now.
    pub async fn module(&self) -> Result<GpuModule> {
        Ok(self.modules.get(MODULE_NAME).await?)
    }

    /// Waits until the status of the current generation satisfies `condition`.
    pub async fn until_status(
        &self,
        what: &str,
        mut condition: impl FnMut(&GpuModuleStatus) -> bool,
    ) -> Result<GpuModuleStatus> {
        let seen = eventually(what, STEP, async || {
            let module = self.module().await?;
            let generation = module.metadata.generation.unwrap_or_default();
            let status = module.status.as_ref().context("no status")?;
            ensure!(
                status.observed_generation == generation && condition(status),
                "generation {generation}, {}",
                describe(&module)
            );
            Ok(status.clone())
        });
        seen.await.with_context(|| self.logs())
    }

    /// Waits for a state.
    pub async fn until(&self, state: State) -> Result<GpuModuleStatus> {
        self.until_status(&format!("state {state:?}"), |status| status.state == state)
            .await
    }

    /// Waits until a condition has that reason.
    pub async fn until_reason(&self, kind: ConditionType, reason: &str) -> Result<GpuModuleStatus> {
        let what = format!("reason {reason} of condition {}", kind.as_str());
        self.until_status(&what, |status| self::reason(status, kind) == reason)
            .await
    }

    /// Deletes the GpuModule and waits until it is gone.
    pub async fn delete(&self) -> Result<()> {
        self.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
        self.until_gone().await
    }

    /// Waits until the GpuModule is gone.
    pub async fn until_gone(&self) -> Result<()> {
        let gone = eventually("the GpuModule to be gone", STEP, async || {
            let module = self.modules.get_opt(MODULE_NAME).await?;
            let seen = module
                .as_ref()
                .map(|module| format!("{}, finalizers {:?}", describe(module), module.finalizers()));
            ensure!(module.is_none(), seen.unwrap_or_default());
            Ok(())
        });
        gone.await.with_context(|| self.logs())
    }

    /// The end of each manager's log.
    pub fn logs(&self) -> String {
        let entries = std::fs::read_dir(self.cluster.dir())
            .into_iter()
            .flatten()
            .flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.retain(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("gpu-manager"))
        });
        paths.sort();
        let tail = |path: &PathBuf| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines[lines.len().saturating_sub(40)..].join("\n");
            format!("{} ends so:\n{end}", path.display())
        };
        paths.iter().map(tail).collect::<Vec<_>>().join("\n")
    }
}

/// Reason of a condition; empty without it.
pub fn reason(status: &GpuModuleStatus, kind: ConditionType) -> &str {
    condition(status, kind).map_or("", |condition| condition.reason.as_str())
}

/// Message of a condition; empty without it.
pub fn message(status: &GpuModuleStatus, kind: ConditionType) -> &str {
    condition(status, kind).map_or("", |condition| condition.message.as_str())
}
