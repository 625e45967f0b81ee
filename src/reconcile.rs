//! The pipeline: resource -> desired -> observed -> plan -> act -> status, for one pass.
//!
//! Drives the steps and holds no rules. The only file that asks for the time.

mod pass;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action as Requeue;

use crate::act::Actor;
use crate::api::GpuModule;
use crate::catalogue::{Catalogue, MinorVersion};
use crate::kube_api::ApiError;
use crate::lease::Mandates;
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::observe::{self, Views};
use crate::plan;
use crate::publish::{Publisher, Say};
use crate::status;
use pass::Pass;

pub use pass::{Hindrance, Rest};

/// Says what time it is: [`now`], but for tests.
pub type Clock = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// Everything that a pass takes.
pub struct Context {
    /// The time.
    pub clock: Clock,
    /// The chart catalogue.
    pub catalogue: Catalogue,
    /// Whether this replica leads.
    pub mandates: Mandates,
    /// How long somebody else's unfinished Helm operation is left alone.
    pub foreign_operation_limit: SignedDuration,
    /// The watches.
    pub views: Views,
    /// The one who acts.
    pub actor: Actor,
    /// The one who writes the status.
    pub publisher: Publisher,
    /// Metrics.
    pub metrics: Metrics,
    /// Version of the API server, as last read.
    pub kubernetes: Mutex<MinorVersion>,
    /// Memory of the one GpuModule.
    pub memory: Mutex<Option<Memory>>,
}

impl Context {
    /// Takes the memory of that GpuModule, to be put back at the end of the pass.
    fn recall(&self, uid: String) -> Memory {
        let known = lock(&self.memory).take().filter(|memory| memory.uid == uid);
        known.unwrap_or_else(|| Memory::new(uid, (self.clock)(), fastrand::f64()))
    }
}

/// Why a pass could not even say what is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// One pass over the GpuModule.
pub async fn reconcile(
    module: Arc<DeserializeGuard<GpuModule>>,
    context: Arc<Context>,
) -> Result<Requeue, Error> {
    match &module.0 {
        Ok(module) => Ok(once(module, &context).await?.into()),
        // A removal needs little of it. Whatever else the spec says of nodes and drivers is not known, so nothing is done meanwhile.
        Err(invalid) if invalid.metadata.deletion_timestamp.is_some() => {
            let read = observe::read_readable(&context.actor.client, &module.name_any()).await?;
            match read.filter(|read| read.uid() == module.uid()) {
                Some(module) => Ok(remove(&module, &context).await?.into()),
                None => Ok(Requeue::await_change()),
            }
        }
        Err(invalid) => {
            let mut memory = context.recall(module.uid().unwrap_or_default());
            let told = tell_unreadable(&module, invalid, &context, &mut memory).await;
            *lock(&context.memory) = Some(memory);
            told.map(|()| Requeue::await_change())
        }
    }
}

/// One pass over a GpuModule that can be read.
pub async fn once(module: &GpuModule, context: &Context) -> Result<Rest, Error> {
    Box::pin(Pass::begin(module, context).run()).await
}

/// One pass over a GpuModule that does nothing but remove the module: nobody stays to look after it where the removal is held.
pub async fn remove(module: &GpuModule, context: &Context) -> Result<Rest, Error> {
    Box::pin(Pass::begin(module, context).only_removing().run()).await
}

/// Takes the steps of a removal but for those that change something, and says what these would do.
pub async fn rehearse(module: &GpuModule, context: &Context, say: &Say) -> Result<(), Hindrance> {
    Box::pin(Pass::begin(module, context).only_removing().rehearse(say)).await
}

/// Says in the status that this is no valid GpuModule, for example after a downgrade of the module.
async fn tell_unreadable(
    module: &DeserializeGuard<GpuModule>,
    invalid: &InvalidObject,
    context: &Context,
    memory: &mut Memory,
) -> Result<(), Error> {
    tracing::warn!(error = invalid.error, "the GpuModule cannot be read");
    if memory.written.is_none() {
        let read = observe::read_readable(&context.actor.client, &module.name_any()).await?;
        memory.written = read.and_then(|read| read.status);
    }
    let generation = invalid.metadata.generation.unwrap_or_default();
    let previous = memory.written.as_ref();
    let status = status::unreadable(&invalid.error, generation, previous, (context.clock)());
    let deleting = invalid.metadata.deletion_timestamp.as_ref().map(|at| at.0);
    context.metrics.show(Some(&status), deleting);
    if previous != Some(&status)
        && let Some(mandate) = (context.mandates)()
    {
        let publisher = &context.publisher;
        let news = publisher.write(&mandate, module, previous, &status).await?;
        publisher.tell(news).await;
        memory.written = Some(status);
    }
    Ok(())
}

/// When to try again after an [`Error`]; failures of actions have their own, growing pause.
pub fn error_policy(_: Arc<DeserializeGuard<GpuModule>>, error: &Error, _: Arc<Context>) -> Requeue {
    let Error::Api(cause) = error;
    if cause.is_conflict() {
        // Normal: the pass began with an older object, and the newer one begins the next pass.
        tracing::debug!(%error, "the pass is repeated");
    } else {
        tracing::warn!(%error, "the pass failed and is tried again");
    }
    Requeue::requeue(plan::SOON)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time.
#[expect(clippy::disallowed_methods, reason = "the one place that asks for the time")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
