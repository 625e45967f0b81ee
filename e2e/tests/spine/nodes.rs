//! Nodes that cannot work, or that the spec leaves out, are labelled and block nothing; what changes with them is undone.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{Cluster, FakeNode, Options};
use e2e::demo::Workload;
use e2e::wait::eventually;
use gpu_manager::act::nodes::label;
use gpu_manager::api::{FIELD_MANAGER, RELEASE_NAMESPACE, State};
use gpu_manager::facts::{DRIVER_CHANGE_LABEL, OPERANDS_LABEL};
use gpu_manager::lease::Leadership;
use gpu_manager::plan::{LabelChange, NodeLabel};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use tokio::time::Instant;

use crate::lab::{Lab, STEP};

/// Garden Linux that driver 570 has no images for.
const EXCLUDED: (&str, &str) = ("Garden Linux 2150.9.0", "6.18.41-cloud-amd64");
const UBUNTU: (&str, &str) = ("Ubuntu 24.04.3 LTS", "6.8.0-50-generic");

/// The label that keeps NVIDIA's operator off a node, and the managers that own it.
type Label = Option<(String, Vec<String>)>;

fn label_of(node: &Node) -> Label {
    let field = format!("f:{OPERANDS_LABEL}");
    let owners = node.managed_fields().iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:metadata"]["f:labels"][&field].is_null())
    });
    let owners = owners.filter_map(|entry| entry.manager.clone()).collect();
    Some((node.labels().get(OPERANDS_LABEL)?.clone(), owners))
}

async fn label_by_hand(nodes: &Api<Node>, name: &str, value: Option<&str>) -> Result<()> {
    let labels = json!({ "metadata": { "labels": { OPERANDS_LABEL: value } } });
    let params = PatchParams {
        field_manager: Some("kubectl-label".to_owned()),
        ..PatchParams::default()
    };
    nodes.patch(name, &params, &Patch::Merge(&labels)).await?;
    Ok(())
}

