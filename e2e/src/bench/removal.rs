//! What a removal costs with many GPU nodes: time, requests, and how many nodes are changed at once.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::crowd;
use super::report::{Goal, Report, Row};
use super::steady::count;
use super::world::{STEP, World};
use crate::cluster::{AuditEvent, FakeNode};
use crate::demo::Screen;
use crate::wait::eventually;

/// GPU nodes beside the two that the world has.
const NODES: usize = 300;

/// Requests at once.
const AT_ONCE: usize = 16;

/// Nodes that the operator changes at once, at most.
const BOUND: f64 = 8.0;

/// Keeps Pods off the nodes: they are there to be labelled.
const TAINT: &str = "bench";

/// What a removal has cost.
struct Figures {
    seconds: f64,
    requests: f64,
    at_once: usize,
}

/// Removes the module with two GPU nodes and with many more.
pub async fn removal(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    world.ready(&json!({})).await?;
    let few = remove(world, screen).await?;
    world.ready(&json!({})).await?;
    grow(world).await?;
    let many = remove(world, screen).await;
    let nodes = Api::<Node>::all(world.client());
    let left = nodes.list(&ListParams::default()).await?.items;
    let of_crowd = left.into_iter().filter(is_of_crowd);
    stream::iter(of_crowd.map(Ok::<_, anyhow::Error>))
        .try_for_each_concurrent(AT_ONCE, async |node| {
            ensure_stripped(&node)?;
            nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
            Ok(())
        })
        .await?;
    let many = many?;
    let row = |what: &str, value: f64, unit| Row::new(format!("{NODES} GPU nodes: {what}"), value, unit);
    report.push(
        row("module deleted -> gone", many.seconds, "s")
            .against(few.seconds)
            .goal(Goal::TimesReference(2.0))
            .note("against 2 GPU nodes; Kubernetes lets a namespace stand for 5 s before it removes it"),
    );
    report.push(
        row(
            "requests of it, for each node more",
            (many.requests - few.requests) / count(NODES),
            "requests",
        )
        .goal(Goal::AtMost(2.5))
        .note("one looks for running work, one takes labels and annotations off"),
    );
    report.push(row("nodes changed at once", count(many.at_once), "requests").goal(Goal::AtMost(BOUND)));
    Ok(())
}

async fn remove(world: &World, screen: &mut Screen<'_>) -> Result<Figures> {
    let (counted, mark) = (world.count()?, world.cluster.audit().mark()?);
    let begin = Instant::now();
    world.delete_module().await?;
    let seconds = begin.elapsed().as_secs_f64();
    let requests = world.requests_since(&counted)?;
    let events = world.cluster.audit().since(mark)?;
    let figures = Figures {
        seconds,
        requests: count(requests.operator()),
        at_once: at_once(&events),
    };
    screen.progress(&format!(
        "gone after {seconds:.1} s, {} requests of the operator and {} of helm, {} nodes changed at once",
        figures.requests, requests.helm, figures.at_once
    ));
    Ok(figures)
}

/// How many of the operator's changes of nodes the API server worked on at the same time.
fn at_once(events: &[AuditEvent]) -> usize {
    let of_nodes = events.iter().filter(|event| {
        event.verb == "patch"
            && event.request_uri.starts_with("/api/v1/nodes/")
            && event.user_agent.starts_with("gpu-manager/")
    });
    let mut moments: Vec<_> = of_nodes
        .filter_map(|event| Some([(event.received.as_ref()?.0, 1), (event.answered.as_ref()?.0, -1)]))
        .flatten()
        .collect();
    // What ends at the moment at which another one begins does not run beside it.
    moments.sort_unstable();
    let (mut now, mut most) = (0_i32, 0);
    for (_, change) in moments {
        now += change;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or_default()
}

/// Adds nodes that no Pod is put onto, with the labels and annotations that NVIDIA's operator and Node Feature Discovery would set.
async fn grow(world: &World) -> Result<()> {
    let nodes = Api::<Node>::all(world.client());
    let made = (0..NODES).map(|number| {
        let nodes = nodes.clone();
        async move { add(&nodes, number).await }
    });
    stream::iter(made)
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let labelled = ListParams::default().labels("nvidia.com/gpu.present=true");
    eventually("the labels of NVIDIA's operator on all nodes", STEP, async || {
        let found = nodes.list_metadata(&labelled).await?.items.len();
        ensure!(found == NODES + 2, "{found} nodes");
        Ok(())
    })
    .await?;
    world.until_settled().await
}

async fn add(nodes: &Api<Node>, number: usize) -> Result<()> {
    let name = crowd::node_name(number);
    let node = FakeNode::with_gpus(&name, 8).taint(TAINT, "true", "NoSchedule");
    nodes.create(&PostParams::default(), &node.build()).await?;
    let features = json!({ "metadata": {
        "labels": {
            "feature.node.kubernetes.io/kernel-version.full": "6.18.38-cloud-amd64",
            "feature.node.kubernetes.io/pci-10de.present": "true",
            "feature.node.kubernetes.io/system-os_release.ID": "gardenlinux",
            "feature.node.kubernetes.io/system-os_release.VERSION_ID": "0",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        },
        "annotations": { "nfd.node.kubernetes.io/worker.version": "v0.18.0" },
    } });
    let params = PatchParams {
        field_manager: Some("nfd-master".to_owned()),
        ..PatchParams::default()
    };
    nodes.patch(&name, &params, &Patch::Merge(&features)).await?;
    Ok(())
}

fn is_of_crowd(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == TAINT)
}

fn ensure_stripped(node: &Node) -> Result<()> {
    let theirs =
        |key: &&String| key.contains("nvidia.com/") || key.contains("nfd") || key.contains("feature.node");
    let left: Vec<_> = node
        .labels()
        .keys()
        .chain(node.annotations().keys())
        .filter(theirs)
        .collect();
    ensure!(left.is_empty(), "{} still has {left:?}", node.name_any());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(node: &str, from: u32, to: u32) -> AuditEvent {
        let time = |millis: u32| format!("2026-11-30T08:00:00.{millis:03}000Z");
        serde_json::from_value(json!({
            "stage": "ResponseComplete", "verb": "patch", "requestURI": format!("/api/v1/nodes/{node}"),
            "userAgent": "gpu-manager/0.1.0", "user": {},
            "requestReceivedTimestamp": time(from), "stageTimestamp": time(to),
        }))
        .unwrap()
    }

    #[test]
    fn requests_that_follow_each_other_do_not_run_at_once() {
        assert_eq!(at_once(&[]), 0);
        assert_eq!(at_once(&[patch("a", 0, 10), patch("b", 10, 20)]), 1);
        assert_eq!(
            at_once(&[patch("a", 0, 10), patch("b", 5, 20), patch("c", 9, 11)]),
            3
        );
    }
}
