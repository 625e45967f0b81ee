//! The demo's path: an empty spec becomes a running release, a user's Pod gets a GPU, and all of it goes again.

mod checks;
mod events;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{FINALIZER, RELEASE_NAMESPACE, State};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::lab::Lab;

/// How long the scheduler and KWOK may take for a Pod.
const SOON: Duration = Duration::from_secs(30);

/// The namespace of somebody who uses GPUs.
const TEAM: &str = "team-a";

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_spec_becomes_a_release_and_goes_again() -> Result<()> {
    let lab = Lab::start().await?;
    let start = lab.cluster.audit().mark()?;
    let statuses = events::Statuses::record(&lab).await?;
    let manager = lab.manager().await?;
    lab.apply(json!({})).await?;
    let status = lab.until(State::Ready).await?;

    checks::status(&status)?;
    checks::release(&lab, &status).await?;
    checks::surroundings(&lab).await?;
    checks::crds(&lab).await?;
    checks::nothing_is_left_on_disk(&lab)?;
    checks::servers(&manager).await?;
    statuses.each_change_has_its_event(&lab).await?;
    let module = lab.module().await?;
    ensure!(module.finalizers() == [FINALIZER], "{:?}", module.finalizers());
    let table = lab.cluster.kubectl(&["get", "gpumodule"]).await?;
    let row: Vec<_> = table
        .lines()
        .nth(1)
        .context("no row")?
        .split_whitespace()
        .collect();
    ensure!(row[..4] == ["default", "Ready", "26.7.0", "2/2"], "{table}");

    a_pod_gets_a_gpu(&lab).await?;

    lab.delete().await?;
    nothing_of_the_release_is_left(&lab).await?;
    let log = manager.process.log();
    let troubles: Vec<_> = log
        .lines()
        .filter(|line| [" WARN ", " ERROR "].iter().any(|level| line.contains(level)))
        .collect();
    ensure!(troubles.is_empty(), "{troubles:#?}");
    checks::rights_were_enough(&lab, start)
}

/// Where NVIDIA's charts cannot be had, the stand-in takes their place in all other tests.
#[tokio::test(flavor = "multi_thread")]
async fn the_stand_in_chart_does_as_well() -> Result<()> {
    let lab = Lab::with_stand_in().await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(status.gpu_nodes.summary == "2/2", "{status:?}");
    lab.apply(json!({})).await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    checks::crds(&lab).await
}

/// A Pod that asks for `gpus`.
fn gpu_pod(name: &str, gpus: u32) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "tolerations": [{ "key": "nvidia.com/gpu", "operator": "Exists" }],
            "containers": [{
                "name": "cuda",
                "image": "registry.example/cuda-sample",
                "resources": { "limits": { "nvidia.com/gpu": gpus.to_string() } },
            }],
        },
    }))?)
}

async fn a_pod_gets_a_gpu(lab: &Lab) -> Result<()> {
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    let team = serde_json::from_value(json!({ "metadata": { "name": TEAM } }))?;
    namespaces.create(&PostParams::default(), &team).await?;
    let pods = Api::<Pod>::namespaced(lab.cluster.client(), TEAM);
    eventually("Pods in a user's namespace", SOON, async || {
        pods.create(&PostParams::default(), &gpu_pod("one", 1)?).await?;
        Ok(())
    })
    .await?;
    pods.create(&PostParams::default(), &gpu_pod("many", 5)?).await?;
    eventually("a Pod on a GPU node and one that waits", SOON, async || {
        let (one, many) = (pods.get("one").await?, pods.get("many").await?);
        let node = one.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let seen = format!("{node:?} {:?} {:?}", phase(&one), phase(&many));
        ensure!(node.is_some_and(|name| name.starts_with("gpu-")), seen.clone());
        ensure!(phase(&one).as_deref() == Some("Running"), seen.clone());
        let conditions = many
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let unschedulable = conditions
            .iter()
            .any(|condition| condition.reason.as_deref() == Some("Unschedulable"));
        ensure!(unschedulable, seen);
        Ok(())
    })
    .await?;
    // While it runs, it would hold the deletion that comes next.
    pods.delete("one", &DeleteParams::default()).await?;
    eventually("the Pod to be gone", SOON, async || {
        ensure!(pods.get_opt("one").await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

/// Looked at just when the GpuModule is gone, so the finalizer went last.
async fn nothing_of_the_release_is_left(lab: &Lab) -> Result<()> {
    let history = lab.history().await?;
    ensure!(history.is_empty(), "{history:?}");
    let sets = Api::<DaemonSet>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let sets = sets.list(&ListParams::default()).await?.items;
    let names: Vec<_> = sets.iter().map(kube::ResourceExt::name_any).collect();
    ensure!(names.is_empty(), "{names:?}");
    ensure!(lab.cluster_policy().await.is_err(), "the ClusterPolicy is there");
    ensure!(lab.nvidia_driver().await.is_err(), "the NVIDIADriver is there");
    let list = lab.helm(&["list", "--all-namespaces", "--short"]).await?;
    ensure!(list.trim().is_empty(), "{list}");
    let nodes = Api::<Node>::all(lab.cluster.client());
    eventually("the nodes to offer no GPU any more", SOON, async || {
        for node in nodes.list(&ListParams::default()).await? {
            let name = node.name_any();
            let allocatable = node
                .status
                .and_then(|status| status.allocatable)
                .unwrap_or_default();
            let gpus = allocatable
                .get("nvidia.com/gpu")
                .map_or("0", |count| count.0.as_str());
            ensure!(gpus == "0", "{name}: {gpus}");
        }
        Ok(())
    })
    .await
}
