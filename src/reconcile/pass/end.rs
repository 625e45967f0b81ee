//! What a pass says, in between and at its end, and when the next one is due without any event.

use jiff::Timestamp;

use super::{Pass, Rest};
use crate::kube_api::ApiError;
use crate::plan::{self, Failure, Plan, Wait};
use crate::publish::News;
use crate::reconcile::Error;
use crate::status::{self, Computed, Report};

/// What came of a status.
#[derive(Default)]
#[must_use]
pub(super) struct Published {
    /// When it may change by itself.
    pub recheck: Option<Timestamp>,
    /// Since when the step is under way that is waited for.
    pub waits_since: Option<Timestamp>,
    /// What is to be told.
    pub news: News,
}

impl Pass<'_> {
    /// Ends the pass with what was decided last.
    pub(super) async fn end(&mut self, plan: &Plan) -> Result<Rest, Error> {
        if matches!(plan, Plan::Keep | Plan::Hold(_) | Plan::AwaitRemoval { .. }) {
            self.memory.attempts.succeeded();
        }
        let now = self.now();
        let situation = self.situation(now);
        let driver = plan::waiting(&situation).recheck(now);
        let nodes = plan::recheck_nodes(&situation, plan);
        let Published {
            recheck,
            waits_since,
            news,
        } = self.publish(plan).await?;
        self.context.publisher.tell(news).await;
        let recheck = [recheck, driver, nodes].into_iter().flatten().min();
        if *plan == Plan::Keep {
            // Its values may be secret, and nobody asks for them any more.
            self.memory.existing = None;
            self.context.metrics.set_last_success(self.now());
        }
        let due = [
            recheck,
            self.memory.nfd.due(),
            self.memory.labelled.due(now),
            self.memory.pruned.due(now),
        ];
        let recheck = due.into_iter().flatten().min();
        let pause = plan::pause(plan, self.now(), waits_since, recheck, self.memory.compare_at);
        let plan = plan.clone();
        Ok(Rest::Until { plan, pause })
    }

    /// The failure that is still in the way. What waits for somebody else is past it.
    fn failure(&self, plan: &Plan) -> Option<&Failure> {
        match plan {
            Plan::Wait {
                why:
                    Wait::ForeignOperation(_)
                    | Wait::NamespaceTerminating
                    | Wait::Step { .. }
                    | Wait::Drivers
                    | Wait::Work
                    | Wait::Refused { .. },
                ..
            } => None,
            _ => self.memory.attempts.last(),
        }
    }

    /// Computes the status and writes it where it is another than before.
    pub(super) async fn publish(&mut self, plan: &Plan) -> Result<Published, ApiError> {
        // Another replica may lead by now, and knows better.
        let Some(mandate) = (self.context.mandates)() else {
            return Ok(Published::default());
        };
        self.read_pull_secrets().await;
        let now = self.now();
        let waiting = plan::waiting(&self.situation(now));
        let undeleted = plan::undeleted(&self.situation(now));
        let deleting = self.module.metadata.deletion_timestamp.as_ref().map(|at| at.0);
        let Computed {
            status,
            recheck,
            waits_since,
            sightings,
        } = status::compute(&Report {
            now,
            generation: self.generation,
            deleting,
            removal_began: self.removal.as_ref().and_then(|removal| removal.began),
            adopt: self.module.spec.adopt_existing_release == Some(true),
            previous: self.previous(),
            desired: self.desired(),
            observed: &self.observed,
            plan,
            waiting: &waiting,
            deletion_crds: self.module.spec.deletion_crds(),
            protection: plan::protection(&self.situation(now)),
            failure: self.failure(plan),
            ended: &self.memory.ended,
            drift_mode: self.module.spec.drift_mode(),
            drift: &self.memory.drift,
            undeleted: &undeleted,
            next_attempt: self.memory.attempts.blocked_until(self.now()),
            rules: self.node_rules(),
            sightings: &self.memory.sightings,
            labelled: &self.memory.labelled,
            handled_reconcile_at: self.forced_by.as_deref(),
        });
        self.memory.sightings = sightings;
        self.context.metrics.show(Some(&status), deleting);
        let mut news = News::default();
        let publisher = &self.context.publisher;
        let is_new = self.module.status.as_ref() != Some(&status) || self.previous() != Some(&status);
        // A person has not heard what was written before.
        if is_new || publisher.is_aloud() {
            news = publisher
                .write(&mandate, self.module, self.previous(), &status)
                .await?;
        }
        self.memory.written = Some(status);
        self.memory.ended.clear();
        Ok(Published {
            recheck,
            waits_since,
            news,
        })
    }
}
