//! An unchanged world costs nothing: no helm, no write, no request but the watches' own and the Lease's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::cluster::heartbeat;
use e2e::manager::{MANAGER, Manager};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep};

use crate::lab::{Lab, STEP};

/// How long the world is left unchanged.
const QUIET: Duration = Duration::from_secs(20);

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

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_world_costs_nothing() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    until_settled(&manager).await?;

    let nodes = Api::<Node>::all(lab.cluster.client());
    let version = lab.module().await?.resource_version();
    let processes = || manager.process.log().matches("process started").count();
    let (passes_before, processes_before) = (passes(&manager), processes());
    let start = lab.cluster.audit().mark()?;
    let end = Instant::now() + QUIET;
    let mut heartbeats = 0;
    while Instant::now() < end {
        heartbeats += heartbeat(&nodes).await?;
        sleep(HEARTBEAT).await;
    }

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
    println!("{QUIET:?} unchanged with {heartbeats} heartbeats of nodes: {requests:#?}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{MANAGER}/leases/{MANAGER}");
    let others: Vec<_> = requests
        .keys()
        .filter(|request| **request != format!("gpu-manager patch {lease}"))
        .filter(|request| !request.starts_with("gpu-manager watch "))
        .collect();
    ensure!(others.is_empty(), "{others:#?}");
    let renewals = requests.get(&format!("gpu-manager patch {lease}"));
    ensure!(
        renewals.is_some_and(|count| *count >= 3),
        "the audit log shows {renewals:?} renewals"
    );
    ensure!(
        lab.module().await?.resource_version() == version,
        "the status was written"
    );
    ensure!(processes() == processes_before, "helm was started");
    let more = passes(&manager) - passes_before;
    ensure!(more == 0, "{more} passes by heartbeats alone");
    Ok(())
}
