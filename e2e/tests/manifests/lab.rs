//! A cluster with GPU nodes and the simulated NVIDIA operator, on which nothing of the module is installed yet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::catalogue::CatalogueFolder;
use e2e::charts::{Charts, Origin, known_versions};
use e2e::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use e2e::manager::{Manager, Options, binary, describe};
use e2e::manifests::Flavour;
use e2e::simulated;
use e2e::tools::Tools;
use e2e::wait::eventually;
use gpu_manager::api::{GpuModule, MODULE_NAME, State};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ListParams;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// How long anything may take that is waited for; seconds are usual.
pub const STEP: Duration = Duration::from_mins(2);

/// One cluster at a time: each fills more than one core while it starts.
static TURN: Mutex<()> = Mutex::const_new(());

pub struct Lab {
    // Dropped in this order: whoever uses the cluster goes before it.
    _nvidia: simulated::Operator,
    pub modules: Api<GpuModule>,
    charts: Charts,
    catalogue: CatalogueFolder,
    pub cluster: Cluster,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    pub async fn start() -> Result<Self> {
        // Before the turn, since cargo may have to build it.
        tokio::task::spawn_blocking(binary).await??;
        let turn = TURN.lock().await;
        let tools = tokio::task::spawn_blocking(Tools::ensure).await??;
        let charts = Charts::find(&tools, &known_versions()?).await?;
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        for node in [FakeNode::with_gpus("gpu-0", 1), FakeNode::new("cpu-0")] {
            cluster.create_node(&node).await?;
        }
        until_settled(&cluster.client()).await?;
        Ok(Self {
            _nvidia: simulated::Operator::start(cluster.client(), simulated::Options::default()),
            modules: Api::all(cluster.client()),
            catalogue: CatalogueFolder::for_charts(&charts)?,
            charts,
            cluster,
            _turn: turn,
        })
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Starts the manager that the Deployment of a manifest would start, with a token of its ServiceAccount.
    pub async fn manager(&self, flavour: Flavour) -> Result<Manager> {
        let catalogue: Option<&Path> = match self.charts.origin() {
            // The catalogue that is compiled in is the one that ships.
            Origin::Nvidia => None,
            Origin::StandIn => Some(self.catalogue.path()),
        };
        let mut options = Options::new(self.charts.dir()).in_namespace(flavour.namespace());
        options.catalogue = catalogue.map(PathBuf::from);
        Manager::start(&self.cluster, &options).await
    }

    /// Waits until the GpuModule is in a state.
    pub async fn until(&self, state: State) -> Result<()> {
        eventually(&format!("state {state:?}"), STEP, async || {
            let module = self.modules.get(MODULE_NAME).await?;
            let status = module.status.as_ref().context("no status")?;
            ensure!(status.state == state, "{}", describe(&module));
            Ok(())
        })
        .await
    }

    /// Waits until the Deployment has a Pod, which Kubernetes lets in, and says so as its readers want it.
    pub async fn until_available(&self, flavour: Flavour) -> Result<()> {
        let deployments = Api::<Deployment>::namespaced(self.client(), flavour.namespace());
        eventually("the Deployment to be available", STEP, async || {
            let deployment = deployments.get("gpu-manager").await?;
            let conditions = deployment
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let found: Vec<_> = conditions
                .iter()
                .map(|condition| {
                    let reason = condition.reason.as_deref().unwrap_or_default();
                    format!("{}={}/{reason}", condition.type_, condition.status)
                })
                .collect();
            let available = found
                .iter()
                .any(|condition| condition.starts_with("Available=True/"));
            let rolled_out = found
                .iter()
                .any(|condition| condition == "Progressing=True/NewReplicaSetAvailable");
            ensure!(available && rolled_out, "{found:?}");
            Ok(())
        })
        .await
    }
}

/// Waits until Kubernetes has made what it makes by itself on a new cluster, so that later ones can be compared with it.
pub async fn until_settled(client: &Client) -> Result<()> {
    eventually("the cluster to be settled", STEP, async || {
        for node in Api::<Node>::all(client.clone())
            .list(&ListParams::default())
            .await?
        {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
            let labelled = node.labels().contains_key("beta.kubernetes.io/os");
            ensure!(labelled && taints.is_none(), "{}: {taints:?}", node.name_any());
        }
        for namespace in Api::<Namespace>::all(client.clone())
            .list(&ListParams::default())
            .await?
        {
            let namespace = namespace.name_any();
            let maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
            maps.get("kube-root-ca.crt").await?;
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace);
            accounts.get("default").await?;
        }
        for role in ["admin", "edit", "view"] {
            let role = Api::<ClusterRole>::all(client.clone()).get(role).await?;
            ensure!(
                role.rules.is_some_and(|rules| !rules.is_empty()),
                "nothing is aggregated yet"
            );
        }
        Ok(())
    })
    .await
}

/// Where objects of this kind lie, as a client finds it that knows no kinds. An object without a namespace lies in `fallback`.
pub async fn place(client: &Client, object: &Value, fallback: &str) -> Result<Api<DynamicObject>> {
    let (resource, capabilities) = kind_of(client, object).await?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(fallback);
    Ok(match capabilities.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    })
}

/// Objects of this kind in all namespaces.
pub async fn everywhere(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let (resource, _) = kind_of(client, object).await?;
    Ok(Api::all_with(client.clone(), &resource))
}

async fn kind_of(client: &Client, object: &Value) -> Result<(kube::core::ApiResource, ApiCapabilities)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    pinned_kind(client, &kind)
        .await
        .with_context(|| format!("{} {} is not served", api_version, kind.kind))
}

/// Name of an object.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
