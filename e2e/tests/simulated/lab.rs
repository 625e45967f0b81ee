//! A cluster with a helm, a chart and a simulated operator, and looks at what they made.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use e2e::simulated::{Operator, Options, names};
use e2e::tools::Tool;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::process::Command;

const DEADLINE: Duration = Duration::from_mins(1);
const POLICIES: &str = "/apis/nvidia.com/v1/clusterpolicies";
const NVIDIA_DRIVERS: &str = "/apis/nvidia.com/v1alpha1/nvidiadrivers";
const DRIVER_PODS: &str =
    "/api/v1/namespaces/gpu-operator/pods?labelSelector=app.kubernetes.io/component=nvidia-driver";
const DRIVER_DAEMON_SETS: &str = "/apis/apps/v1/namespaces/gpu-operator/daemonsets?labelSelector=app.kubernetes.io/component=nvidia-driver";
/// What the operator and the chart make in the namespace.
const NAMESPACED: [&str; 6] = [
    "/apis/apps/v1/namespaces/gpu-operator/daemonsets",
    "/apis/batch/v1/namespaces/gpu-operator/jobs",
    "/api/v1/namespaces/gpu-operator/pods",
    "/api/v1/namespaces/gpu-operator/serviceaccounts",
    "/api/v1/namespaces/gpu-operator/services",
    "/api/v1/namespaces/gpu-operator/configmaps",
];
/// What they make beside it.
const CLUSTER_WIDE: [&str; 3] = [
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

pub struct Lab {
    cluster: Cluster,
    operator: Operator,
    charts: Charts,
    version: String,
}

/// What was seen while a driver change rolled.
#[derive(Debug, Default)]
pub struct Roll {
    pub states: BTreeSet<String>,
    pub most_cordoned: usize,
    pub policy_messages: BTreeSet<String>,
}

impl Lab {
    /// Starts everything, with NVIDIA's chart or its stand-in.
    pub async fn start(version: &str) -> Result<Self> {
        let cluster = Cluster::start(ClusterOptions::full()).await?;
        let charts = Charts::find(cluster.tools(), &[version]).await?;
        let operator = Operator::start(cluster.client(), Options::default());
        Ok(Self {
            cluster,
            charts,
            operator,
            version: version.to_owned(),
        })
    }

    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    pub async fn add_node(&self, node: &FakeNode) -> Result<()> {
        self.cluster.create_node(node).await.map(drop)
    }

    pub async fn patch_node(&self, name: &str, patch: &Value) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client());
        nodes
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    pub async fn install(&self, values: &Value) -> Result<()> {
        self.run_helm(&["install", "gpu-operator"], &["--create-namespace"], values)
            .await
    }

    pub async fn upgrade(&self, values: &Value) -> Result<()> {
        self.run_helm(&["upgrade", "gpu-operator"], &["--skip-crds"], values)
            .await
    }

    async fn run_helm(&self, verb: &[&str], flags: &[&str], values: &Value) -> Result<()> {
        let file = self.cluster.dir().join("values.json");
        fs::write(&file, values.to_string())?;
        let archive = self.charts.archive(&self.version);
        let (archive, file) = (archive.to_string_lossy(), file.to_string_lossy());
        let common = [
            archive.as_ref(),
            "--namespace",
            "gpu-operator",
            "--values",
            file.as_ref(),
        ];
        self.helm(&[verb, &common, flags].concat()).await
    }

    pub async fn helm(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(self.cluster.tools().path(Tool::Helm));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.cluster.dir())
            .kill_on_drop(true);
        command.env("KUBECONFIG", self.cluster.kubeconfig());
        let output = command.output().await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "helm {} failed: {errors}",
            args.join(" ")
        );
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.cluster.client().request(request).await?)
    }

    async fn items(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path).await?;
        list["items"]
            .as_array()
            .cloned()
            .with_context(|| format!("{path} is no list: {list}"))
    }

    pub async fn node(&self, name: &str) -> Result<Value> {
        self.get(&format!("/api/v1/nodes/{name}")).await
    }

    /// Waits until the nodes announce so many GPUs.
    pub async fn wait_for_gpus<const N: usize>(
        &self,
        wanted: [(&str, &str); N],
        deadline: Duration,
    ) -> Result<()> {
        eventually("GPUs on the nodes", deadline, async || {
            for (name, count) in wanted {
                let node = self.node(name).await?;
                let found = &node["status"]["allocatable"][names::GPU_RESOURCE];
                let mut statuses = String::new();
                for path in [POLICIES, NVIDIA_DRIVERS] {
                    let list = self.get(path).await.unwrap_or_default();
                    write!(statuses, "; {path}: {}", list["items"][0]["status"])?;
                }
                ensure!(found == count, "{name} has {found}{statuses}");
            }
            Ok(())
        })
        .await
    }

    pub async fn wait_for_policy(&self, state: &str, reason: &str, message: &str) -> Result<()> {
        self.wait_for_status(POLICIES, state, reason, message).await
    }

    pub async fn wait_for_driver(&self, state: &str, reason: &str, message: &str) -> Result<()> {
        self.wait_for_status(NVIDIA_DRIVERS, state, reason, message).await
    }

    /// Waits until the object has this state, and a true condition with this reason and such a message.
    async fn wait_for_status(&self, path: &str, state: &str, reason: &str, message: &str) -> Result<()> {
        eventually(&format!("{reason} in {path}"), DEADLINE, async || {
            let objects = self.items(path).await?;
            let status = objects.first().map_or(&Value::Null, |object| &object["status"]);
            let said = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|condition| {
                    condition["status"] == "True"
                        && condition["reason"] == reason
                        && condition["message"]
                            .as_str()
                            .is_some_and(|text| text.contains(message))
                });
            ensure!(said && status["state"] == state, "{status}");
            Ok(())
        })
        .await
    }

    /// Waits until the driver Pod on a node waits for this reason.
    pub async fn wait_for_driver_pods(&self, node: &str, reason: &str) -> Result<()> {
        eventually(&format!("{reason} on {node}"), DEADLINE, async || {
            let pods = self.items(DRIVER_PODS).await?;
            let here = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
            let reasons: Vec<&Value> = here
                .map(|pod| &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"])
                .collect();
            ensure!(reasons == [reason], "{reasons:?}");
            Ok(())
        })
        .await
    }

    pub async fn driver_images(&self) -> Result<Vec<String>> {
        let pods = self.items(DRIVER_PODS).await?;
        let images = pods
            .iter()
            .filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str());
        Ok(images.map(str::to_owned).collect())
    }

    /// Driver branch of each driver Pod.
    pub async fn driver_branches(&self) -> Result<Vec<String>> {
        let images = self.driver_images().await?;
        let tags = images.iter().filter_map(|image| image.rsplit(':').next());
        Ok(tags
            .filter_map(|tag| tag.split('-').next())
            .map(str::to_owned)
            .collect())
    }

    /// Desired, updated and ready Pods of the driver DaemonSet.
    pub async fn driver_counts(&self) -> Result<[i64; 3]> {
        let found = self.items(DRIVER_DAEMON_SETS).await?;
        ensure!(found.len() == 1, "{} driver DaemonSets", found.len());
        let fields = ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"];
        Ok(fields.map(|field| found[0]["status"][field].as_i64().unwrap_or_default()))
    }

    /// Looks on until all Pods run the new driver and all nodes are done.
    pub async fn watch_roll(&self, deadline: Duration) -> Result<Roll> {
        let mut roll = Roll::default();
        eventually("the end of the driver change", deadline, async || {
            let nodes = self.items("/api/v1/nodes").await?;
            let cordoned = nodes
                .iter()
                .filter(|node| node["spec"]["unschedulable"] == true)
                .count();
            roll.most_cordoned = roll.most_cordoned.max(cordoned);
            let states = nodes
                .iter()
                .filter_map(|node| node["metadata"]["labels"][names::UPGRADE_STATE].as_str());
            let states: Vec<String> = states.map(str::to_owned).collect();
            roll.states.extend(states.iter().cloned());
            let policy = &self.items(POLICIES).await?[0];
            let message = policy["status"]["conditions"][1]["message"]
                .as_str()
                .unwrap_or_default();
            roll.policy_messages.insert(message.to_owned());
            let counts = self.driver_counts().await?;
            let done = states.len() == 2 && states.iter().all(|state| state == "upgrade-done");
            ensure!(
                done && counts[1] == counts[0] && cordoned == 0,
                "{states:?} {counts:?}"
            );
            Ok(())
        })
        .await?;
        Ok(roll)
    }

    /// Nothing is written by the simulated operator for a while.
    pub async fn expect_no_writes(&self, time: Duration) -> Result<()> {
        let audit = self.cluster.audit();
        // What the last change set off may still go on for a moment, so the quiet time may begin later.
        eventually("a time without writes", DEADLINE, async || {
            let mark = audit.mark()?;
            tokio::time::sleep(time).await;
            let writes: Vec<String> = audit
                .since(mark)?
                .into_iter()
                .filter(|event| event.user.username == "admin")
                .filter(|event| !matches!(event.verb.as_str(), "get" | "list" | "watch"))
                .map(|event| format!("{} {}", event.verb, event.request_uri))
                .collect();
            ensure!(writes.is_empty(), "{writes:?}");
            Ok(())
        })
        .await
    }

    /// Waits until all that the operator made is gone, and NFD's labels with it.
    pub async fn wait_until_clean(&self, deadline: Duration) -> Result<()> {
        eventually("a cluster without the operator's objects", deadline, async || {
            for path in NAMESPACED {
                let mut left = self.names(path).await?;
                left.retain(|name| name != "default" && name != "kube-root-ca.crt");
                ensure!(left.is_empty(), "{path}: {left:?}");
            }
            for path in CLUSTER_WIDE {
                let mut left = self.names(path).await?;
                left.retain(|name| name.contains("nvidia") || name.contains("gpu"));
                ensure!(left.is_empty(), "{path}: {left:?}");
            }
            for node in self.items("/api/v1/nodes").await? {
                let labels = node["metadata"]["labels"].to_string();
                ensure!(!labels.contains(names::NFD_PREFIX), "{labels}");
            }
            Ok(())
        })
        .await
    }

    async fn names(&self, path: &str) -> Result<Vec<String>> {
        let items = self.items(path).await?;
        let names = items.iter().filter_map(|item| item["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }
}

/// NVIDIA's labels and annotations on a node.
pub fn nvidia_keys(node: &Value) -> Vec<String> {
    let keys = |field: &str, kind: &'static str| {
        let map = node["metadata"][field].as_object().cloned().unwrap_or_default();
        map.into_iter()
            .map(|(key, _)| key)
            .filter(|key| key.starts_with("nvidia.com/"))
            .map(move |key| format!("{kind} {key}"))
    };
    keys("annotations", "annotation")
        .chain(keys("labels", "label"))
        .collect()
}

fn garden_linux() -> Value {
    let template = format!(
        "{{{{ range .system.osrelease }}}}{}=0\n{{{{ end }}}}",
        names::OS_VERSION
    );
    json!({
        "cdi": {"enabled": true},
        "toolkit": {"installDir": "/opt/nvidia"},
        "operator": {"upgradeCRD": false, "cleanupCRD": false},
        "dcgmExporter": {"serviceMonitor": {"enabled": false}},
        "node-feature-discovery": {"worker": {"config": {"sources": {"custom": [{
            "name": "gardenlinux-version",
            "labelsTemplate": template,
            "matchFeatures": [{
                "feature": "system.osrelease",
                "matchExpressions": {"GARDENLINUX_VERSION": {"op": "Exists"}},
            }],
        }]}}}},
    })
}

fn precompiled_driver(branch: &str) -> Value {
    json!({
        "repository": "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0",
        "image": "driver",
        "version": branch,
        "usePrecompiled": true,
        "imagePullPolicy": "Always",
    })
}

/// Values for Garden Linux nodes whose driver is in ClusterPolicy.
pub fn with_policy_driver(branch: &str) -> Value {
    let mut values = garden_linux();
    values["driver"] = precompiled_driver(branch);
    values
}

/// Values for Garden Linux nodes whose driver is in an NVIDIADriver of the release.
pub fn with_nvidia_driver(branch: &str) -> Value {
    let mut values = garden_linux();
    values["driver"] = json!({"nvidiaDriverCRD": {"enabled": true, "deployDefaultCR": false}});
    let mut spec = precompiled_driver(branch);
    spec["driverType"] = json!("gpu");
    spec["nodeSelector"] = json!({(names::OS_ID): "gardenlinux"});
    spec["upgradePolicy"] = json!({"autoUpgrade": true});
    // The chart's own values for it do not reach an NVIDIADriver of `extraObjects`.
    spec["manager"] = json!({
        "repository": "nvcr.io/nvidia/cloud-native",
        "image": "k8s-driver-manager",
        "version": "v0.12.0",
    });
    values["extraObjects"] = json!([{
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": "gardenlinux-precompiled"},
        "spec": spec,
    }]);
    values
}
