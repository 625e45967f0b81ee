//! Measures the operator on a local cluster: `make bench`. docs/contributor/bench.md says what each row means.
//!
//! Each section brings about the world that it needs, measures, and adds its rows; one that cannot is said to have
//! failed, and the next one begins. Times are compared with those of raw helm in the same run, since machines differ.

mod bare;
mod crowd;
mod feed;
mod many;
mod moments;
mod proc;
mod raw_helm;
mod release;
mod removal;
pub mod repeat;
mod report;
mod requests;
mod revisions;
mod steady;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

pub use repeat::HISTORY;
pub use report::{Goal, Report, Row};
pub use requests::Requests;
pub use world::World;

use crate::charts::Origin;
use crate::demo::Screen;

/// Longest time of a section besides the time at rest; a few minutes are usual.
const SECTION_DEADLINE: Duration = Duration::from_mins(30);

/// A part of the measurements that can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Section {
    /// GpuModule applied -> release deployed.
    Install,
    /// Spec changed -> new revision.
    Upgrade,
    /// Process started -> first status.
    Start,
    /// Deployment deleted -> back.
    Drift,
    /// Memory and the cost of reconciles.
    Reconciles,
    /// GpuModule deleted -> gone, with hundreds of GPU nodes.
    Removal,
    /// Thousands of GPU nodes.
    Nodes,
    /// An unchanged world.
    Idle,
}

impl Section {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 8] = [
        Self::Install,
        Self::Upgrade,
        Self::Start,
        Self::Drift,
        Self::Reconciles,
        Self::Removal,
        Self::Nodes,
        Self::Idle,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Install => "Install, the operator and raw helm in turns",
            Self::Upgrade => "Upgrade, the operator and raw helm in turns",
            Self::Start => "Start of the process",
            Self::Drift => "A deleted Deployment",
            Self::Reconciles => "Reconciles: cost and memory",
            Self::Removal => "A removal with hundreds of GPU nodes",
            Self::Nodes => "Thousands of GPU nodes, on a control plane of their own",
            Self::Idle => "An unchanged world",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// These sections.
    pub sections: Vec<Section>,
    /// How long the unchanged world is looked at.
    pub idle: Duration,
}

/// Measures on a cluster of its own. `program` is the operator's binary.
pub async fn run(program: PathBuf, options: &Options, screen: &mut Screen<'_>) -> Result<Report> {
    screen.phase("Start a local cluster");
    let mut world = World::start(program.clone()).await?;
    if world.chart_origin() == Origin::StandIn {
        screen.say("NVIDIA'S CHART IS NOT THERE: THE FIGURES ARE THOSE OF A SMALL STAND-IN");
    }
    let mut report = Report::default();
    for section in &options.sections {
        screen.phase(section.title());
        let limit = SECTION_DEADLINE + options.idle;
        let measured = async {
            let place = (&mut world, program.clone());
            let measured = measure(*section, place, &mut report, screen, options.idle);
            tokio::time::timeout(limit, measured)
                .await
                .with_context(|| format!("took longer than {limit:?}"))?
        };
        if let Err(error) = measured.await {
            screen.progress(&format!("FAILED: {error:#}"));
            report.push(Row::unmeasured(section.title(), format!("{error:#}")));
        }
    }
    screen.phase("Stop everything");
    world.stop_manager().await?;
    Ok(report)
}

async fn measure(
    section: Section,
    (world, program): (&mut World, PathBuf),
    report: &mut Report,
    screen: &mut Screen<'_>,
    idle: Duration,
) -> Result<()> {
    match section {
        Section::Install => release::installs(world, report, screen).await,
        Section::Upgrade => release::upgrades(world, report, screen).await,
        Section::Start => moments::starts(world, report, screen).await,
        Section::Drift => moments::drift(world, report, screen).await,
        Section::Reconciles => steady::reconciles(world, report, screen).await,
        Section::Removal => Box::pin(removal::removal(world, report, screen)).await,
        Section::Nodes => {
            // Two operators would share the machine.
            world.stop_manager().await?;
            Box::pin(many::nodes(program, report, screen)).await
        }
        Section::Idle => steady::idle(world, report, screen, idle).await,
    }
}
