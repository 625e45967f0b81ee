//! The demo's surroundings: a local cluster with three nodes, the simulated operator, the operator itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use rustix::process::Signal;

use super::{Programs, Screen};
use crate::charts::{Charts, Origin};
use crate::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use crate::manager::{self, Manager, Options as ManagerOptions, install_manifests};
use crate::simulated;
use crate::tools::{Tool, Tools, repository_root};
use crate::wait::eventually;

/// How long KWOK may take to make nodes Ready.
const NODES_DEADLINE: Duration = Duration::from_mins(1);

/// How long the operator may take to end: as long as its Pod is given.
const STOP_DEADLINE: Duration = Duration::from_mins(2);

/// Everything that runs. The order matters for dropping: the cluster goes last.
pub struct Local {
    /// The operator.
    pub manager: Manager,
    _nvidia: simulated::Operator,
    charts: Charts,
    /// `kubectl` and `helm` for the cluster.
    pub programs: Programs,
    /// The cluster.
    pub cluster: Cluster,
}

/// The nodes: two pools, two GPUs.
fn nodes() -> [FakeNode; 3] {
    [
        FakeNode::new("worker-0"),
        FakeNode::with_gpus("gpu-0", 1),
        FakeNode::with_gpus("gpu-1", 1),
    ]
}

impl Local {
    /// Builds what is missing and starts everything.
    pub async fn start(screen: &mut Screen<'_>, chart_version: &str) -> Result<Self> {
        screen.phase("Build what is missing");
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        screen.progress(&format!(
            "the cluster's programs are in {}",
            tools.dir().display()
        ));
        let binary = tokio::task::spawn_blocking(manager::binary).await??;
        screen.progress(&format!("the operator is {}", binary.display()));
        let charts = Charts::find(&tools, &[chart_version]).await?;
        screen.progress(&match charts.origin() {
            Origin::Nvidia => format!("NVIDIA's chart is in {}", charts.dir().display()),
            Origin::StandIn => {
                "NVIDIA'S CHART IS NOT THERE: A STAND-IN CHART OF THIS PROJECT IS USED".to_owned()
            }
        });

        screen.phase("Start a local cluster");
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        screen.progress("the control plane is ready");
        for node in nodes() {
            cluster.create_node(&node).await?;
        }
        wait_for_nodes(&cluster).await?;
        screen.progress(&format!("{} nodes are Ready", nodes().len()));
        let programs = Programs::local(&cluster);

        screen.phase("Run the operator");
        let nvidia = simulated::Operator::start(cluster.client(), simulated::Options::default());
        install_manifests(&cluster).await?;
        screen.progress("gpu-manager-community.yaml of `make manifests` is applied");
        let manager = Manager::start(&cluster, &ManagerOptions::with_charts(&charts)).await?;
        screen.progress("gpu-manager runs beside the cluster, with the rights of its ServiceAccount");

        let local = Self {
            manager,
            _nvidia: nvidia,
            charts,
            programs,
            cluster,
        };
        local.say_what_is_real(screen, chart_version).await?;
        Ok(local)
    }

    /// Stops everything. The operator comes first and is asked, so that no helm of its outlives it.
    pub async fn stop(mut self) -> Result<()> {
        self.manager.process.signal(Signal::TERM)?;
        let status = self.manager.process.wait(STOP_DEADLINE).await?;
        ensure!(
            status.success(),
            "the operator ended with {status}; its log ends so:\n{}",
            self.manager.process.log_tail()
        );
        Ok(())
    }

    async fn say_what_is_real(&self, screen: &mut Screen<'_>, chart_version: &str) -> Result<()> {
        let server = self.cluster.client().apiserver_version().await?.git_version;
        let helm = self.programs.helm(&["version", "--short"]).await?;
        let helm = helm.split('+').next().unwrap_or_default().trim();
        let (real_chart, simulated_chart) = match self.charts.origin() {
            Origin::Nvidia => (format!("NVIDIA's chart gpu-operator v{chart_version}, "), ""),
            Origin::StandIn => (
                String::new(),
                "NVIDIA'S CHART (A STAND-IN WITH THE SAME NAMES, CRDS AND HOOKS);\n           ",
            ),
        };
        screen.say(&format!(
            "\n\
             Real:      kube-apiserver, kube-scheduler and kube-controller-manager {server}, etcd, helm {helm},\n\
             \u{20}          {real_chart}gpu-manager itself.\n\
             Simulated: {simulated_chart}the nodes with their hardware and kubelets (by KWOK), so no container runs; and what\n\
             \u{20}          NVIDIA's containers would do (by the simulated operator, which is checked against\n\
             \u{20}          recordings of NVIDIA's own). There is no GPU, and no image is pulled."
        ));
        Ok(())
    }

    /// How to use the cluster from another terminal.
    pub fn say_how_to_use(&self, screen: &mut Screen<'_>) {
        let tools = self.cluster.tools();
        let paths = [Tool::Kubectl, Tool::Helm].map(|tool| tools.path(tool));
        let folders: BTreeSet<_> = paths.iter().filter_map(|path| path.parent()).collect();
        let folders: Vec<_> = folders
            .into_iter()
            .map(|path| path.display().to_string())
            .collect();
        let module = default_module();
        screen.say(&format!(
            "Use it in another terminal:\n\
             \u{20} export KUBECONFIG={}\n\
             \u{20} export PATH={}:$PATH\n\
             \u{20} kubectl apply -f {}\n\
             \u{20} kubectl get gpumodule --watch\n\
             \u{20} helm list -n gpu-operator\n\
             Pods stay Running, and kubectl logs and exec do not work: no container runs. The operator is a process here,\n\
             which ends when its manifests are deleted. Its log is {}\n\
             Ctrl-C here (or SIGTERM to process {}) stops everything.",
            self.cluster.kubeconfig().display(),
            folders.join(":"),
            module.display(),
            self.cluster.dir().join("gpu-manager-0.log").display(),
            std::process::id(),
        ));
    }
}

/// The GpuModule that ships.
pub fn default_module() -> std::path::PathBuf {
    repository_root().join(Path::new("hack/deploy/default-gpumodule-cr.yaml"))
}

async fn wait_for_nodes(cluster: &Cluster) -> Result<()> {
    let api: Api<Node> = Api::all(cluster.client());
    eventually("all nodes to be Ready", NODES_DEADLINE, async || {
        let found = api.list(&ListParams::default()).await?;
        let ready = found.iter().filter(|node| is_ready(node)).count();
        ensure!(ready == nodes().len(), "{ready} of {} are", nodes().len());
        Ok(())
    })
    .await
    .context("the fake nodes do not start")
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    ready.is_some_and(|ready| ready.status == "True")
}
