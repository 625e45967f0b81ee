//! What many GPU nodes cost the operator: time, requests, memory and the size of the status, with a few hundred and with thousands.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{CLUSTER_POLICY_NAME, GpuModule, MODULE_NAME, State};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

use super::crowd;
use super::feed::Feed;
use super::proc;
use super::report::{Goal, Report, Row, each, median};
use super::steady::{count, mib};
use super::world::{STEP, World};
use crate::demo::Screen;

/// GPU nodes with which the many are compared.
const FEW: usize = 300;

/// Many GPU nodes.
const MANY: usize = 5000;

/// How many times as many they are, rounded down.
const TIMES: f64 = 16.6;

/// Reconciles that are measured with each.
const RECONCILES: usize = 10;

/// How long every node's kubelet takes for one heartbeat of each.
const MINUTE: Duration = Duration::from_mins(1);

/// What an operator costs with so many nodes.
struct Figures {
    start: f64,
    reconcile: f64,
    reconciles: Vec<f64>,
    requests: f64,
    memory: proc::Memory,
    status: f64,
}

/// Few nodes, then many, on a control plane without controllers.
pub async fn nodes(program: PathBuf, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    let mut world = World::start_alone(program).await?;
    world.start_manager()?;
    world.apply(&json!({})).await?;
    let client = world.client();
    // NVIDIA's controller is not there to say it.
    let of_nvidia = |version, kind| {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("nvidia.com", version, kind));
        Api::<DynamicObject>::all_with(client.clone(), &kind)
    };
    world
        .until_status("the release to be deployed", |status| status.release.is_some())
        .await?;
    crowd::say_ready(&of_nvidia("v1", "ClusterPolicy"), CLUSTER_POLICY_NAME).await?;
    crowd::say_ready(&of_nvidia("v1alpha1", "NVIDIADriver"), "gardenlinux-precompiled").await?;

    crowd::grow(&client, 0, FEW).await?;
    let few = measure(&mut world, FEW, screen).await?;
    crowd::grow(&client, FEW, MANY).await?;
    let many = measure(&mut world, MANY, screen).await?;
    compare(&few, &many, report);
    beat(&world, report, screen).await?;
    world.stop_manager().await
}

async fn measure(world: &mut World, nodes: usize, screen: &mut Screen<'_>) -> Result<Figures> {
    // A new process, whose memory is not that of fewer nodes.
    world.stop_manager().await?;
    let none =
        Patch::Merge(json!({ "status": { "gpuNodes": { "total": 0, "usable": 0, "summary": "0/0" } } }));
    world
        .modules
        .patch_status(MODULE_NAME, &PatchParams::default(), &none)
        .await?;
    let mut modules = Feed::start(world.modules.clone(), "").await?;
    let total = u32::try_from(nodes)?;
    let all_usable = move |module: &GpuModule| {
        let status = module.status.as_ref();
        status.is_some_and(|status| status.state == State::Ready && status.gpu_nodes.usable == total)
    };
    let begin = Instant::now();
    world.start_manager()?;
    let what = format!("{nodes} usable nodes in the status");
    let start = modules.until(&what, begin, STEP, all_usable).await?;
    world.until_settled().await?;

    let api = Api::<Node>::all(world.client());
    let counted = world.count()?;
    let mut times = Vec::new();
    for number in 0..RECONCILES {
        let cordon = number % 2 == 0;
        let usable = if cordon { total - 1 } else { total };
        let begin = Instant::now();
        let patch = Patch::Merge(json!({ "spec": { "unschedulable": cordon } }));
        api.patch(&crowd::node_name(0), &PatchParams::default(), &patch)
            .await?;
        let seen = modules
            .until("a cordon in the status", begin, STEP, |module| {
                let status = module.status.as_ref();
                status.is_some_and(|status| status.gpu_nodes.usable == usable)
            })
            .await?;
        times.push(seen.as_secs_f64());
    }
    // The Event of the last one may be on its way still.
    world.until_settled().await?;
    let requests = world.requests_since(&counted)?;
    ensure!(requests.helm == 0, "{requests:?}");
    let status = serde_json::to_vec(&world.modules.get(MODULE_NAME).await?.status)?.len();
    let figures = Figures {
        start: start.as_secs_f64(),
        reconcile: median(&times).context("no reconcile was made")?,
        requests: count(requests.operator()) / count(RECONCILES),
        reconciles: times,
        memory: proc::memory(world.pid()?)?,
        status: count(status),
    };
    screen.progress(&format!(
        "{nodes} nodes: start {:.2} s, reconcile {:.3} s, {:?} KiB, status {status} bytes",
        figures.start, figures.reconcile, figures.memory
    ));
    Ok(figures)
}

fn compare(few: &Figures, many: &Figures, report: &mut Report) {
    let row = |what: &str, value: f64, unit| Row::new(format!("{MANY} GPU nodes: {what}"), value, unit);
    let linear = Goal::TimesReference(TIMES);
    report.push(
        row("node changed -> status", many.reconcile, "s")
            .against(few.reconcile)
            .goal(linear)
            .note(format!(
                "against {FEW} nodes; medians of {} s and {} s",
                each(&many.reconciles),
                each(&few.reconciles)
            )),
    );
    report.push(
        row("API requests of such a reconcile", many.requests, "requests")
            .against(few.requests)
            .goal(Goal::TimesReference(1.0)),
    );
    report.push(
        row("process start -> all of them in the status", many.start, "s")
            .against(few.start)
            .goal(linear),
    );
    report.push(
        row("operator memory (VmRSS)", mib(many.memory.resident), "MiB")
            .against(mib(few.memory.resident))
            .goal(Goal::AtMost(64.0))
            .note(format!(
                "{:.1} MiB at its highest, at the start; {:.1} MiB are no files",
                mib(many.memory.peak),
                mib(many.memory.anonymous)
            )),
    );
    report.push(
        row("size of the status", many.status, "bytes")
            .against(few.status)
            .goal(Goal::TimesReference(1.05)),
    );
}

/// Every kubelet sends a heartbeat within a minute.
async fn beat(world: &World, report: &mut Report, screen: &mut Screen<'_>) -> Result<()> {
    let (client, pid) = (world.client(), world.pid()?);
    let (counted, passes, cpu) = (world.count()?, world.passes()?, proc::cpu_time(pid)?);
    let begin = Instant::now();
    let seconds = usize::try_from(MINUTE.as_secs())?;
    for second in 0..seconds {
        let (from, to) = (second * MANY / seconds, (second + 1) * MANY / seconds);
        crowd::heartbeats(&client, from, to).await?;
        let next = begin + Duration::from_secs(u64::try_from(second + 1)?);
        tokio::time::sleep_until(next.into()).await;
    }
    let elapsed = begin.elapsed();
    let passes = world.passes()? - passes;
    let requests = world.requests_since(&counted)?;
    let spent = proc::cpu_time(pid)?.own.saturating_sub(cpu.own);
    screen.progress(&format!(
        "{MANY} heartbeats in {elapsed:.0?}: {passes} reconciles, {requests:?}"
    ));
    let row = |what: &str, value: f64, unit| {
        Row::new(
            format!("{MANY} heartbeats of nodes in a minute: {what}"),
            value,
            unit,
        )
    };
    let none = Goal::AtMost(0.0);
    let took = format!("took {elapsed:.1?}");
    report.push(row("reconciles", count(passes), "passes").goal(none).note(took));
    report.push(
        row(
            "API requests",
            count(requests.operator() + requests.helm),
            "requests",
        )
        .goal(none),
    );
    let share = spent.as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    report.push(row("processor, of one core", share, "%"));
    Ok(())
}
