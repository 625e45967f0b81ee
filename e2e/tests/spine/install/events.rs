//! One Event for each change of a condition, neither more nor fewer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use futures::StreamExt as _;
use gpu_manager::api::GpuModule;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lab::{Lab, STEP};

/// Status and reason by the type of a condition.
type Conditions = BTreeMap<String, (String, String)>;

/// The conditions as the API server told them one after the other.
pub struct Statuses {
    seen: Arc<Mutex<Vec<Conditions>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Statuses {
    /// Watches the GpuModule, and returns once the watch misses nothing any more.
    pub async fn record(lab: &Lab) -> Result<Self> {
        let seen = Arc::new(Mutex::new(vec![Conditions::new()]));
        let (modules, sink) = (lab.modules.clone(), Arc::clone(&seen));
        let (sender, mut listed) = watch::channel(false);
        let task = tokio::spawn(async move {
            let events = watcher(modules, watcher::Config::default()).default_backoff();
            let mut events = std::pin::pin!(events);
            // An error, for example of an API server that has just learnt of the CRD, is followed by another try.
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(module) | watcher::Event::InitApply(module)) => sink
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(conditions(&module)),
                    Ok(watcher::Event::InitDone) => drop(sender.send_replace(true)),
                    Ok(watcher::Event::Init | watcher::Event::Delete(_)) => {}
                    Err(error) => println!("the test's watch is begun anew: {error}"),
                }
            }
        });
        let answered = timeout(STEP, listed.wait_for(|listed| *listed)).await;
        answered.context("the watch of GpuModules was not answered")??;
        Ok(Self { seen, task })
    }

    /// Compares the changes with the Events about the GpuModule.
    pub async fn each_change_has_its_event(self, lab: &Lab) -> Result<()> {
        let events = Api::<Event>::namespaced(lab.cluster.client(), "default");
        let matched = eventually("one Event for each change", STEP, async || {
            let mut told = BTreeMap::<_, i32>::new();
            for event in events.list(&ListParams::default()).await? {
                if event.regarding.and_then(|about| about.kind).as_deref() != Some("GpuModule") {
                    continue;
                }
                let key = (event.action.unwrap_or_default(), event.reason.unwrap_or_default());
                *told.entry(key).or_default() += event.series.map_or(1, |series| series.count);
            }
            let changes = changes(&self.seen.lock().unwrap_or_else(PoisonError::into_inner));
            ensure!(told == changes, "told {told:?}, changed {changes:?}");
            ensure!(told.len() >= 5, "only {told:?}");
            // An install that goes well calls nothing an error on its way, not even what is not answered yet.
            let refused = told.keys().find(|(_, reason)| reason == "Forbidden");
            ensure!(refused.is_none(), "{told:?}");
            Ok(())
        });
        let result = matched.await;
        self.task.abort();
        result
    }
}

fn conditions(module: &GpuModule) -> Conditions {
    let conditions = module.status.iter().flat_map(|status| &status.conditions);
    conditions
        .map(|condition| {
            (
                condition.type_.clone(),
                (condition.status.clone(), condition.reason.clone()),
            )
        })
        .collect()
}

/// How often each condition came to each reason. That no driver change waits is no news at first.
fn changes(seen: &[Conditions]) -> BTreeMap<(String, String), i32> {
    let mut changes = BTreeMap::new();
    for pair in seen.windows(2) {
        for (kind, now) in &pair[1] {
            let before = pair[0].get(kind);
            if before != Some(now) && (before.is_some() || now.1 != "NoDriverChange") {
                *changes.entry((kind.clone(), now.1.clone())).or_default() += 1;
            }
        }
    }
    changes
}
