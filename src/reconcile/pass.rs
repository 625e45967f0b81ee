//! One pass: plan, act, look again, until nothing is left to do now.

mod acting;
mod drift;
mod end;
mod nodes;
mod read;
mod rehearsal;
mod removal;
mod rest;
mod steps;
mod wish;

use std::collections::BTreeMap;

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::{Context, Error, lock};
use crate::api::{ANNOTATION_RECONCILE_AT, FINALIZER, GpuModule, GpuModuleStatus, Operation, Outcome};
use crate::desired::{Desired, Refusal};
use crate::drift::ObjectRef;
use crate::facts::{Observed, Removal, Seen};
use crate::memory::Memory;
use crate::plan::{self, Action, Plan, Situation, Wait};
use crate::status;
use wish::Wish;

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
    /// The GpuModule was let go.
    Gone,
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

/// One pass over a GpuModule that can be read.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one pass")]
pub struct Pass<'a> {
    module: &'a GpuModule,
    context: &'a Context,
    generation: i64,
    /// What the spec asks for, or why it asks for nothing.
    wanted: Result<Wish<'a>, Refusal>,
    /// In a removal, what is done instead of a refused spec.
    stand_in: Option<Wish<'a>>,
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
    /// What was done in this pass and ended well.
    done: Vec<Action>,
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
        memory.pruned.fade(now, |_| false);
        if forced {
            memory.force(now);
        }
        let mut observed = observe_views(module, context, &memory);
        observed.comparison.clone_from(&memory.comparison);
        observed.gpu_work = memory.known_work(now);
        observed.existing.clone_from(&memory.existing);
        let nfd = memory.nfd.settle(&observed, now);
        let (wanted, stand_in) = Wish::of(module, &context.catalogue, nfd);
        Self {
            module,
            context,
            generation,
            wanted,
            stand_in,
            observed,
            comparison_due: now >= memory.compare_at,
            forced_by,
            seen: BTreeMap::new(),
            restored: Vec::new(),
            failed: false,
            done: Vec::new(),
            version_read: false,
            finalizer: module.finalizers().iter().any(|name| name == FINALIZER),
            removal: removal::noted(module, &memory),
            only_removes: false,
            memory,
        }
    }

    /// The wanted release, or why there is none.
    fn desired(&self) -> Result<&Desired, &Refusal> {
        self.wanted.as_ref().map(|wish| &wish.desired)
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
            if self.is_in_vain(&plan) {
                continue;
            }
            let acted = match (self.read(&plan).await, &plan) {
                (Some(Acted::Done), Plan::Compare | Plan::ReadExisting { .. }) => {
                    // That took a helm process, and meanwhile the world went on.
                    self.look().await;
                    Acted::Done
                }
                (Some(acted), _) => acted,
                (None, Plan::Act(action)) => self.take(&plan, action).await?,
                (None, plan) => return self.end(plan).await,
            };
            match acted {
                Acted::Done | Acted::Failed => {}
                // The operator is ending, and its successor goes on from what is there.
                Acted::Interrupted => return Ok(Rest::Interrupted),
                Acted::Gone => return Ok(Rest::Gone),
            }
        }
        self.fail(plan::endless(MAX_STEPS));
        let now = self.now();
        let until = self.memory.attempts.blocked_until(now).unwrap_or(now);
        let why = Wait::Backoff;
        self.end(&Plan::Wait { until, why }).await
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
            desired: self.desired(),
            stand_in: self.stand_in.as_ref().map(|wish| &wish.desired),
            recorded: self.previous().and_then(|status| status.release.as_ref()),
            observed: &self.observed,
            catalogue: &self.context.catalogue,
            orphans: self.memory.orphans.as_ref(),
            pruned: &self.memory.pruned,
            attempts: &self.memory.attempts,
            failed: self.failed,
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
