//! The local cluster itself: does it behave like a cluster, and is it gone afterwards?

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{Cluster, FakeNode, HOLD, Options, client_for};
use e2e::wait::eventually;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn object<T: DeserializeOwned>(value: Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}

fn workload(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": { "labels": { "app": name }, "annotations": annotations },
        "spec": { "containers": [{ "name": "main", "image": "registry.example/none:1" }] },
    })
}

fn daemon_set(name: &str, annotations: &Value) -> Result<DaemonSet> {
    object(json!({
        "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": { "app": name } }, "template": workload(name, annotations) },
    }))
}

async fn ready_nodes(cluster: &Cluster, count: usize) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    eventually(&format!("{count} Ready nodes"), SOON, async || {
        let list = nodes.list(&ListParams::default()).await?.items;
        let ready = list.iter().filter(|node| is_ready(node)).count();
        ensure!(ready == count, "{ready} of {} are Ready", list.len());
        Ok(())
    })
    .await
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

async fn daemon_set_shows(cluster: &Cluster, name: &str, desired: i32, ready: i32) -> Result<()> {
    let sets: Api<DaemonSet> = Api::default_namespaced(cluster.client());
    let what = format!("{ready} of {desired} Pods of the DaemonSet {name} to be ready");
    eventually(&what, SOON, async || {
        let status = sets.get(name).await?.status.context("no status")?;
        let seen = (
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_ready,
        );
        ensure!(
            seen == (desired, desired, ready),
            "(desired, current, ready) is {seen:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_full_cluster_behaves_like_one() -> Result<()> {
    let started = Instant::now();
    let cluster = Cluster::start(Options::full()).await?;
    println!("the full cluster was ready after {:?}", started.elapsed());
    let nodes = [
        FakeNode::new("cpu-0"),
        FakeNode::with_gpus("gpu-0", 1),
        FakeNode::with_gpus("gpu-1", 2),
    ];
    for node in &nodes {
        cluster.create_node(node).await?;
    }
    ready_nodes(&cluster, 3).await?;
    println!("three nodes were Ready after {:?}", started.elapsed());

    a_node_keeps_what_it_reports(&cluster).await?;
    workloads_run(&cluster).await?;
    a_held_pod_waits(&cluster).await?;
    a_deleted_node_takes_its_pods_along(&cluster).await?;
    println!("everything was done after {:?}", started.elapsed());
    Ok(())
}

/// What the simulated operator patches onto a node must survive KWOK's heartbeats.
async fn a_node_keeps_what_it_reports(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let gpus = json!({ "status": { "capacity": { "nvidia.com/gpu": "2" }, "allocatable": { "nvidia.com/gpu": "2" } } });
    nodes
        .patch_status("gpu-1", &PatchParams::default(), &Patch::Merge(gpus))
        .await?;
    // Not Ready makes KWOK go through its first stage again, which writes the whole status.
    let not_ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    nodes
        .patch_status("gpu-1", &PatchParams::default(), &Patch::Strategic(not_ready))
        .await?;
    ready_nodes(cluster, 3).await?;

    let status = nodes.get("gpu-1").await?.status.context("no status")?;
    for resources in [status.capacity, status.allocatable] {
        let resources = resources.context("no resources")?;
        assert_eq!(resources["nvidia.com/gpu"].0, "2");
        assert_eq!(resources["cpu"].0, "8");
    }
    let info = status.node_info.context("no node info")?;
    assert_eq!(info.os_image, "Garden Linux 1877.13");
    assert_eq!(info.kernel_version, "6.12.47-cloud-amd64");
    assert_eq!(info.container_runtime_version, "containerd://2.1.4");
    Ok(())
}

async fn workloads_run(cluster: &Cluster) -> Result<()> {
    let post = PostParams::default();
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": workload("web", &json!({})) },
    });
    deployments.create(&post, &object(deployment)?).await?;
    let sets: Api<DaemonSet> = Api::default_namespaced(cluster.client());
    sets.create(&post, &daemon_set("agent", &json!({}))?).await?;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let mut template = workload("once", &json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    jobs.create(
        &post,
        &object(json!({ "metadata": { "name": "once" }, "spec": { "template": template } }))?,
    )
    .await?;

    eventually("the Deployment to be available", SOON, async || {
        let status = deployments.get("web").await?.status.context("no status")?;
        ensure!(
            status.available_replicas == Some(2),
            "available: {:?}",
            status.available_replicas
        );
        Ok(())
    })
    .await?;
    daemon_set_shows(cluster, "agent", 3, 3).await?;
    eventually("the Job to succeed", SOON, async || {
        let status = jobs.get("once").await?.status.context("no status")?;
        ensure!(status.succeeded == Some(1), "succeeded: {:?}", status.succeeded);
        Ok(())
    })
    .await?;
    let table = cluster.kubectl(&["get", "pods", "-o", "name"]).await?;
    assert_eq!(table.lines().count(), 6, "{table}");
    Ok(())
}

/// A held Pod stays as it is, can be shown as failing, and becomes Ready without the hold.
async fn a_held_pod_waits(cluster: &Cluster) -> Result<()> {
    let sets: Api<DaemonSet> = Api::default_namespaced(cluster.client());
    sets.create(
        &PostParams::default(),
        &daemon_set("held", &json!({ HOLD: "test" }))?,
    )
    .await?;
    daemon_set_shows(cluster, "held", 3, 0).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let held = pods.list(&ListParams::default().labels("app=held")).await?.items;
    for pod in &held {
        let name = pod.metadata.name.as_deref().context("a Pod without a name")?;
        let failing = json!({ "status": { "phase": "Running", "containerStatuses": [{
            "name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        }] } });
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(failing))
            .await?;
    }
    // An unheld Pod that is created now becomes Ready while the held ones do not: KWOK has had its chance.
    sets.create(&PostParams::default(), &daemon_set("unheld", &json!({}))?)
        .await?;
    daemon_set_shows(cluster, "unheld", 3, 3).await?;
    daemon_set_shows(cluster, "held", 3, 0).await?;
    for pod in &held {
        let name = pod.metadata.name.as_deref().context("a Pod without a name")?;
        let free = json!({ "metadata": { "annotations": { HOLD: null } } });
        pods.patch(name, &PatchParams::default(), &Patch::Merge(free))
            .await?;
    }
    daemon_set_shows(cluster, "held", 3, 3).await
}

async fn a_deleted_node_takes_its_pods_along(cluster: &Cluster) -> Result<()> {
    cluster.delete_node("gpu-1").await?;
    let started = Instant::now();
    daemon_set_shows(cluster, "agent", 2, 2).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    eventually("no Pod on the deleted node", Duration::from_mins(2), async || {
        let left = pods
            .list(&ListParams::default().fields("spec.nodeName=gpu-1"))
            .await?
            .items
            .len();
        ensure!(left == 0, "{left} Pods");
        Ok(())
    })
    .await?;
    println!("the deleted node's Pods were gone after {:?}", started.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_service_account_has_only_its_rights() -> Result<()> {
    let cluster = Cluster::start(Options {
        controllers: true,
        ..Options::default()
    })
    .await?;
    cluster.kubectl(&["create", "serviceaccount", "reader"]).await?;
    let role = ["create", "role", "reader", "--verb=list", "--resource=pods"];
    cluster.kubectl(&role).await?;
    let binding = [
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        "--serviceaccount=default:reader",
    ];
    cluster.kubectl(&binding).await?;

    let kubeconfig = cluster
        .kubeconfig_for_service_account("default", "reader")
        .await?;
    let client = client_for(&kubeconfig).await?;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.list(&ListParams::default()).await?;
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let refused = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );

    let refused = cluster
        .kubectl(&["get", "nothing"])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("the server doesn't have a resource type"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn requests_are_counted_and_a_restart_keeps_the_data() -> Result<()> {
    let started = Instant::now();
    let cluster = Cluster::start(Options::api_server_only()).await?;
    println!("the API server was ready after {:?}", started.elapsed());
    cluster.create_node(&FakeNode::new("cpu-0")).await?;

    let mark = cluster.audit().mark()?;
    let tools = cluster.tools();
    let output = tokio::process::Command::new(tools.path(e2e::tools::Tool::Helm))
        .args(["list", "--all-namespaces"])
        .env_clear()
        .env("HOME", cluster.dir())
        .env("KUBECONFIG", cluster.kubeconfig())
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let counts = eventually("helm's requests in the audit log", SOON, async || {
        let counts = cluster.audit().count_by_agent(mark)?;
        ensure!(counts.get("Helm/4.3.1") == Some(&2), "{counts:?}");
        Ok(counts)
    })
    .await?;
    assert!(!counts.contains_key("kubectl/v1.36.3"), "{counts:?}");
    let events = cluster.audit().since(mark)?;
    let list = events
        .iter()
        .find(|event| event.request_uri.starts_with("/api/v1/secrets"))
        .unwrap();
    assert_eq!(
        (list.verb.as_str(), list.user.username.as_str()),
        ("list", "admin")
    );

    let nodes: Api<Node> = Api::all(cluster.client());
    cluster.stop_api_server();
    nodes.get("cpu-0").await.unwrap_err();
    cluster.start_api_server().await?;
    nodes.get("cpu-0").await?;
    nodes.delete("cpu-0", &DeleteParams::default()).await?;

    let dir = cluster.dir().to_owned();
    drop(cluster);
    assert!(!dir.exists());
    Ok(())
}
