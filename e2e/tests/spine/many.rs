//! Three hundred GPU nodes, with what NVIDIA's operator and kubelets do on them simulated.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::FakeNode;
use e2e::wait::eventually;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gpu_manager::api::{ConditionType, GpuModuleStatus, State};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use crate::lab::{Lab, message, reason};

/// Nodes of each of the three pools.
const EACH: usize = 100;

/// How long three hundred nodes with their Pods may take on a small machine.
const DEADLINE: Duration = Duration::from_mins(8);

/// Requests at once.
const AT_ONCE: usize = 16;

/// Most bytes of a status with three pools, one of them with a problem; it does not grow with the nodes.
const STATUS: usize = 10_000;

/// A kernel that no driver image is made for.
const NEW_KERNEL: &str = "6.18.99-cloud-amd64";

fn names(pool: &'static str) -> impl Iterator<Item = String> {
    (0..EACH).map(move |number| format!("{pool}-{number:03}"))
}

impl Lab {
    async fn until_many(
        &self,
        what: &str,
        condition: impl Fn(&GpuModuleStatus) -> bool,
    ) -> Result<GpuModuleStatus> {
        let found = eventually(what, DEADLINE, async || {
            let status = self.module().await?.status.context("no status")?;
            ensure!(condition(&status), "{status:#?}");
            Ok(status)
        });
        found.await.with_context(|| self.logs())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_nodes_are_told_of_in_few_words() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.nvidia.set_faults(|faults| {
        faults.missing_images = BTreeSet::from([NEW_KERNEL.to_owned()]);
    });
    let pools = ["a", "b", "newer"];
    let nodes = pools.into_iter().flat_map(|pool| {
        names(pool).map(move |name| {
            let node = FakeNode::with_gpus(&name, 1).pool(pool);
            if pool == "newer" {
                node.kernel(NEW_KERNEL)
            } else {
                node
            }
        })
    });
    let nodes: Vec<_> = nodes.collect();
    stream::iter(nodes.iter().map(|node| lab.cluster.create_node(node)))
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await?;

    let status = lab
        .until_many("two of three pools and what is wrong with the third", |status| {
            status.gpu_nodes.summary == "202/302"
                && reason(status, ConditionType::OperandsReady) == "DriverImageMissing"
                && status.worker_pools.iter().any(|pool| {
                    pool.problems
                        .first()
                        .is_some_and(|problem| problem.nodes == 100 && problem.names.len() == 3)
                })
        })
        .await?;
    ensure!(status.state == State::Warning, "{status:#?}");
    let told = message(&status, ConditionType::OperandsReady);
    ensure!(
        told.contains("newer-000") && !told.contains("newer-050"),
        "{told}"
    );
    let bytes = serde_json::to_vec(&status)?.len();
    println!(
        "302 nodes in {} pools: a status of {bytes} bytes",
        status.worker_pools.len()
    );
    ensure!(bytes < STATUS, "a status of {bytes} bytes");

    // The images come, and everything is good.
    lab.nvidia.heal();
    lab.until_many("all nodes", |status| {
        status.state == State::Ready && status.gpu_nodes.summary == "302/302"
    })
    .await?;

    // A pool is scaled down while the spec changes: neither gets in the way of the other.
    let api = Api::<Node>::all(lab.cluster.client());
    let deleted = names("newer").map(|name| {
        let api = api.clone();
        async move { api.delete(&name, &DeleteParams::default()).await.map(drop) }
    });
    let deleted = stream::iter(deleted)
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |()| Ok(()));
    let changed = lab.apply(json!({ "mig": { "strategy": "Mixed" } }));
    let (deleted, changed) = tokio::join!(deleted, changed);
    deleted?;
    changed?;
    lab.until_many("the pools that are left", |status| {
        status.state == State::Ready && status.gpu_nodes.summary == "202/202"
    })
    .await?;
    lab.until_revision(2).await
}
