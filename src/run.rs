//! The life of the operator process: open everything, wait for the Lease, lead, and end in the right order.

mod cleanup;
mod end;
mod open;
mod start;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::act::{Actor, ChartFolder};
use crate::admin::Server;
use crate::api::GpuModule;
use crate::config::RunArgs;
use crate::contact::{Contacts, Resource, SILENCE_LIMIT};
use crate::controller;
use crate::lease::{self, Leadership, LeaseHandle, Timing};
use crate::observe::Views;
use crate::publish::Publisher;
use crate::reconcile::{Context, now};
use end::End;
use open::Opened;

pub use cleanup::cleanup;

/// Runs the operator until a signal. Fails where waiting cannot help, and when the Lease is lost.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    let mut signals = signals()?;
    let opened = tokio::select! {
        opened = Opened::open(&args) => opened?,
        _ = signals.recv() => return Ok(()),
    };
    let servers = Servers::start(&args, &opened).await?;
    let timing = Timing::for_duration(Duration::from_secs(args.lease_duration));
    let (mut leadership, lease) = lease::spawn(
        opened.client.clone(),
        &args.namespace,
        &args.identity(),
        timing,
        now,
    );
    tokio::select! {
        leads = wait_for_lease(&mut leadership) => leads?,
        _ = signals.recv() => {
            release(lease).await;
            servers.end().await;
            return Ok(());
        }
    }
    let interrupter = opened.interrupter.clone();
    opened.metrics.set_leader(true);
    let publisher = Publisher::new(opened.client.clone(), args.identity());
    let mut lead = Lead::begin(args, opened, leadership.clone(), publisher, controller::run);
    let end = end::reason(&mut signals, &mut leadership, &mut lead.work).await;
    lead.stop.cancel();
    let ended = match end {
        End::Signal => {
            end::by_signal(lead.work, &interrupter, &mut leadership).await?;
            Ok(())
        }
        End::LeaseLost(kill_by) => return end::without_lease(lead.work, &interrupter, kill_by).await,
        End::Work(ended) => Err(end::broken_off(ended)),
    };
    release(lease).await;
    finish(&lead.watches).await;
    servers.end().await;
    tracing::info!("ended");
    ended
}

/// The HTTP servers for probes and metrics. They outlive everything else.
struct Servers {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Servers {
    async fn start(args: &RunArgs, opened: &Opened) -> anyhow::Result<Self> {
        let contacts = opened.contacts.clone();
        let live = move || silence(&contacts);
        let health = Server::health(args.health_address, live, || Ok(())).await?;
        let metrics = Server::metrics(args.metrics_address, opened.metrics.clone()).await?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(health.serve(stop.clone()));
        tasks.spawn(metrics.serve(stop.clone()));
        Ok(Self { tasks, stop })
    }

    async fn end(self) {
        self.stop.cancel();
        finish(&self.tasks).await;
    }
}

/// A replica that leads: its watches and its work.
struct Lead {
    watches: TaskTracker,
    work: JoinHandle<()>,
    stop: CancellationToken,
}

impl Lead {
    /// Starts the watches, and then the work with what they see.
    fn begin<W>(
        args: RunArgs,
        opened: Opened,
        leadership: watch::Receiver<Leadership>,
        publisher: Publisher,
        work: impl FnOnce(Client, Arc<Context>, CancellationToken) -> W + Send + 'static,
    ) -> Self
    where
        W: Future<Output = ()> + Send,
    {
        let identity = args.identity();
        let Opened {
            catalogue,
            helm,
            metrics,
            contacts,
            client,
            ..
        } = opened;
        let (watches, stop) = (TaskTracker::new(), CancellationToken::new());
        let views = Views::start(&client, &contacts, &watches, &stop);
        contacts.register(Resource::of::<GpuModule>(None), Instant::now());
        let actor = Actor {
            client: client.clone(),
            helm,
            kinds: views.kinds(),
            charts: ChartFolder::new(args.charts_dir),
            own_namespace: args.namespace,
            identity,
            metrics: metrics.clone(),
        };
        let foreign_operation_limit = SignedDuration::from_secs(args.foreign_operation_limit.into());
        let begun = {
            let stop = stop.clone();
            async move {
                let ready = start::ready(&client, &views, &actor.helm);
                let Some(kubernetes) = stop.run_until_cancelled(ready).await else {
                    return;
                };
                let context = Context {
                    clock: Box::new(now),
                    mandates: Box::new(move || leadership.borrow().mandate_at(Instant::now())),
                    foreign_operation_limit,
                    catalogue,
                    views,
                    actor,
                    publisher,
                    metrics,
                    kubernetes: Mutex::new(kubernetes),
                    memory: Mutex::new(None),
                };
                work(client, Arc::new(context), stop).await;
            }
        };
        Self {
            watches,
            work: tokio::spawn(begun),
            stop,
        }
    }
}

/// Why the process is not alive: a watch that nobody answers any more.
fn silence(contacts: &Contacts) -> Result<(), String> {
    let silent = contacts.silent(Instant::now(), SILENCE_LIMIT);
    if silent.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = silent.iter().map(ToString::to_string).collect();
    Err(format!(
        "the API server has not answered for {} minutes about {}",
        SILENCE_LIMIT.as_secs() / 60,
        names.join(", ")
    ))
}

/// SIGTERM and SIGINT as messages; handlers are installed once, before anything is started.
fn signals() -> anyhow::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
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

/// Ends well once this replica leads. The task that competes for the Lease ends only after it has led.
async fn wait_for_lease(leadership: &mut watch::Receiver<Leadership>) -> anyhow::Result<()> {
    let leads = |leadership: &Leadership| matches!(leadership, Leadership::Leading { .. });
    match leadership.wait_for(leads).await {
        Ok(_) => Ok(()),
        Err(_) => {
            anyhow::bail!("nobody competes for the Lease any more, so this process would wait for ever")
        }
    }
}

/// Called only when nothing acts on the Lease's behalf any more.
async fn release(lease: LeaseHandle) {
    if let Err(error) = lease.release().await {
        tracing::warn!(%error, "the Lease is not released; others wait until it expires");
    }
}

/// Waits for all tasks; they have been told to end.
async fn finish(tasks: &TaskTracker) {
    tasks.close();
    tasks.wait().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_for_the_lease_fails_when_nobody_competes_for_it() {
        let (sender, mut leadership) = watch::channel(Leadership::Waiting { holder: None });
        let until = Instant::now() + Duration::from_secs(30);
        sender.send_replace(Leadership::Leading { until });
        wait_for_lease(&mut leadership).await.unwrap();

        let (sender, mut leadership) = watch::channel(Leadership::Waiting { holder: None });
        drop(sender);
        let error = wait_for_lease(&mut leadership).await.unwrap_err().to_string();
        assert!(error.contains("Lease"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_names_the_resource_and_the_limit() {
        let contacts = Contacts::default();
        contacts.register(Resource::of::<GpuModule>(None), Instant::now());
        silence(&contacts).unwrap();
        tokio::time::advance(SILENCE_LIMIT + Duration::from_secs(1)).await;
        assert_eq!(
            silence(&contacts).unwrap_err(),
            "the API server has not answered for 10 minutes about gpumodules.operator.kyma-project.io"
        );
    }
}
