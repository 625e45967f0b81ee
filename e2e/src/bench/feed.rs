//! The changes of some objects with the moment at which each one was seen, for times that are shorter than a pause
//! between two looks.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the API server may take to answer at the start.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// A watch that runs until it is dropped.
pub struct Feed<K> {
    changes: mpsc::UnboundedReceiver<(Instant, K)>,
    task: JoinHandle<()>,
}

impl<K> Drop for Feed<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K> Feed<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Begins to watch the objects with these labels, and returns once the API server has listed them.
    pub async fn start(api: Api<K>, labels: &str) -> Result<Self> {
        let config = watcher::Config::default().labels(labels);
        let (sender, changes) = mpsc::unbounded_channel();
        let (listed, mut is_listed) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config));
            while let Some(event) = events.next().await {
                let now = Instant::now();
                let sent = match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => sender.send((now, object)),
                    Ok(Event::InitDone) => {
                        let _ = listed.try_send(());
                        Ok(())
                    }
                    Ok(Event::Delete(_) | Event::Init) => Ok(()),
                    Err(error) => {
                        tracing::debug!(%error, "a watch is begun anew");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Ok(())
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        timeout(START_DEADLINE, is_listed.recv())
            .await
            .ok()
            .flatten()
            .context("the API server does not list what is to be watched")?;
        Ok(Self { changes, task })
    }

    /// Waits for a change after `start` that satisfies `condition`, and says how long after `start` it was seen.
    pub async fn until(
        &mut self,
        what: &str,
        start: Instant,
        deadline: Duration,
        condition: impl Fn(&K) -> bool,
    ) -> Result<Duration> {
        let seen = async {
            while let Some((at, object)) = self.changes.recv().await {
                if at >= start && condition(&object) {
                    return Ok(at - start);
                }
            }
            bail!("the watch for {what} has ended")
        };
        timeout(deadline, seen)
            .await
            .with_context(|| format!("waited {deadline:?} in vain for {what}"))?
    }
}
