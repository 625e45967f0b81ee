//! How long the operator takes to begin, and to put back what somebody deleted.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use gpu_manager::api::{MODULE_NAME, RELEASE_NAMESPACE, STACK_DEPLOYMENT};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::feed::Feed;
use super::release::spec;
use super::report::{Goal, Report, Row, each, median};
use super::world::{STEP, World};
use crate::demo::Screen;

/// Rounds of each.
const ROUNDS: usize = 5;

/// Until then a deleted Deployment should be back by all means.
const DRIFT_DEADLINE: Duration = Duration::from_secs(15);

/// Process started -> first status written, of a GpuModule whose release is deployed and whose status is not there.
pub async fn starts(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    world.ready(&spec("single")).await?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        world.stop_manager().await?;
        let none = json!({ "status": null });
        world
            .modules
            .patch_status(MODULE_NAME, &PatchParams::default(), &Patch::Merge(&none))
            .await?;
        let mut modules = Feed::start(world.modules.clone(), "").await?;
        let start = Instant::now();
        world.start_manager()?;
        let what = "the first status";
        let took = modules
            .until(what, start, STEP, |module| module.status.is_some())
            .await?;
        times.push(took.as_secs_f64());
        screen.progress(&format!("round {}: {:.2} s", round + 1, times[round]));
    }
    let value = median(&times).context("no round was run")?;
    let note = format!("median of {} s", each(&times));
    report.push(
        Row::new("process start -> first status", value, "s")
            .goal(Goal::AtMost(1.0))
            .note(note),
    );
    Ok(())
}

/// Deployment of NVIDIA's controller deleted -> there again.
pub async fn drift(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    world.ready(&spec("single")).await?;
    let deployments = Api::<PartialObjectMeta<Deployment>>::namespaced(world.client(), RELEASE_NAMESPACE);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let old = deployments.get_metadata(STACK_DEPLOYMENT).await?.uid();
        let mut feed = Feed::start(deployments.clone(), "").await?;
        let start = Instant::now();
        deployments
            .delete(STACK_DEPLOYMENT, &DeleteParams::default())
            .await?;
        let what = "the Deployment to be back";
        let back = feed.until(what, start, DRIFT_DEADLINE, |found| {
            found.name_any() == STACK_DEPLOYMENT && found.uid() != old
        });
        let Ok(took) = back.await else {
            screen.progress(&format!("round {}: not back after {DRIFT_DEADLINE:?}", round + 1));
            times.push(DRIFT_DEADLINE.as_secs_f64());
            break;
        };
        times.push(took.as_secs_f64());
        screen.progress(&format!("round {}: {:.2} s", round + 1, times[round]));
        world.until_settled().await?;
    }
    let value = median(&times).context("no round was run")?;
    let name = "Deployment deleted -> back";
    let row = Row::new(name, value, "s").goal(Goal::AtMost(2.0));
    let is_back = value < DRIFT_DEADLINE.as_secs_f64();
    report.push(row.note(if is_back {
        format!("median of {} s", each(&times))
    } else {
        format!("not back within {DRIFT_DEADLINE:?}")
    }));
    if !is_back {
        // A new revision brings it back for what is measured next.
        world.ready(&spec("mixed")).await?;
    }
    Ok(())
}