impl Lab {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.client())
    }

    async fn add_gpu_node(&self, name: &str, (os_image, kernel): (&str, &str)) -> Result<()> {
        let node = FakeNode::with_gpus(name, 1).os_image(os_image).kernel(kernel);
        self.cluster.create_node(&node).await?;
        Ok(())
    }

    /// The machine boots another system under the same Node.
    async fn reboot(&self, name: &str, (os_image, kernel): (&str, &str)) -> Result<()> {
        let info = json!({ "status": { "nodeInfo": { "osImage": os_image, "kernelVersion": kernel } } });
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(&info))
            .await?;
        Ok(())
    }

    /// Sets the label as a user does, or takes it off.
    async fn label_by_hand(&self, name: &str, value: Option<&str>) -> Result<()> {
        label_by_hand(&self.nodes(), name, value).await
    }

    /// The node's label, GPUs that Pods can have, and Pods of NVIDIA's operands.
    async fn seen(&self, name: &str) -> Result<(Label, u32, Vec<String>)> {
        let node = self.nodes().get(name).await?;
        let label = label_of(&node);
        let allocatable = node.status.and_then(|status| status.allocatable);
        let gpus = allocatable.and_then(|all| all.get("nvidia.com/gpu")?.0.parse().ok());
        let pods = Api::<Pod>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods = pods.list(&params).await?.items;
        let of_nvidia = pods
            .iter()
            .map(kube::ResourceExt::name_any)
            .filter(|pod| pod.contains("nvidia-") || pod.starts_with("gpu-feature-discovery"));
        Ok((label, gpus.unwrap_or_default(), of_nvidia.collect()))
    }

    async fn until_node(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Label, u32, &[String]) -> bool,
    ) -> Result<()> {
        let what = format!("{name} to be {what}");
        let seen = eventually(&what, STEP, async || {
            let (label, gpus, pods) = self.seen(name).await?;
            ensure!(
                is_so(&label, gpus, &pods),
                "{label:?}, {gpus} GPUs, Pods {pods:?}"
            );
            Ok(())
        });
        seen.await.with_context(|| self.logs())
    }

    async fn until_in_use(&self, name: &str) -> Result<()> {
        self.until_node(name, "in use", |label, gpus, _| label.is_none() && gpus == 1)
            .await
    }

    /// Left out by the module, with nothing of NVIDIA's on it.
    async fn until_left_out(&self, name: &str) -> Result<()> {
        let ours: Label = Some(("false".to_owned(), vec![FIELD_MANAGER.to_owned()]));
        self.until_node(name, "left out", |label, gpus, pods| {
            *label == ours && gpus == 0 && pods.is_empty()
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_cannot_work_are_left_out_until_they_can() -> Result<()> {
    let lab = Lab::start().await?;
    lab.add_gpu_node("a-ubuntu", UBUNTU).await?;
    lab.add_gpu_node("excluded", EXCLUDED).await?;
    let arm = FakeNode::with_gpus("arm", 1)
        .architecture("arm64")
        .instance_type("g5g.xlarge");
    lab.cluster.create_node(&arm).await?;
    let start = lab.cluster.audit().mark()?;
    let _manager = lab.manager().await?;
    lab.apply(json!({ "driver": { "branch": 570 }, "upgrade": { "policy": "Immediate" } }))
        .await?;

    for name in ["gpu-0", "gpu-1"] {
        lab.until_in_use(name).await?;
    }
    for name in ["a-ubuntu", "arm", "excluded"] {
        lab.until_left_out(name).await?;
    }
    ensure_labelled_first(&lab, start)?;

    // Another branch that has images for it; a foreign node that comes meanwhile; one that becomes another system.
    lab.add_gpu_node("late", UBUNTU).await?;
    lab.until_left_out("late").await?;
    lab.apply(json!({ "upgrade": { "policy": "Immediate" } })).await?;
    lab.until_in_use("excluded").await?;
    lab.reboot("a-ubuntu", EXCLUDED).await?;
    lab.until_in_use("a-ubuntu").await?;
    lab.reboot("gpu-1", UBUNTU).await?;
    lab.until_left_out("gpu-1").await?;

    // Who takes the label off, or sets one, against the module.
    lab.label_by_hand("arm", None).await?;
    lab.until_left_out("arm").await?;
    lab.label_by_hand("late", Some("true")).await?;
    lab.until_node("late", "tried", |_, _, pods| !pods.is_empty())
        .await?;
    lab.until_in_use("gpu-0").await?;

    lab.delete().await?;
    for (name, expected) in [("arm", None), ("gpu-1", None), ("late", Some("true"))] {
        let (label, ..) = lab.seen(name).await?;
        let value = label.as_ref().map(|(value, _)| value.as_str());
        ensure!(value == expected, "{name} has {label:?}");
    }
    Ok(())
}

/// The first revision was made after the last label was set on a node that was there before.
fn ensure_labelled_first(lab: &Lab, start: e2e::cluster::Mark) -> Result<()> {
    let events = lab.cluster.audit().since(start)?;
    let secrets = format!("/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets");
    let install = events
        .iter()
        .position(|event| event.verb == "create" && event.request_uri.starts_with(&secrets))
        .context("no Secret of a release")?;
    for name in ["a-ubuntu", "arm", "excluded"] {
        let path = format!("/api/v1/nodes/{name}?");
        let applied = format!("fieldManager={FIELD_MANAGER}");
        let labels = events.iter().enumerate().filter(|(_, event)| {
            event.verb == "patch"
                && event.request_uri.starts_with(&path)
                && event.request_uri.contains(&applied)
        });
        let at: Vec<_> = labels.map(|(at, _)| at).collect();
        ensure!(
            at.len() == 1 && at[0] < install,
            "{name}: {at:?}, installed at {install}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_pools_are_chosen_by_the_spec() -> Result<()> {
    let lab = Lab::start().await?;
    let other = FakeNode::with_gpus("other", 1).pool("other");
    lab.cluster.create_node(&other).await?;
    let _manager = lab.ready().await?;
    lab.label_by_hand("gpu-1", Some("false")).await?;
    lab.until_node("gpu-1", "left out", |_, gpus, pods| gpus == 0 && pods.is_empty())
        .await?;

    lab.apply(json!({ "nodes": { "exclude": ["other"] } })).await?;
    lab.until_left_out("other").await?;
    lab.apply(json!({ "nodes": { "include": ["gpu", "other"], "exclude": ["gpu"] } }))
        .await?;
    lab.until_left_out("gpu-0").await?;
    lab.until_in_use("other").await?;
    lab.apply(json!({ "nodes": { "include": ["gpu"] } })).await?;
    lab.until_in_use("gpu-0").await?;
    lab.until_left_out("other").await?;
    lab.apply(json!({})).await?;
    lab.until_in_use("other").await?;
    ensure!(lab.history().await?.len() == 1, "{:?}", lab.history().await?);

    // The user's own label has seen all of that.
    let (label, ..) = lab.seen("gpu-1").await?;
    let users: Label = Some(("false".to_owned(), vec!["kubectl-label".to_owned()]));
    ensure!(label == users, "{label:?}");
    lab.label_by_hand("gpu-1", None).await?;
    lab.until_in_use("gpu-1").await?;

    // A suspended module labels nothing.
    lab.apply(json!({ "nodes": { "exclude": ["other"] }, "suspend": true }))
        .await?;
    lab.until_status("to be suspended", |status| status.description.contains("suspend"))
        .await?;
    lab.until_in_use("other").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_use_is_left_out_once_its_pod_has_ended() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let work = Workload::create(lab.cluster.client(), "team").await?;
    work.start("train", "pytorch", &["train"], 1).await?;
    let pod = work.until_phase("train", &["Running"], STEP).await?;
    let used = pod.spec.and_then(|spec| spec.node_name).context("no node")?;
    let idle = if used == "gpu-0" { "gpu-1" } else { "gpu-0" };

    lab.apply(json!({ "nodes": { "exclude": ["gpu"] } })).await?;
    lab.until_left_out(idle).await?;
    let told = format!("leaving out GPU nodes {used} waits for 1 Pod that uses a GPU (team/train)");
    lab.until_status(&told, |status| status.description.contains(&told))
        .await?;
    let (label, gpus, _) = lab.seen(&used).await?;
    ensure!(label.is_none() && gpus == 1, "{label:?}, {gpus} GPUs");

    work.pods().delete("train", &DeleteParams::default()).await?;
    lab.until_left_out(&used).await
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_types_of_the_spec_count_from_the_next_pass_on() -> Result<()> {
    let lab = Lab::start().await?;
    // Nothing but its type can tell: the simulated hardware has no GPU that NFD could find.
    let node = FakeNode::new("h100")
        .instance_type("g_h100_c4")
        .os_image(UBUNTU.0);
    lab.cluster.create_node(&node).await?;
    let _manager = lab.ready().await?;
    let total = async |count: u32| {
        lab.until_status(&format!("{count} GPU nodes"), |status| {
            status.gpu_nodes.total == count
        })
        .await
    };
    total(2).await?;
    lab.apply(json!({ "nodes": { "instanceTypes": ["g_h100_*"] } }))
        .await?;
    total(3).await?;
    lab.until_left_out("h100").await?;
    lab.apply(json!({})).await?;
    total(2).await?;
    lab.until_node("h100", "let go", |label, _, _| label.is_none())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_garden_linux_stays_in_the_rollout() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let unknown = ("Garden Linux 2150.99.0", "6.18.99-cloud-amd64");
    lab.reboot("gpu-1", unknown).await?;
    let image = format!(":580-{}-gardenlinux0", unknown.1);
    let pods = Api::<Pod>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let asks = async || {
        let params = ListParams::default().fields("spec.nodeName=gpu-1");
        let pods = pods.list(&params).await?.items;
        let images = pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
        let images: Vec<_> = images.collect();
        ensure!(images.iter().any(|found| found.ends_with(&image)), "{images:?}");
        Ok(())
    };
    eventually("gpu-1 to have the driver of its kernel", STEP, asks).await?;
    lab.until_in_use("gpu-1").await?;
    lab.until(State::Ready).await?;
    Ok(())
}

/// How the API server takes one label.
async fn set(client: &Client, node: &Node, keep_out: bool) -> Result<()> {
    let change = if keep_out {
        LabelChange::KeepOut
    } else {
        LabelChange::LetIn
    };
    change_label(client, node, change).await
}

async fn change_label(client: &Client, node: &Node, change: LabelChange) -> Result<()> {
    let until = Instant::now() + STEP;
    let mandate = Leadership::Leading { until }.mandate_at(Instant::now());
    let wanted = NodeLabel {
        node: node.name_any(),
        uid: node.uid().context("no UID")?,
        change,
    };
    let results = label(client, mandate.context("no mandate")?, &[wanted]).await;
    Ok(results.into_iter().collect::<Result<(), _>>()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_meets_no_other_node_and_no_other_owner() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    let (client, nodes) = (cluster.client(), Api::<Node>::all(cluster.client()));
    let add = async |name: &str| cluster.create_node(&FakeNode::with_gpus(name, 1)).await;
    let owners = |names: &[&str]| {
        Some((
            "false".to_owned(),
            names.iter().map(|&name| name.to_owned()).collect(),
        ))
    };

    // Set twice and taken off twice.
    let node = add("gpu-0").await?;
    for _ in 0..2 {
        set(&client, &node, true).await?;
        ensure!(label_of(&nodes.get("gpu-0").await?) == owners(&[FIELD_MANAGER]));
    }
    for _ in 0..2 {
        set(&client, &node, false).await?;
        ensure!(label_of(&nodes.get("gpu-0").await?).is_none());
    }

    // Gone, and there again as another one.
    nodes.delete("gpu-0", &DeleteParams::default()).await?;
    set(&client, &node, true).await?;
    ensure!(nodes.get_opt("gpu-0").await?.is_none(), "a Node was made");
    add("gpu-0").await?;
    set(&client, &node, true).await?;
    ensure!(
        label_of(&nodes.get("gpu-0").await?).is_none(),
        "another Node was labelled"
    );

    // Somebody was faster.
    let node = add("gpu-1").await?;
    label_by_hand(&nodes, "gpu-1", Some("true")).await?;
    set(&client, &node, true).await?;
    let theirs = Some(("true".to_owned(), vec!["kubectl-label".to_owned()]));
    ensure!(label_of(&nodes.get("gpu-1").await?) == theirs);
    set(&client, &node, false).await?;
    ensure!(label_of(&nodes.get("gpu-1").await?) == theirs);

    // Two want the same: the module's part goes, the label stays.
    label_by_hand(&nodes, "gpu-1", Some("false")).await?;
    set(&client, &node, true).await?;
    set(&client, &node, false).await?;
    ensure!(label_of(&nodes.get("gpu-1").await?) == owners(&["kubectl-label"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nvidias_label_of_a_driver_change_is_taken_off_that_node_alone() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    let (client, nodes) = (cluster.client(), Api::<Node>::all(cluster.client()));
    let has_label = async || -> Result<bool> {
        let node = nodes.get("gpu-0").await?;
        ensure!(
            node.labels().contains_key("other"),
            "another label went: {:?}",
            node.labels()
        );
        Ok(node.labels().contains_key(DRIVER_CHANGE_LABEL))
    };
    let add = async || -> Result<Node> {
        let node = cluster.create_node(&FakeNode::with_gpus("gpu-0", 1)).await?;
        let labels =
            json!({ "metadata": { "labels": { DRIVER_CHANGE_LABEL: "upgrade-failed", "other": "stays" } } });
        let params = PatchParams::default();
        nodes.patch("gpu-0", &params, &Patch::Merge(&labels)).await?;
        Ok(node)
    };
    let node = add().await?;
    for _ in 0..2 {
        change_label(&client, &node, LabelChange::EndDriverChange).await?;
        ensure!(!has_label().await?);
    }
    // There again as another one.
    nodes.delete("gpu-0", &DeleteParams::default()).await?;
    change_label(&client, &node, LabelChange::EndDriverChange).await?;
    ensure!(nodes.get_opt("gpu-0").await?.is_none(), "a Node was made");
    add().await?;
    change_label(&client, &node, LabelChange::EndDriverChange).await?;
    ensure!(has_label().await?, "the label of another Node went");
    Ok(())
}
