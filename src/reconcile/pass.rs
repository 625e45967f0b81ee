//! One pass: plan, act, look again, until nothing is left to do now.

mod drift;
mod end;
mod nodes;
mod read;
mod rehearsal;
mod removal;
mod rest;
mod steps;

use std::collections::BTreeMap;

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::{Context, Error, lock};
use crate::api::{
    ANNOTATION_RECONCILE_AT, ANNOTATION_REMOVAL, FINALIZER, GpuModule, GpuModuleSpec, GpuModuleStatus,
    NodeFeatureDiscovery, Operation, Outcome,
};
use crate::catalogue::Catalogue;
use crate::desired::{self, Desired, Refusal};
use crate::drift::ObjectRef;
use crate::facts::{Observed, Removal, Seen};
use crate::helm::RELEASE_FLAGS;
use crate::memory::Memory;
use crate::plan::{self, Action, Hold, Plan, Situation};
use crate::publish::News;
use crate::status;

pub use rehearsal::Hindrance;
pub use rest::Rest;

/// Most steps of one pass; the longest known way is a removal, which reads what is left before each step and after it.
const MAX_STEPS: u32 = 64;

/// How an action ended.
enum Acted {
    Done,
    Failed,
    /// The operator itself ended it.
    Interrupted,
}

fn observe_views(module: &GpuModule, context: &Context, memory: &Memory) -> Observed {
    let manifest = memory.drift.manifest().map(Arc::as_ref);
    let (known, more) = (&context.catalogue.instance_types, module.spec.instance_types());
    context
        .views
        .observe(*lock(&context.kubernetes), manifest, |node| {
            node.has_gpu(known, more)
        })
}

/// The wanted release. A removal asks nothing of the spec; should the release have to be recorded anew for it, any will do.
fn wanted(module: &GpuModule, catalogue: &Catalogue, nfd: NodeFeatureDiscovery) -> Result<Desired, Refusal> {
    let wanted = desired::resolve(&module.spec, catalogue, nfd, RELEASE_FLAGS);
    if module.metadata.deletion_timestamp.is_some() {
        let any = GpuModuleSpec::default();
        return wanted.or_else(|_| desired::resolve(&any, catalogue, nfd, RELEASE_FLAGS));
    }
    wanted
}

/// One pass over a GpuModule that can be read.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one pass")]
pub struct Pass<'a> {
    module: &'a GpuModule,
    context: &'a Context,
    generation: i64,
    desired: Result<Desired, Refusal>,
    observed: Observed,
    memory: Memory,
    comparison_due: bool,
    forced_by: Option<String>,
    /// Objects of the release as read in this pass.
    seen: BTreeMap<ObjectRef, Seen>,
    /// CRDs of the chart that were applied in this pass.
    restored: Vec<ObjectRef>,
    /// Something failed in this pass; nothing more is tried then.
    failed: bool,
    /// The version of the API server was read in this pass.
    version_read: bool,
    /// The GpuModule carries the module's finalizer, maybe since a moment ago.
    finalizer: bool,
    /// What is noted on it of its removal, maybe since a moment ago.
    removal: Option<Removal>,
    /// Nothing but the removal is done.
    only_removes: bool,
}

impl<'a> Pass<'a> {
    /// Gathers what is known.
    pub fn begin(module: &'a GpuModule, context: &'a Context) -> Self {
        let now = (context.clock)();
        let uid = module.uid().unwrap_or_default();
        let mut memory = context.recall(uid);
        let generation = module.metadata.generation.unwrap_or_default();
        let handled = memory.written.as_ref().or(module.status.as_ref());
        let handled = handled.and_then(|status| status.last_handled_reconcile_at.as_ref());
        let forced_by: Option<String> = module
            .annotations()
            .get(ANNOTATION_RECONCILE_AT)
            .map(|value| value.chars().take(status::MAX_ANNOTATION).collect());
        let forced = forced_by.is_some() && forced_by.as_ref() != handled;
        memory.observe_generation(generation);
        memory.drift.fade(now);
        memory.labelled.fade(now, |_| false);
        if forced {
            memory.force(now);
        }
        let mut observed = observe_views(module, context, &memory);
        observed.comparison.clone_from(&memory.comparison);
        observed.gpu_work = memory.known_work(now);
        observed.existing.clone_from(&memory.existing);
        let nfd = memory.nfd.settle(&observed, now);
        Self {
            module,
            context,
            generation,
            desired: wanted(module, &context.catalogue, nfd),
            observed,
            comparison_due: now >= memory.compare_at,
            forced_by,
            seen: BTreeMap::new(),
            restored: Vec::new(),
            failed: false,
            version_read: false,
            finalizer: module.finalizers().iter().any(|name| name == FINALIZER),
            removal: module
                .annotations()
                .get(ANNOTATION_REMOVAL)
                .and_then(|note| Removal::parse(note, &memory.uid))
                .or_else(|| memory.removal.clone()),
            only_removes: false,
            memory,
        }
    }

    /// Takes steps until nothing is left to do now.
    pub async fn run(mut self) -> Result<Rest, Error> {
        let result = self.steps().await;
        self.follow();
        // Also after an error: what was counted and written stays true.
        *lock(&self.context.memory) = Some(self.memory);
        result
    }

