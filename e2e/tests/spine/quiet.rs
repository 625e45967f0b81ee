//! An unchanged world costs nothing: no helm, no write, no request but the watches' own and the Lease's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::{Mark, heartbeat};
use e2e::demo::Workload;
use e2e::manager::{MANAGER, Manager};
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, State};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::objects::Objects;
use crate::lab::{Lab, STEP};

/// How long the world is left unchanged.
const QUIET: Duration = Duration::from_secs(20);

/// How long each state that waits for somebody is left as it is.
const LASTING: Duration = Duration::from_secs(10);

/// Pause between two heartbeats of all nodes; a kubelet sends one every ten seconds or minutes.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A time without any pass, after which an installation counts as settled.
const SETTLED: Duration = Duration::from_secs(3);

fn passes(manager: &Manager) -> usize {
    manager.process.log().matches("decided plan=").count()
}

async fn until_settled(manager: &Manager) -> Result<()> {
    eventually("no more passes", STEP, async || {
        let before = passes(manager);
        sleep(SETTLED).await;
        let more = passes(manager) - before;
        ensure!(more == 0, "{more} passes within {SETTLED:?}");
        Ok(())
    })
    .await
}

/// Requests of the operator and of its helm, by program, verb and path.
fn requests_since(lab: &Lab, start: Mark) -> Result<BTreeMap<String, usize>> {
    let account = format!("system:serviceaccount:{MANAGER}:{MANAGER}");
    let mut requests = BTreeMap::<String, usize>::new();
    for event in lab.cluster.audit().since(start)? {
        if event.user.username == account || event.user_agent.starts_with("Helm/") {
            let path = event.request_uri.split('?').next().unwrap_or_default();
            let program = event.user_agent.split('/').next().unwrap_or_default();
            *requests
                .entry(format!("{program} {} {path}", event.verb))
                .or_default() += 1;
        }
    }
    Ok(requests)
}

/// Leaves the world as it is for a while, but for heartbeats, and fails where the operator does more than hold its Lease and watch. A
/// pass is only allowed for the `looks` that the state asks for: paths, each with how often.
async fn ensure_quiet(
    lab: &Lab,
    manager: &Manager,
    state: &str,
    time: Duration,
    looks: &[(&str, usize)],
) -> Result<()> {
    until_settled(manager).await?;
    let nodes = Api::<Node>::all(lab.cluster.client());
    let version = lab.module().await?.resource_version();
    let processes = || manager.process.log().matches("process started").count();
    let (passes_before, processes_before) = (passes(manager), processes());
    let start = lab.cluster.audit().mark()?;
    let end = Instant::now() + time;
    let mut heartbeats = 0;
    while Instant::now() < end {
        heartbeats += heartbeat(&nodes).await?;
        sleep(HEARTBEAT).await;
    }

    let mut requests = requests_since(lab, start)?;
    println!("{state}, {time:?} unchanged with {heartbeats} heartbeats of nodes: {requests:#?}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{MANAGER}/leases/{MANAGER}");
    let renewals = requests.remove(&format!("gpu-manager patch {lease}"));
    ensure!(
        renewals.is_some_and(|count| count >= 1),
        "{state}: the audit log shows {renewals:?} renewals"
    );
    requests.retain(|request, count| {
        let looked = looks
            .iter()
            .any(|(path, most)| request == path && *count <= *most);
        !looked && !request.starts_with("gpu-manager watch ")
    });
    ensure!(requests.is_empty(), "{state}: {requests:#?}");
    ensure!(
        lab.module().await?.resource_version() == version,
        "{state}: the status was written"
    );
    ensure!(processes() == processes_before, "{state}: helm was started");
    let more = passes(manager) - passes_before;
    ensure!(
        more == 0 || !looks.is_empty(),
        "{state}: {more} passes by heartbeats alone"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_world_costs_nothing() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    ensure_quiet(&lab, &manager, "Ready", QUIET, &[]).await
}

/// What lasts until a person acts is as quiet as what is in order.
#[tokio::test(flavor = "multi_thread")]
async fn states_that_wait_for_somebody_cost_nothing() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    let quiet = async |state, looks| ensure_quiet(&lab, &manager, state, LASTING, looks).await;

    lab.apply(json!({ "values": { "nfd": { "enabled": false } } }))
        .await?;
    lab.until_reason(ConditionType::Configured, "OwnedValue").await?;
    quiet("refused", &[]).await?;

    lab.apply(json!({ "drift": { "mode": "Report" } })).await?;
    lab.until(State::Ready).await?;
    let objects = Objects::of(&lab).await?;
    let conf = objects.find("ConfigMap", "gpu-operator-node-feature-discovery-master-conf")?;
    let extra = json!({ "data": { "extra": "1" } });
    objects.patch(&conf, "somebody", &extra).await?;
    lab.until_reason(ConditionType::Drifted, "DriftFound").await?;
    quiet("drift reported", &[]).await?;

    lab.apply(json!({ "suspend": true })).await?;
    lab.until_reason(ConditionType::Configured, "Suspended").await?;
    quiet("suspended", &[]).await?;

    lab.apply(json!({})).await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    lab.until(State::Ready).await?;
    let work = Workload::create(lab.cluster.client(), "team").await?;
    work.start("train", "pytorch", &["train"], 1).await?;
    work.until_phase("train", &["Running"], STEP).await?;
    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    lab.until_reason(ConditionType::DriverChangePending, "WaitingForIdle")
        .await?;
    // The Pods on the two GPU nodes are looked at every 30 s.
    quiet("a driver change waits", &[("gpu-manager list /api/v1/pods", 2)]).await
}
