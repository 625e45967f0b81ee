//! How long the operator takes to bring a release about, against raw helm on the same API server, in turns.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::report::{Goal, Report, Row, each, median};
use super::revisions::until_deployed;
use super::world::World;
use crate::demo::Screen;

/// Rounds of install and removal, some of half a minute.
const INSTALLS: usize = 5;

/// Rounds of upgrades.
const UPGRADES: usize = 7;

/// What the operator may take, in times of raw helm.
const GOAL: Goal = Goal::TimesReference(1.2);

/// Two specs that differ in one value.
pub fn spec(strategy: &str) -> Value {
    json!({ "values": { "mig": { "strategy": strategy } } })
}

/// GpuModule applied -> release deployed, its CRDs there.
pub async fn installs(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    let (mut operator, mut raw) = (Vec::new(), Vec::new());
    // A section before this one may have left a release.
    world.start_manager()?;
    world.delete_module().await?;
    world.stop_manager().await?;
    world.make_bare().await?;
    for round in 0..INSTALLS {
        // The one who begins has an idle machine before it, so they take turns in that too.
        if round % 2 == 0 {
            operator.push(install_by_operator(world).await?);
            raw.push(install_by_helm(world).await?);
        } else {
            raw.push(install_by_helm(world).await?);
            operator.push(install_by_operator(world).await?);
        }
        screen.progress(&format!(
            "round {}: operator {:.2} s, raw helm {:.2} s",
            round + 1,
            operator[round],
            raw[round]
        ));
    }
    report.push(compared(
        "GpuModule applied -> release deployed, CRDs there (raw: helm upgrade --install)",
        &operator,
        &raw,
    )?);
    Ok(())
}

async fn install_by_operator(world: &mut World) -> Result<f64> {
    world.start_manager_and_wait().await?;
    let mut revisions = world.revisions().await?;
    let start = Instant::now();
    world.apply(&json!({})).await?;
    let took = until_deployed(&mut revisions, start, 0).await?;
    world.ensure_crds().await?;
    world.delete_module().await?;
    world.stop_manager().await?;
    world.make_bare().await?;
    Ok(took.as_secs_f64())
}

async fn install_by_helm(world: &World) -> Result<f64> {
    let mut revisions = world.revisions().await?;
    let start = Instant::now();
    world.raw.install(&json!({})).await?;
    let took = until_deployed(&mut revisions, start, 0).await?;
    world.ensure_crds().await?;
    world.raw.uninstall().await?;
    world.make_bare().await?;
    Ok(took.as_secs_f64())
}

/// Spec changed -> new revision deployed.
pub async fn upgrades(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    let (mut operator, mut raw) = (Vec::new(), Vec::new());
    let (old, new) = (spec("single"), spec("mixed"));
    for round in 0..UPGRADES {
        world.ready(&old).await?;
        let mut revisions = world.revisions().await?;
        let (_, known) = world.release_secrets().await?;
        let start = Instant::now();
        world.apply(&new).await?;
        let took = until_deployed(&mut revisions, start, known).await?;
        operator.push(took.as_secs_f64());
        world.ready(&old).await?;

        // An operator that ran would undo what helm does by hand.
        world.stop_manager().await?;
        let (_, known) = world.release_secrets().await?;
        let start = Instant::now();
        world.raw.upgrade(&new).await?;
        let took = until_deployed(&mut revisions, start, known).await?;
        raw.push(took.as_secs_f64());
        screen.progress(&format!(
            "round {}: operator {:.2} s, raw helm {:.2} s",
            round + 1,
            operator[round],
            raw[round]
        ));
    }
    report.push(compared(
        "spec changed -> new revision deployed (raw: helm upgrade)",
        &operator,
        &raw,
    )?);
    Ok(())
}

fn compared(name: &str, operator: &[f64], raw: &[f64]) -> Result<Row> {
    let value = median(operator).context("no round was run")?;
    let reference = median(raw).context("no round was run")?;
    Ok(Row::new(name, value, "s")
        .against(reference)
        .goal(GOAL)
        .note(format!(
            "medians; operator {} s, raw helm {} s",
            each(operator),
            each(raw)
        )))
}
