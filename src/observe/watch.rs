//! One isolated watch: its own backoff, its errors its own.
//!
//! kube's Controller merges all of its triggers behind one shared backoff, so a single failing watch there would delay
//! every change of the GpuModule by up to a minute.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder as _;
use futures::StreamExt as _;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Resource as KubeResource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch as channel};
use tokio::time::Instant;

use super::view::{Access, View};
use crate::contact::{Contacts, Resource};
use crate::facts::CrdFacts;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// After so long without an error a watch counts as healthy, and its next pause is short again. The events do not tell: kube
/// sends one at each try to list.
const HEALTHY_AFTER: Duration = Duration::from_mins(1);

/// So many refusals in a row come of an API server that has just started and does not know its own rules yet. What it had shown before
/// still counts then.
const REFUSALS_OF_A_START: u32 = 2;

/// What all watches share.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Where answers of the API server are noted.
    pub contacts: Contacts,
    /// Counts changes of facts.
    pub changed: Arc<channel::Sender<u64>>,
    /// Ends pauses after errors.
    pub retry: Arc<Notify>,
}

impl Watched {
    /// Watches for ever and keeps `view` current.
    pub async fn run<K, F>(
        self,
        api: Api<K>,
        config: watcher::Config,
        resource: Resource,
        view: View<F>,
        reduce: impl Fn(&K) -> Option<F>,
    ) where
        K: KubeResource + Clone + DeserializeOwned + Debug + Send + 'static,
        F: Clone + PartialEq,
    {
        self.contacts.register(resource.clone(), Instant::now());
        let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
        let mut pauses = pauses();
        let mut failed_at: Option<Instant> = None;
        let mut refusals = 0;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Each try to list begins with that one, whatever comes of it.
                    if !matches!(event, watcher::Event::Init) {
                        refusals = 0;
                    }
                    if view.take_in(event, &reduce) {
                        self.tell();
                    }
                }
                Err(error) => {
                    refusals += 1;
                    if self.note(&error, &resource, &view, refusals) {
                        events.set(watcher(api.clone(), config.clone()));
                    }
                    if failed_at.is_some_and(|before| before.elapsed() > HEALTHY_AFTER) {
                        pauses = self::pauses();
                    }
                    failed_at = Some(Instant::now());
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.retry.notified() => pauses = self::pauses(),
                    }
                }
            }
        }
    }

    /// Watches a kind of NVIDIA's as long as its CRD is there.
    pub async fn run_while_served<F>(
        self,
        crd: &'static str,
        crds: View<CrdFacts>,
        api: Api<DynamicObject>,
        resource: Resource,
        view: View<F>,
        reduce: impl Fn(&DynamicObject) -> Option<F> + Copy,
    ) where
        F: Clone + PartialEq,
    {
        let mut changes = self.changed.subscribe();
        loop {
            while !crds.contains(crd) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
            let gone = async { while crds.contains(crd) && changes.changed().await.is_ok() {} };
            let watching = self.clone().run(
                api.clone(),
                watcher::Config::default(),
                resource.clone(),
                view.clone(),
                reduce,
            );
            tokio::select! {
                () = watching => {}
                () = gone => {}
            }
            self.contacts.forget(&resource);
            if view.refuse(Access::NotServed) {
                self.tell();
            }
        }
    }

    /// Wakes the reconciler.
    pub fn tell(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Takes in an error; true where only a new list can follow. kube's watcher would go on where it was, and what the view
    /// has forgotten, or the API server, would never come back.
    fn note<F: Clone + PartialEq>(
        &self,
        error: &watcher::Error,
        resource: &Resource,
        view: &View<F>,
        refusals: u32,
    ) -> bool {
        match refusal(error) {
            Some(410) => {
                tracing::debug!(%resource, "the watch is too old and begins anew");
                true
            }
            Some(403) if view.access() == Access::Granted && refusals <= REFUSALS_OF_A_START => {
                tracing::debug!(%resource, "the API server refuses what it has shown before, it is asked again");
                true
            }
            Some(code @ (403 | 404)) => {
                let access = if code == 403 {
                    Access::Forbidden
                } else {
                    Access::NotServed
                };
                if view.refuse(access) {
                    tracing::info!(%resource, code, "the API server does not show these objects yet");
                    self.tell();
                }
                true
            }
            _ => {
                tracing::warn!(%resource, %error, "the watch failed and is tried again");
                false
            }
        }
    }
}

/// The HTTP code by which the API server refused.
fn refusal(error: &watcher::Error) -> Option<u16> {
    let code = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code,
        _ => return None,
    };
    Some(code)
}

fn pauses() -> backon::ExponentialBackoff {
    backon::ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .with_jitter()
        .build()
}