    async fn steps(&mut self) -> Result<Rest, Error> {
        for _ in 0..MAX_STEPS {
            let plan = plan::decide(&self.situation(self.now()));
            tracing::debug!(?plan, "decided");
            match &plan {
                Plan::Look => self.look().await,
                Plan::Compare | Plan::ReadExisting { .. } => match self.read(&plan).await {
                    Acted::Done | Acted::Failed => self.look().await,
                    Acted::Interrupted => return Ok(Rest::Interrupted),
                },
                Plan::Read(reading) => {
                    if matches!(self.read_around_drivers(*reading).await, Acted::Failed) {
                        self.look().await;
                    }
                }
                Plan::ReadManifest { revision, uid } => {
                    if matches!(self.read_manifest(*revision, uid).await, Acted::Interrupted) {
                        return Ok(Rest::Interrupted);
                    }
                }
                Plan::FindOrphans(failed) => {
                    if matches!(self.find_orphans(failed).await, Acted::Interrupted) {
                        return Ok(Rest::Interrupted);
                    }
                }
                Plan::Inspect(objects) => self.inspect(objects).await,
                // A cluster is upgraded without any event that a watch would see.
                Plan::Hold(Hold::UnsupportedKubernetes { .. }) if !self.version_read => {
                    self.read_version().await;
                }
                Plan::Act(Action::LabelNodes { labels }) => {
                    if matches!(self.label_nodes(labels).await, Acted::Interrupted) {
                        return Ok(Rest::Interrupted);
                    }
                }
                Plan::Act(action) => {
                    // A finalizer is set in a moment, and on the very object that the pass began with; objects are put
                    // right in a moment, too.
                    let in_a_moment = matches!(
                        action,
                        Action::AddFinalizer
                            | Action::RemoveFinalizer
                            | Action::BeginRemoval { .. }
                            | Action::RestoreCrds { .. }
                            | Action::Reapply { .. }
                            | Action::Prune { .. }
                    );
                    let news = if in_a_moment {
                        News::default()
                    } else {
                        // What has to be done does not depend on what can be said.
                        self.publish(&plan).await.map_or_else(
                            |error| {
                                tracing::warn!(%error, "going on without the status");
                                News::default()
                            },
                            |published| published.news,
                        )
                    };
                    let told = self.context.publisher.tell(news);
                    let (acted, ()) = tokio::join!(self.act(action), told);
                    match (acted?, action) {
                        // The operator is ending, and its successor goes on from what is there.
                        (Acted::Interrupted, _) => return Ok(Rest::Interrupted),
                        // It was added to the very object that the pass began with, and nothing else has changed.
                        (Acted::Done, Action::AddFinalizer) => self.finalizer = true,
                        (Acted::Done, Action::BeginRemoval { removal }) => {
                            self.removal = Some(removal.clone());
                            self.memory.removal.clone_from(&self.removal);
                        }
                        (Acted::Done, Action::RemoveFinalizer) => {
                            self.say_farewell().await;
                            self.context.metrics.show(None, None);
                            return Ok(Rest::Gone);
                        }
                        (Acted::Done | Acted::Failed, _) => self.look().await,
                    }
                }
                Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval { .. } => {
                    return self.end(&plan).await;
                }
            }
        }
        tracing::warn!("the pass took too many steps and is continued later");
        Ok(Rest::Unfinished)
    }

    fn situation(&self, now: Timestamp) -> Situation<'_> {
        Situation {
            now,
            foreign_operation_limit: self.context.foreign_operation_limit,
            deleting: self.module.metadata.deletion_timestamp.is_some(),
            finalizer: self.finalizer,
            removal: self.removal.as_ref(),
            only_removes: self.only_removes,
            deletion_workloads: self.module.spec.deletion_workloads(),
            deletion_crds: self.module.spec.deletion_crds(),
            uid: &self.memory.uid,
            refused: &self.memory.refused,
            suspended: self.module.spec.suspend == Some(true),
            upgrade_policy: self.module.spec.upgrade_policy(),
            generation: self.generation,
            adopt: self.module.spec.adopt_existing_release == Some(true),
            listed: self.previous().and_then(|status| status.adoption.as_ref()),
            desired: self.desired.as_ref(),
            recorded: self.previous().and_then(|status| status.release.as_ref()),
            observed: &self.observed,
            catalogue: &self.context.catalogue,
            orphans: self.memory.orphans.as_ref(),
            attempts: &self.memory.attempts,
            comparison_due: self.comparison_due || self.is_unmoved(),
            interrupted: self.begun().filter(|_| self.memory.ended.is_empty()),
            nodes: self.node_rules(),
            labelled: &self.memory.labelled,
            drift_mode: self.module.spec.drift_mode(),
            drift: &self.memory.drift,
        }
    }

    fn now(&self) -> Timestamp {
        (self.context.clock)()
    }

    /// The status before; what this process wrote may be newer than what the watch has brought.
    fn previous(&self) -> Option<&GpuModuleStatus> {
        self.memory.written.as_ref().or(self.module.status.as_ref())
    }

    /// A helm command did not get past the newest revision; Helm may not see it at all.
    fn is_unmoved(&self) -> bool {
        let unmoved = self.memory.unmoved.as_ref();
        unmoved.is_some_and(|unmoved| self.newest().is_some_and(|newest| newest.uid == *unmoved))
    }

    /// What the status says is under way.
    fn begun(&self) -> Option<&Operation> {
        let newest = self.previous()?.history.first();
        newest.filter(|operation| operation.outcome == Outcome::Running)
    }
}
