//! The demo's path on a real cluster: nothing is simulated, and a CUDA Pod must run to its end.
//!
//! The operator must run there already; this brings a GpuModule and a Pod, and takes both away again.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use gpu_manager::api::{GpuModule, MANAGER, MODULE_NAME};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::demo::{Screen, Steps, Workload, follow};

/// Namespaces in which the manifests put the operator.
const MANAGER_NAMESPACES: [&str; 2] = ["kyma-system", "gpu-manager"];

/// How long the first GPU node may take: a new machine, then the driver, whose startup probe alone allows 21 minutes.
const USABLE_DEADLINE: Duration = Duration::from_mins(45);

/// How long the Pod may take: a pull of the image and a second of work.
const POD_DEADLINE: Duration = Duration::from_mins(15);

/// How long the removal may take.
const REMOVAL_DEADLINE: Duration = Duration::from_mins(15);

const INSTALL: &str = "Install it first:\n\
    \u{20} make manifests VERSION=<x.y.z> IMAGE=<image without tag>\n\
    \u{20} kubectl apply --server-side -f dist/gpu-manager-community.yaml";

/// What the Pod runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace that is made for it.
    pub namespace: String,
    /// Its image; it must bring the CUDA environment that makes the container toolkit add `nvidia-smi`.
    pub image: String,
}

/// Name of the Pod.
pub const POD: &str = "cuda";

impl Options {
    /// How to remove what an acceptance test that ended early has made.
    pub fn say_how_to_remove(&self) -> String {
        format!(
            "what was made is left for a look; remove it with 'kubectl delete gpumodule {MODULE_NAME}' and \
             'kubectl delete namespace {}'",
            self.namespace
        )
    }
}

/// Refuses a cluster without the operator, and one on which somebody uses it already.
pub async fn check(steps: &Steps, screen: &mut Screen<'_>) -> Result<()> {
    screen.phase("Check the cluster");
    let version = steps.client().apiserver_version().await?.git_version;
    let nodes = steps.nodes().await?;
    screen.progress(&format!("Kubernetes {version}, {} nodes", nodes.len()));
    let found = match steps.modules().list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("this cluster does not know GpuModule. {INSTALL}")
        }
        found => found?,
    };
    ensure!(
        found.items.is_empty(),
        "this cluster has a GpuModule already, which the acceptance test would delete at its end"
    );
    let deployments: Api<Deployment> = Api::all(steps.client());
    let named = ListParams::default().fields(&format!("metadata.name={MANAGER}"));
    let deployments = deployments.list(&named).await?;
    let available = deployments.iter().find(|deployment| {
        let status = deployment.status.as_ref();
        let namespace = deployment.namespace().unwrap_or_default();
        MANAGER_NAMESPACES.contains(&namespace.as_str())
            && status.and_then(|status| status.available_replicas) > Some(0)
    });
    let deployment = available
        .with_context(|| format!("no Deployment {MANAGER} is available on this cluster. {INSTALL}"))?;
    screen.progress(&format!(
        "Deployment {MANAGER} is available in namespace {}",
        deployment.namespace().unwrap_or_default()
    ));
    Ok(())
}

/// Goes the path on a cluster that [`check`] accepted.
pub async fn run(steps: &Steps, screen: &mut Screen<'_>, options: &Options) -> Result<()> {
    install(steps, screen).await?;
    let workload = run_pod(steps, screen, options).await?;
    let log = steps
        .programs()
        .kubectl(&["logs", "-n", &options.namespace, POD])
        .await?;
    screen.command(&format!("kubectl logs -n {} {POD}", options.namespace), &log);
    remove(steps, screen, &workload).await
}

/// Applies the GpuModule and waits for a GPU node on which Pods can run.
pub async fn install(steps: &Steps, screen: &mut Screen<'_>) -> Result<()> {
    screen.phase("Apply the default GpuModule and wait for a usable GPU node");
    steps.apply(screen).await?;
    follow(steps.modules(), screen, USABLE_DEADLINE, has_usable_node).await?;
    steps.show(screen).await?;
    Ok(())
}

fn has_usable_node(module: Option<&GpuModule>) -> bool {
    module.is_some_and(|module| {
        let status = module.status.as_ref();
        status.is_some_and(|status| {
            status.gpu_nodes.usable > 0
                && status.release.is_some()
                && Some(status.observed_generation) == module.metadata.generation
        })
    })
}

/// Runs the Pod to its end.
pub async fn run_pod(steps: &Steps, screen: &mut Screen<'_>, options: &Options) -> Result<Workload> {
    screen.phase("Run a CUDA Pod as a user");
    let workload = Workload::create(steps.client(), &options.namespace).await?;
    workload.start(POD, &options.image, &["nvidia-smi"], 1).await?;
    screen.progress(&format!(
        "Pod {POD} in namespace {} runs nvidia-smi in {}",
        options.namespace, options.image
    ));
    let pod = workload
        .until_phase(POD, &["Succeeded", "Failed"], POD_DEADLINE)
        .await?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    screen.progress(&format!("it ended on {}", node.unwrap_or("no node")));
    ensure!(succeeded(&pod), "the Pod failed: {:?}", pod.status);
    Ok(workload)
}

fn succeeded(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Succeeded")
}

/// Takes everything away again and shows what is left.
pub async fn remove(steps: &Steps, screen: &mut Screen<'_>, workload: &Workload) -> Result<()> {
    screen.phase("Delete the Pod and the GpuModule");
    workload.remove().await?;
    screen.progress(&format!("namespace {} is gone", workload.namespace()));
    steps.delete(screen, REMOVAL_DEADLINE).await?;
    screen.phase("See what is left");
    steps.left().await?.show(screen);
    Ok(())
}
