//! What the operator costs that has nothing to do, or always the same: memory, processor, requests.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use gpu_manager::api::MODULE_NAME;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use tokio::time::{MissedTickBehavior, interval};

use super::proc;
use super::release::spec;
use super::repeat::{self, ChildPeak, Cost, HISTORY};
use super::report::{Goal, Report, Row};
use super::world::World;
use crate::cluster::heartbeat;
use crate::demo::Screen;

/// Reconciles that change nothing, and as many that fail.
const FORCED: usize = 100;

/// Reconciles after which the memory is looked at again.
const RECONCILES: usize = 1000;

/// How long an operator has been at rest when its idle memory is taken.
const REST: Duration = Duration::from_secs(20);

/// Pause between two heartbeats of a node, as kubelets send them.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Resident memory at rest and after a thousand reconciles, and what these cost.
pub async fn reconciles(world: &mut World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    world.ready(&spec("mixed")).await?;
    // A new process, whose memory is that of an operator that found everything in order.
    world.stop_manager().await?;
    world.ready(&spec("mixed")).await?;
    tokio::time::sleep(REST).await;
    let pid = world.pid()?;
    let idle = proc::memory(pid)?;
    screen.progress(&format!("idle: {idle:?} KiB"));
    report.push(
        Row::new(
            "operator memory, idle (VmRSS, release build)",
            mib(idle.resident),
            "MiB",
        )
        .goal(Goal::AtMost(20.0))
        .note(format!(
            "{:.1} MiB of it are no files (RssAnon)",
            mib(idle.anonymous)
        )),
    );

    let peak = ChildPeak::watch(pid);
    let cost = repeat::unchanged(world, FORCED).await?;
    // The first reconciles of a process fill its heap.
    let warm = proc::memory(pid)?;
    screen.progress(&format!("{FORCED} that change nothing: {warm:?} KiB"));
    push_cost(report, "that change nothing", &cost, 2.0, 60.0);
    let cost = repeat::failing(world, FORCED).await?;
    screen.progress(&format!("{FORCED} that fail: {:?} KiB", proc::memory(pid)?));
    push_cost(report, "that fail", &cost, 3.0, 90.0);
    report.push(
        Row::new("helm's memory at its highest (VmHWM)", mib(peak.highest()), "MiB")
            .note("of any process that the operator started in these reconciles"),
    );
    drop(peak);

    let cost = repeat::facts(world, RECONCILES).await?;
    screen.progress(&format!(
        "{RECONCILES} of other facts: {:?} KiB",
        proc::memory(pid)?
    ));
    report.push(
        Row::new(
            format!("{RECONCILES} reconciles of other node facts: API requests each"),
            cost.requests_each(),
            "requests",
        )
        .note(format!("{} helm starts", cost.helm_starts)),
    );
    tokio::time::sleep(REST).await;
    ensure!(world.pid()? == pid, "it is another process");
    let after = proc::memory(pid)?;
    let all = RECONCILES + 2 * FORCED;
    report.push(
        Row::new(
            format!("operator memory after {all} reconciles, against {FORCED} (VmRSS)"),
            mib(after.resident),
            "MiB",
        )
        .against(mib(warm.resident))
        .goal(Goal::TimesReference(1.1))
        .note(format!(
            "of the same process; {FORCED} forced that change nothing, {FORCED} forced that fail, {RECONCILES} by a node \
             that is cordoned and uncordoned; {:.1} MiB are no files",
            mib(after.anonymous)
        )),
    );
    Ok(())
}

fn push_cost(report: &mut Report, kind: &str, cost: &Cost, helm_starts: f64, requests: f64) {
    let name = |what: &str| format!("{} reconciles {kind}: {what}", cost.reconciles);
    report.push(
        Row::new(name("release Secrets"), count(cost.secrets), "Secrets")
            .goal(Goal::AtMost(count(HISTORY)))
            .note(format!("{} revisions were made", cost.revisions)),
    );
    report.push(
        Row::new(name("helm starts each"), cost.helm_starts_each(), "starts").goal(Goal::AtMost(helm_starts)),
    );
    report.push(
        Row::new(name("API requests each"), cost.requests_each(), "requests")
            .goal(Goal::AtMost(requests))
            .note(format!("{:?}", cost.requests)),
    );
}

/// A world in which nothing changes but the heartbeats of its nodes.
pub async fn idle(
    world: &mut World,
    report: &mut Report,
    screen: &mut Screen<'_>,
    time: Duration,
) -> Result<()> {
    world.ready(&spec("single")).await?;
    let pid = world.pid()?;
    let nodes = Api::<Node>::all(world.client());
    let version = world.modules.get(MODULE_NAME).await?.resource_version();
    let (counted, before, start) = (world.count()?, proc::cpu_time(pid)?, Instant::now());
    let mut heartbeats = 0;
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while start.elapsed() < time {
        tokio::select! {
            _ = ticks.tick() => heartbeats += heartbeat(&nodes).await?,
            () = tokio::time::sleep(time.saturating_sub(start.elapsed())) => {}
        }
    }
    let (after, elapsed) = (proc::cpu_time(pid)?, start.elapsed());
    let requests = world.requests_since(&counted)?;
    let helm_starts = world.helm_starts_since(&counted)?;
    let minutes = format!("{:.0} s unchanged, Lease on", elapsed.as_secs_f64());
    screen.progress(&format!("{heartbeats} heartbeats of nodes, {requests:?}"));

    let row = |what: &str, value: usize, unit| Row::new(format!("{minutes}: {what}"), count(value), unit);
    let none = Goal::AtMost(0.0);
    report.push(
        row(
            "helm processes",
            helm_starts + usize::from(requests.helm > 0),
            "starts",
        )
        .goal(none),
    );
    report.push(row("status writes", requests.status_writes, "requests").goal(none));
    let others: usize = requests.others.values().sum();
    let written = world.modules.get(MODULE_NAME).await?.resource_version() != version;
    report.push(
        row(
            "requests but for Lease and watches",
            others + usize::from(written),
            "requests",
        )
        .goal(none)
        .note(format!("{:?}", requests.others)),
    );
    report.push(row("renewals of the Lease", requests.lease, "requests"));
    report.push(row("watches begun anew", requests.watches, "requests"));
    let spent = (after.own + after.children).saturating_sub(before.own + before.children);
    let share = spent.as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    report.push(
        Row::new(format!("{minutes}: processor, of one core"), share, "%")
            .goal(Goal::AtMost(0.05))
            .note(format!("{spent:?}, with {heartbeats} heartbeats of nodes")),
    );
    let memory = proc::memory(pid)?;
    report.push(Row::new(
        format!("{minutes}: operator memory at its end (VmRSS)"),
        mib(memory.resident),
        "MiB",
    ));
    Ok(())
}

/// A count as a figure.
pub fn count(value: usize) -> f64 {
    f64::from(u32::try_from(value).unwrap_or(u32::MAX))
}

/// KiB in MiB.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52 KiB")]
pub fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
