//! Connects the watches to the reconciler. Only the GpuModule is watched by kube's Controller: one failing watch in there
//! would delay all of its triggers.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Config, Controller, Error};
use kube::runtime::{reflector, watcher};
use kube::{Api, Client};
use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::api::GpuModule;
use crate::reconcile::{Context, error_policy, reconcile};

/// Runs until `stop`; a pass under way is finished first.
pub async fn run(client: Client, context: Arc<Context>, stop: CancellationToken) {
    let modules = Api::<DeserializeGuard<GpuModule>>::all(client);
    let controller = Controller::new(modules, watcher::Config::default());
    let store = controller.store();
    let changes = {
        let (store, context) = (store.clone(), Arc::clone(&context));
        changes(context.views.changes()).inspect(move |()| forget_if_gone(&store, &context))
    };
    // One release, one helm at a time.
    let passes = controller
        .with_config(Config::default().concurrency(1))
        .reconcile_all_on(changes)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(reconcile, error_policy, Arc::clone(&context));
    passes
        .for_each(|pass| {
            forget_if_gone(&store, &context);
            match pass {
                Ok(_) => {}
                Err(error @ Error::QueueError(_)) => {
                    tracing::warn!(%error, "the watch of GpuModules failed and is tried again; is the CRD installed?");
                }
                // Gone before its turn, or told by the error policy already.
                Err(error) => tracing::debug!(%error, "not reconciled"),
            }
            futures::future::ready(())
        })
        .await;
}

/// A GpuModule that is gone has no state any more.
fn forget_if_gone(store: &reflector::Store<DeserializeGuard<GpuModule>>, context: &Context) {
    if store.is_empty() {
        context.metrics.show(None, None);
    }
}

/// An item for each change of facts; several changes while a pass runs are one.
fn changes(receiver: channel::Receiver<u64>) -> impl futures::Stream<Item = ()> + Send + 'static {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
}
