//! The life of the operator process: open everything, wait for the Lease, reconcile, and end in the right order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::act::{Actor, ChartFolder};
use crate::admin::Server;
use crate::api::GpuModule;
use crate::catalogue::Catalogue;
use crate::config::RunArgs;
use crate::contact::{self, Contacts, Resource, SILENCE_LIMIT};
use crate::controller;
use crate::helm::{self, Helm, Interrupter};
use crate::kube_api::ApiError;
use crate::lease::{self, Leadership, LeaseHandle, Timing};
use crate::metrics::Metrics;
use crate::observe::{self, Views};
use crate::publish::Publisher;
use crate::reconcile::{Context, now};

/// How long a rollback or uninstall may go on after SIGTERM; the Pod's grace period is 120 s.
const DRAIN_LIMIT: Duration = Duration::from_secs(100);

/// How often a cluster that does not answer at the start is asked again.
const START_RETRY: Duration = Duration::from_secs(5);

/// How long a helm process of an earlier operator may go on before the first pass: longer than any hook.
const LEFT_OVER_LIMIT: Duration = Duration::from_mins(3);

/// Why the process ends.
enum End {
    Signal,
    LeaseLost(Instant),
}

/// Runs the operator until a signal. Fails where waiting cannot help, and when the Lease is lost.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let catalogue = match &args.catalogue_dir {
        Some(folder) => Catalogue::from_folder(folder)?,
        None => Catalogue::compiled_in()?,
    };
    let (interrupter, interrupt) = helm::interrupt();
    let helm = Helm::open(
        helm::Settings {
            binary: args.helm_binary()?,
            work_dir: args.work_dir.clone(),
            api: args.api_access()?,
            environment: args.helm_environment(),
        },
        interrupt,
    )
    .await?;
    let metrics = Metrics::new();
    let contacts = Contacts::new(metrics.api_requests());
    let client = contact::client(cluster(&args).await?, &contacts)?;
    let identity = args.identity();

    let stop = CancellationToken::new();
    let tracker = TaskTracker::new();
    let live = {
        let contacts = contacts.clone();
        move || silence(&contacts)
    };
    let health = Server::health(args.health_address, live, || Ok(())).await?;
    let metrics_server = Server::metrics(args.metrics_address, metrics.clone()).await?;
    let servers = CancellationToken::new();
    tracker.spawn(health.serve(servers.clone()));
    tracker.spawn(metrics_server.serve(servers.clone()));

    let mut ends = signals()?;
    let timing = Timing::for_duration(Duration::from_secs(args.lease_duration));
    let (mut leadership, lease) = lease::spawn(client.clone(), &args.namespace, &identity, timing, now);
    let leads = tokio::select! {
        leads = wait_for_lease(&mut leadership) => leads,
        _ = ends.recv() => false,
    };
    if !leads {
        return end_waiting(lease, &servers, &tracker).await;
    }
    metrics.set_leader(true);

    let views = Views::start(
        &client,
        &contacts,
        catalogue.defaults.gpu_instance_types.clone(),
        &tracker,
        &stop,
    );
    contacts.register(Resource::of::<GpuModule>(None), Instant::now());
    let actor = Actor {
        client: client.clone(),
        helm,
        charts: ChartFolder::new(args.charts_dir),
        own_namespace: args.namespace,
        identity: identity.clone(),
        metrics: metrics.clone(),
    };
    let publisher = Publisher::new(client.clone(), identity);
    let work = {
        let stop = stop.clone();
        tokio::spawn(async move {
            let Some(kubernetes) = stop.run_until_cancelled(settled(&client, &views)).await else {
                return;
            };
            if let Err(error) = actor.helm.await_left_over(LEFT_OVER_LIMIT).await {
                tracing::warn!(%error, "going on beside it");
            }
            let context = Context {
                clock: Box::new(now),
                catalogue,
                views,
                actor,
                publisher,
                metrics,
                kubernetes: Mutex::new(kubernetes),
                memory: Mutex::new(None),
            };
            controller::run(client, Arc::new(context), stop).await;
        })
    };
    let end = tokio::select! {
        _ = ends.recv() => End::Signal,
        kill_by = lost(&mut leadership) => End::LeaseLost(kill_by),
    };
    stop.cancel();
    match end {
        End::Signal => end_by_signal(work, &interrupter, &mut leadership, lease).await?,
        End::LeaseLost(kill_by) => return end_without_lease(work, &interrupter, kill_by).await,
    }
    servers.cancel();
    tracker.close();
    tracker.wait().await;
    tracing::info!("ended");
    Ok(())
}

