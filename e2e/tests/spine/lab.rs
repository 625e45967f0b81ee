//! A cluster with GPU nodes, the simulated NVIDIA operator and a manager.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use e2e::manager::{Manager, Options, describe, install_manifests};
use e2e::simulated;
use e2e::wait::eventually;
use gpu_manager::api::{GpuModule, GpuModuleStatus, MODULE_NAME, State};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

pub struct Lab {
    pub cluster: Cluster,
    pub nvidia: simulated::Operator,
    pub manager: Manager,
    pub charts: Charts,
    pub modules: Api<GpuModule>,
}

impl Lab {
    pub async fn start() -> Result<Self> {
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        let charts = Charts::find(cluster.tools(), &["26.7.0", "26.3.3", "25.10.1"]).await?;
        for node in [
            FakeNode::with_gpus("gpu-0", 1),
            FakeNode::with_gpus("gpu-1", 1),
            FakeNode::new("cpu-0"),
        ] {
            cluster.create_node(&node).await?;
        }
        let nvidia = simulated::Operator::start(cluster.client(), simulated::Options::default());
        install_manifests(&cluster).await?;
        let manager = Manager::start(&cluster, &Options::new(charts.dir())).await?;
        let modules = Api::all(cluster.client());
        Ok(Self {
            cluster,
            nvidia,
            manager,
            charts,
            modules,
        })
    }

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

    pub async fn until(&self, state: State, deadline: Duration) -> Result<GpuModuleStatus> {
        let what = format!("state {state:?}");
        let seen = eventually(&what, deadline, async || {
            let module = self.modules.get(MODULE_NAME).await?;
            let now = module
                .status
                .as_ref()
                .map(|status| (status.state, status.observed_generation));
            ensure!(
                now == Some((state, module.metadata.generation.unwrap_or_default())),
                describe(&module)
            );
            module.status.context("no status")
        });
        seen.await.with_context(|| self.manager.process.log_tail())
    }
}
