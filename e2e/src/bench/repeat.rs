//! What reconciles cost that change nothing, that fail, and that only see other facts; and what they leave behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{Outcome, State};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;

use super::feed::Feed;
use super::proc;
use super::release::spec;
use super::requests::Requests;
use super::world::{STEP, World};

/// Revisions that Helm keeps, each in a Secret.
pub const HISTORY: usize = 5;

/// The node that is cordoned and uncordoned.
const NODE: &str = "gpu-0";

/// Pause between two looks at helm's memory, of which the highest figure is kept by the kernel.
const LOOK: Duration = Duration::from_millis(20);

/// What many reconciles of one kind have cost together.
#[derive(Clone, Debug)]
pub struct Cost {
    /// How many they were.
    pub reconciles: usize,
    /// Starts of helm.
    pub helm_starts: usize,
    /// Requests of the operator and of its helm.
    pub requests: Requests,
    /// Release Secrets afterwards.
    pub secrets: usize,
    /// Revisions that were made.
    pub revisions: u32,
}

impl Cost {
    /// Starts of helm for each.
    pub fn helm_starts_each(&self) -> f64 {
        each(self.helm_starts, self.reconciles)
    }

    /// Requests for each, of the operator and of helm together.
    pub fn requests_each(&self) -> f64 {
        each(self.requests.operator() + self.requests.helm, self.reconciles)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn each(all: usize, reconciles: usize) -> f64 {
    all as f64 / reconciles as f64
}

/// Forced reconciles of a world in which nothing has to be done.
pub async fn unchanged(world: &mut World, reconciles: usize) -> Result<Cost> {
    world.ready(&spec("single")).await?;
    let mut modules = Feed::start(world.modules.clone(), "").await?;
    measured(world, "unchanged", reconciles, async |world, value| {
        let start = Instant::now();
        world.force(&value).await?;
        let handled = modules.until("a forced reconcile", start, STEP, |module| {
            let status = module.status.as_ref();
            status.is_some_and(|status| status.last_handled_reconcile_at.as_deref() == Some(&value))
        });
        handled.await.map(drop)
    })
    .await
}

/// Forced reconciles of a spec with a value that the API server refuses, on a running release.
pub async fn failing(world: &mut World, reconciles: usize) -> Result<Cost> {
    world.ready(&spec("single")).await?;
    world.apply(&spec("bogus")).await?;
    world
        .until_status("the first failure", |status| status.state == State::Error)
        .await?;
    let mut modules = Feed::start(world.modules.clone(), "").await?;
    let cost = measured(world, "failing", reconciles, async |world, value| {
        let start = Instant::now();
        world.force(&value).await?;
        let failed = modules.until("a forced failure", start, STEP, |module| {
            module.status.as_ref().is_some_and(|status| {
                let newest = status.history.first().map(|operation| operation.outcome);
                status.last_handled_reconcile_at.as_deref() == Some(&value)
                    && status.state == State::Error
                    && newest == Some(Outcome::Failed)
            })
        });
        failed.await.map(drop)
    })
    .await?;
    world.ready(&spec("single")).await?;
    Ok(cost)
}

/// Reconciles that see other facts of a node, each of which changes the status.
pub async fn facts(world: &mut World, reconciles: usize) -> Result<Cost> {
    world.ready(&spec("single")).await?;
    let nodes = Api::<Node>::all(world.client());
    let mut modules = Feed::start(world.modules.clone(), "").await?;
    let cost = measured(world, "facts", reconciles, async |_, value| {
        // Values are numbered from 0: the first one cordons.
        let cordon = value.bytes().last().is_some_and(|digit| digit % 2 == 0);
        let usable = if cordon { 1 } else { 2 };
        let start = Instant::now();
        let patch = Patch::Merge(json!({ "spec": { "unschedulable": cordon } }));
        nodes.patch(NODE, &PatchParams::default(), &patch).await?;
        let seen = modules.until("other facts in the status", start, STEP, |module| {
            let status = module.status.as_ref();
            status.is_some_and(|status| status.gpu_nodes.usable == usable)
        });
        seen.await.map(drop)
    })
    .await?;
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": false } }));
    nodes.patch(NODE, &PatchParams::default(), &patch).await?;
    world.ready(&spec("single")).await?;
    Ok(cost)
}

/// Makes reconciles one after the other, each with a value of its own, and counts what they cost.
async fn measured(
    world: &World,
    kind: &str,
    reconciles: usize,
    mut reconcile: impl AsyncFnMut(&World, String) -> Result<()>,
) -> Result<Cost> {
    ensure!(reconciles > 0, "nothing to count");
    let (_, before) = world.release_secrets().await?;
    let count = world.count()?;
    for number in 0..reconciles {
        let made = reconcile(world, format!("{kind}-{number}")).await;
        made.with_context(|| format!("reconcile {number} of {reconciles}"))?;
    }
    let (secrets, after) = world.release_secrets().await?;
    Ok(Cost {
        reconciles,
        helm_starts: world.helm_starts_since(&count)?,
        requests: world.requests_since(&count)?,
        secrets,
        revisions: after - before,
    })
}

/// The highest memory that any child of a process ever had, in KiB, from the start of the watch on.
pub struct ChildPeak {
    highest: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl ChildPeak {
    /// Begins to look at the children of a process.
    pub fn watch(pid: u32) -> Self {
        let highest = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&highest);
        let task = tokio::spawn(async move {
            loop {
                for child in proc::children(pid).unwrap_or_default() {
                    if let Ok(memory) = proc::memory(child) {
                        seen.fetch_max(memory.peak, Ordering::Relaxed);
                    }
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { highest, task }
    }

    /// The highest figure so far; 0 where no child was seen.
    pub fn highest(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }
}

impl Drop for ChildPeak {
    fn drop(&mut self) {
        self.task.abort();
    }
}