/// The cluster to talk to.
async fn cluster(args: &RunArgs) -> anyhow::Result<Config> {
    let Some(path) = &args.kubeconfig else {
        return Config::incluster().context("the Pod's ServiceAccount cannot be used");
    };
    // The texts of kube's errors hold those of their causes already.
    let unusable = |error: kube::config::KubeconfigError| {
        let text = error.to_string();
        let reason = text.lines().next().unwrap_or_default();
        anyhow::anyhow!("kubeconfig {} cannot be used: {reason}", path.display())
    };
    let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(unusable)?;
    Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .map_err(unusable)
}

/// Waits until the API server has told its version and each watch has been answered.
async fn settled(client: &Client, views: &Views) -> crate::catalogue::MinorVersion {
    let version = loop {
        match observe::kubernetes_version(client).await {
            Ok(version) => break version,
            Err(error) => {
                tracing::warn!(%error, "the API server does not answer; asked again in {} s", START_RETRY.as_secs());
                tokio::time::sleep(START_RETRY).await;
            }
        }
    };
    let mut changes = views.changes();
    while !views.are_settled() && changes.changed().await.is_ok() {}
    tracing::info!(kubernetes = %version, "watching the cluster");
    version
}

fn silence(contacts: &Contacts) -> Result<(), String> {
    let silent = contacts.silent(Instant::now(), SILENCE_LIMIT);
    if silent.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = silent.iter().map(ToString::to_string).collect();
    Err(format!(
        "the API server has not answered for ten minutes about {}",
        names.join(", ")
    ))
}

/// SIGTERM and SIGINT as messages; handlers are installed once, before anything is started.
fn signals() -> anyhow::Result<tokio::sync::mpsc::Receiver<()>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Nobody listens any more only where the process is ending already.
        let _ = sender.send(()).await;
    });
    Ok(receiver)
}

/// True once this replica leads.
async fn wait_for_lease(leadership: &mut watch::Receiver<Leadership>) -> bool {
    let leads = |leadership: &Leadership| matches!(leadership, Leadership::Leading { .. });
    leadership.wait_for(leads).await.is_ok()
}

/// Ends when the Lease is lost, with the time by which no child may live.
async fn lost(leadership: &mut watch::Receiver<Leadership>) -> Instant {
    loop {
        if let Leadership::Lost { kill_by } = *leadership.borrow_and_update() {
            return kill_by;
        }
        if leadership.changed().await.is_err() {
            return Instant::now();
        }
    }
}

async fn end_waiting(
    lease: LeaseHandle,
    servers: &CancellationToken,
    tracker: &TaskTracker,
) -> anyhow::Result<()> {
    release(lease).await;
    servers.cancel();
    tracker.close();
    tracker.wait().await;
    Ok(())
}

/// Install and upgrade are stopped, rollback and uninstall may finish; then the Lease goes.
async fn end_by_signal(
    work: tokio::task::JoinHandle<()>,
    interrupter: &Interrupter,
    leadership: &mut watch::Receiver<Leadership>,
    lease: LeaseHandle,
) -> anyhow::Result<()> {
    tracing::info!("ending: no new pass begins, a helm rollback or uninstall may finish");
    interrupter.shutdown();
    let mut work = work;
    tokio::select! {
        ended = tokio::time::timeout(DRAIN_LIMIT, &mut work) => {
            if ended.is_err() {
                tracing::warn!("helm did not end in time and is stopped");
                interrupter.lease_lost(std::time::Instant::now() + Duration::from_secs(5));
                let _ = work.await;
            }
        }
        kill_by = lost(leadership) => return end_without_lease(work, interrupter, kill_by).await,
    }
    release(lease).await;
    Ok(())
}

async fn end_without_lease(
    work: tokio::task::JoinHandle<()>,
    interrupter: &Interrupter,
    kill_by: Instant,
) -> anyhow::Result<()> {
    tracing::error!("the Lease is lost: helm is stopped and the process ends");
    interrupter.lease_lost(kill_by.into_std());
    let _ = tokio::time::timeout_at(kill_by, work).await;
    anyhow::bail!("another replica may act now, so this one ends")
}

async fn release(lease: LeaseHandle) {
    let released: Result<(), ApiError> = lease.release().await;
    if let Err(error) = released {
        tracing::warn!(%error, "the Lease is not released; others wait until it expires");
    }
}
