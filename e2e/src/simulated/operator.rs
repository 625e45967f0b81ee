//! Runs the simulated operator: watch, plan, write.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::cache::Cache;
use super::view::annotation;
use super::writer::Writer;
use super::{Faults, Moment, names, plan};

/// Pause after an event, so that a burst of them is one plan.
const GATHER: Duration = Duration::from_millis(30);

/// How the simulated operator runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time between two looks of the upgrade controller at restarted driver Pods. The real one takes
    /// two minutes.
    pub upgrade_interval: Duration,
    /// The faults from the start.
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            upgrade_interval: Duration::from_secs(1),
            faults: Faults::default(),
        }
    }
}

/// A running simulated operator; it ends when this is dropped.
#[derive(Debug)]
pub struct Operator {
    faults: watch::Sender<Faults>,
    _tasks: JoinSet<()>,
}

impl Operator {
    /// Starts it on the current runtime. The client needs all rights.
    pub fn start(client: Client, options: Options) -> Self {
        let (faults, told) = watch::channel(options.faults);
        let wake = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let cache = Cache::start(&client, &wake, &mut tasks);
        tasks.spawn(run(
            cache,
            Writer::new(client),
            wake,
            told,
            options.upgrade_interval,
        ));
        Self {
            faults,
            _tasks: tasks,
        }
    }

    /// Changes the faults in force; the cluster follows within a moment.
    pub fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.faults.send_replace(Faults::default());
    }
}

async fn run(
    cache: Cache,
    mut writer: Writer,
    wake: Arc<Notify>,
    mut told: watch::Receiver<Faults>,
    interval: Duration,
) {
    let mut next_look = Instant::now() + interval;
    let mut controller = None;
    loop {
        tokio::select! {
            () = wake.notified() => {}
            changed = told.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep_until(next_look) => {}
        }
        sleep(GATHER).await;
        let Some(view) = cache.view() else { continue };
        // Another Deployment is another controller, which has made nothing yet.
        let found = view
            .available_deployment(names::OPERATOR_DEPLOYMENT)
            .and_then(ResourceExt::uid);
        if found.is_some() && controller != found {
            controller = found;
            writer.forget();
        }
        let tick = Instant::now() >= next_look;
        if tick {
            next_look = Instant::now() + interval;
        }
        let prune = cache.prune_seen();
        let faults = told.borrow_and_update().clone();
        let changes = plan(
            &view,
            &faults,
            Moment {
                now: Timestamp::now(),
                tick,
                prune,
            },
        );
        let complete = writer.write(changes).await;
        if prune
            && view
                .nodes
                .iter()
                .all(|node| annotation(node, names::NFD_OWNED).is_none())
        {
            cache.forget_prune();
            wake.notify_one();
        }
        if !complete {
            wake.notify_one();
        }
    }
}
