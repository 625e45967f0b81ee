//! What the measurements run on: a local cluster with three nodes, the simulated NVIDIA operator, and an operator
//! process that is started and stopped as needed.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{ANNOTATION_RECONCILE_AT, GpuModule, GpuModuleStatus, MODULE_NAME, State};
use gpu_manager::telemetry::DEFAULT_FILTER;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::raw_helm::RawHelm;
use super::requests::Requests;
use crate::charts::{Charts, Origin};
use crate::cluster::{Cluster, FakeNode, Mark, Options as ClusterOptions};
use crate::demo::default_chart_version;
use crate::manager::{MANAGER, Manager, Options, describe, install_manifests};
use crate::simulated;
use crate::tools::Tools;
use crate::wait::eventually;

/// How long a step may take that takes seconds on an idle machine.
pub const STEP: Duration = Duration::from_mins(3);

/// Length of the Lease in production, in seconds.
const LEASE: u64 = 30;

/// So long without a request an operator counts as settled.
const SETTLED: Duration = Duration::from_secs(4);

/// The operator as a running process, for as long as a measurement needs it.
pub struct World {
    manager: Option<Manager>,
    _nvidia: Option<simulated::Operator>,
    charts: Charts,
    options: Options,
    kubeconfig: PathBuf,
    /// Helm without the operator.
    pub raw: RawHelm,
    /// The GpuModules.
    pub modules: Api<GpuModule>,
    /// The cluster.
    pub cluster: Cluster,
}

/// A place in the logs from which helm's starts and the API server's requests are counted.
pub struct Count {
    requests: Mark,
    processes: usize,
}

impl World {
    /// Starts the cluster; `program` is the operator's binary, which is not started yet.
    pub async fn start(program: PathBuf) -> Result<Self> {
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        for node in [
            FakeNode::new("worker-0"),
            FakeNode::with_gpus("gpu-0", 1),
            FakeNode::with_gpus("gpu-1", 1),
        ] {
            cluster.create_node(&node).await?;
        }
        let nvidia = simulated::Operator::start(cluster.client(), simulated::Options::default());
        // As in production, but that each start of helm is told.
        let log_level = format!("{DEFAULT_FILTER},gpu_manager::helm=debug");
        Self::on(cluster, Some(nvidia), program, log_level).await
    }

    /// The same with the API server alone: objects are stored, and nothing but the operator acts on them.
    pub async fn start_alone(program: PathBuf) -> Result<Self> {
        let cluster = Cluster::start(ClusterOptions::api_server_only()).await?;
        // Passes are told, too.
        let log_level = format!("{DEFAULT_FILTER},gpu_manager::helm=debug,gpu_manager::reconcile=debug");
        Self::on(cluster, None, program, log_level).await
    }

    async fn on(
        cluster: Cluster,
        nvidia: Option<simulated::Operator>,
        program: PathBuf,
        log_level: String,
    ) -> Result<Self> {
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        let version = default_chart_version()?;
        let charts = Charts::find(&tools, &[&version]).await?;
        install_manifests(&cluster).await?;
        let options = Options {
            program: Some(program),
            lease_duration: LEASE,
            log_level,
            ..Options::with_charts(&charts)
        };
        Ok(Self {
            manager: None,
            _nvidia: nvidia,
            options,
            kubeconfig: cluster.kubeconfig_for_service_account(MANAGER, MANAGER).await?,
            raw: RawHelm::new(&cluster, &charts, &version).await?,
            charts,
            modules: Api::all(cluster.client()),
            cluster,
        })
    }

    /// Whether NVIDIA's chart is installed or the project's stand-in.
    pub fn chart_origin(&self) -> Origin {
        self.charts.origin()
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Starts the operator, unless it runs. It leads a moment later.
    pub fn start_manager(&mut self) -> Result<()> {
        if self.manager.is_none() {
            self.manager = Some(Manager::start_with(
                &self.cluster,
                &self.options,
                &self.kubeconfig,
            )?);
        }
        Ok(())
    }

    /// Starts the operator and waits until it waits for a GpuModule.
    pub async fn start_manager_and_wait(&mut self) -> Result<()> {
        self.start_manager()?;
        let what = "the operator to watch the cluster";
        eventually(what, STEP, async || {
            let log = self.manager()?.process.log();
            // Of the last start; all starts write to one file.
            let own = log.rfind("helm found").map(|at| &log[at..]);
            ensure!(
                own.is_some_and(|log| log.contains("watching the cluster")),
                "{log}"
            );
            Ok(())
        })
        .await
    }

    /// Asks the operator to end and waits for it.
    pub async fn stop_manager(&mut self) -> Result<()> {
        let Some(mut manager) = self.manager.take() else {
            return Ok(());
        };
        manager.process.signal(Signal::TERM)?;
        let end = manager.process.wait(STEP).await?;
        ensure!(
            end.success(),
            "the operator ended with {end}: {}",
            manager.process.log_tail()
        );
        Ok(())
    }

    fn manager(&self) -> Result<&Manager> {
        self.manager.as_ref().context("the operator does not run")
    }

    /// Process id of the operator.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.manager()?.process.id())
    }

    /// Server-side-applies the whole spec of the GpuModule.
    pub async fn apply(&self, spec: &Value) -> Result<()> {
        let module = json!({
            "apiVersion": "operator.kyma-project.io/v1alpha1",
            "kind": "GpuModule",
            "metadata": { "name": MODULE_NAME },
            "spec": spec,
        });
        let params = PatchParams::apply("bench").force();
        let patch = Patch::Apply(&module);
        self.modules.patch(MODULE_NAME, &params, &patch).await?;
        Ok(())
    }

    /// Forces a reconcile.
    pub async fn force(&self, value: &str) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION_RECONCILE_AT: value } } });
        let patch = Patch::Merge(&patch);
        self.modules
            .patch(MODULE_NAME, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until the status of the current generation satisfies `condition`.
    pub async fn until_status(
        &self,
        what: &str,
        condition: impl Fn(&GpuModuleStatus) -> bool,
    ) -> Result<GpuModuleStatus> {
        eventually(what, STEP, async || {
            let module = self.modules.get(MODULE_NAME).await?;
            let status = module.status.as_ref().context("no status")?;
            let is_current = module.metadata.generation == Some(status.observed_generation);
            ensure!(is_current && condition(status), "{}", describe(&module));
            Ok(status.clone())
        })
        .await
        .with_context(|| self.log())
    }

    /// The end of the operator's log, for messages of failed waits.
    fn log(&self) -> String {
        let log = self.manager.as_ref().map(|manager| manager.process.log_tail());
        format!("the operator's log ends so:\n{}", log.unwrap_or_default())
    }

    /// Brings about the world in which most is measured: the operator runs, its release too, and nothing is left to do.
    pub async fn ready(&mut self, spec: &Value) -> Result<()> {
        self.start_manager()?;
        self.apply(spec).await?;
        self.until_status("the GpuModule to be Ready", |status| status.state == State::Ready)
            .await?;
        self.until_settled().await
    }

    /// Waits until the operator sends nothing any more but renewals of its Lease and its watches.
    pub async fn until_settled(&self) -> Result<()> {
        eventually("the operator to settle", STEP, async || {
            let count = self.count()?;
            sleep(SETTLED).await;
            let requests = self.requests_since(&count)?;
            ensure!(requests.operator() + requests.helm == 0, "{requests:?}");
            Ok(())
        })
        .await
    }

    /// Deletes the GpuModule, if there is one, and waits until the operator has let it go.
    pub async fn delete_module(&self) -> Result<()> {
        if self.modules.get_opt(MODULE_NAME).await?.is_some() {
            self.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
        }
        eventually("the GpuModule to be gone", STEP, async || {
            let module = self.modules.get_opt(MODULE_NAME).await?;
            ensure!(
                module.is_none(),
                "{}",
                module.as_ref().map(describe).unwrap_or_default()
            );
            Ok(())
        })
        .await
    }

    /// Begins to count.
    pub fn count(&self) -> Result<Count> {
        Ok(Count {
            requests: self.cluster.audit().mark()?,
            processes: self.processes()?,
        })
    }

    /// Requests of the operator and of its helm since then.
    pub fn requests_since(&self, count: &Count) -> Result<Requests> {
        Ok(Requests::of(&self.cluster.audit().since(count.requests)?))
    }

    /// Starts of helm since then; the operator must have run all the time.
    pub fn helm_starts_since(&self, count: &Count) -> Result<usize> {
        Ok(self.processes()? - count.processes)
    }

    /// Passes so far, where they are told.
    pub fn passes(&self) -> Result<usize> {
        Ok(self.manager()?.process.log().matches("decided plan=").count())
    }

    fn processes(&self) -> Result<usize> {
        Ok(self.manager()?.process.log().matches("process started").count())
    }
}
