//! The steps of a pass that change something.

use super::wish::Wish;
use super::{Acted, Pass};
use crate::act::{ActError, Subject};
use crate::api::NodeFeatureDiscovery;
use crate::desired::{Desired, Refusal};
use crate::facts::SurroundingNamespace;
use crate::plan::{self, Action, Failure, NfdCrds, Plan};
use crate::publish::News;
use crate::reconcile::Error;
use crate::status::Ended;

impl Pass<'_> {
    /// Says what is about to be done, and does it.
    pub(super) async fn take(&mut self, plan: &Plan, action: &Action) -> Result<Acted, Error> {
        // A label shows by itself, and what else is decided does not depend on it.
        if let Action::LabelNodes { labels } = action {
            return Ok(self.label_nodes(labels).await);
        }
        // A finalizer is set in a moment, and on the very object that the pass began with; objects are put right in a moment, too.
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
            self.publish(plan).await.map_or_else(
                |error| {
                    tracing::warn!(%error, "going on without the status");
                    News::default()
                },
                |published| published.news,
            )
        };
        let told = self.context.publisher.tell(news);
        let (acted, ()) = tokio::join!(self.act(action), told);
        let acted = acted?;
        match (&acted, action) {
            (Acted::Interrupted | Acted::Gone, _) => {}
            // It was added to the very object that the pass began with, and nothing else has changed.
            (Acted::Done, Action::AddFinalizer) => self.finalizer = true,
            (Acted::Done, Action::BeginRemoval { removal }) => {
                self.removal = Some(removal.clone());
                self.memory.removal.clone_from(&self.removal);
            }
            (Acted::Done, Action::RemoveFinalizer) => return Ok(self.let_go().await),
            (Acted::Done | Acted::Failed, _) => self.look().await,
        }
        Ok(acted)
    }

    /// Executes an action.
    async fn act(&mut self, action: &Action) -> Result<Acted, Error> {
        match action {
            Action::Reapply { objects, why } => return Ok(self.reapply(objects, why).await),
            Action::Prune { objects, left_by } => return Ok(self.prune(objects, *left_by).await),
            Action::Clear { what, objects } => return Ok(self.clear(*what, objects).await),
            _ => {}
        }
        let step = match self.step(action) {
            Ok(step) => step,
            Err(refusal) => {
                self.fail(Failure {
                    reason: refusal.reason(),
                    message: refusal.to_string(),
                });
                return Ok(Acted::Failed);
            }
        };
        let running_driver = plan::running_driver(&self.situation(self.now()));
        let around = self.observed.surroundings.as_ref();
        let desired = self.wish().map(|wish| &wish.desired);
        let nfd = desired.map_or_else(NodeFeatureDiscovery::default, |desired| {
            desired.node_feature_discovery
        });
        let subject = Subject {
            module: self.module,
            desired: step.as_ref().or(desired),
            release: &self.observed.release,
            crds: &self.observed.crds,
            running_driver: running_driver.as_ref(),
            nfd_crds: NfdCrds::of(nfd, &self.observed),
            namespace_is_ours: around.is_none_or(|around| around.namespace != SurroundingNamespace::Foreign),
        };
        let Some(mandate) = (self.context.mandates)() else {
            return Ok(Acted::Interrupted);
        };
        tracing::info!(?action, "acting");
        let newest = self.newest().map(|newest| newest.uid.clone());
        let result = self.context.actor.act(mandate, action, &subject).await;
        self.context.views.retry_now();
        self.memory.unmoved = newest.filter(|_| action.changes_release());
        match result {
            Ok(()) => {
                if let Action::RestoreCrds { crds } = action {
                    self.restored(crds);
                }
                self.ended(action, None);
                plan::note(&mut self.done, action);
                Ok(Acted::Done)
            }
            Err(error) if error.is_interruption() => Ok(Acted::Interrupted),
            // Somebody else changed the object meanwhile: the next pass sees how.
            Err(ActError::Api(error)) if error.is_conflict() => Err(error.into()),
            Err(error) => {
                self.ended(action, Some(error.to_string()));
                self.fail(error.failure(action));
                Ok(Acted::Failed)
            }
        }
    }

    /// Notes how an action ended, for the history.
    pub(super) fn ended(&mut self, action: &Action, failure: Option<String>) {
        self.memory.ended.push(Ended {
            action: action.clone(),
            failure,
        });
    }

    /// Judges what was done by what is decided now. True where it was in vain: that is a failure as any other, with its pause.
    pub(super) fn is_in_vain(&mut self, plan: &Plan) -> bool {
        let Some(failure) = plan::in_vain(&self.done, plan) else {
            if plan::went_on(&self.done, plan) {
                self.memory.attempts.succeeded();
            }
            return false;
        };
        if let Some(ended) = self.memory.ended.last_mut() {
            ended.failure.get_or_insert_with(|| failure.message.clone());
        }
        self.done.clear();
        self.fail(failure);
        true
    }

    /// What the release is made by.
    fn wish(&self) -> Option<&Wish<'_>> {
        self.wanted.as_ref().ok().or(self.stand_in.as_ref())
    }

    /// The release of a chart that is only on the way to the wanted one.
    fn step(&self, action: &Action) -> Result<Option<Desired>, Refusal> {
        match (action, self.wish()) {
            (Action::Upgrade { to, .. }, Some(wish)) => wish.on_the_way(&self.context.catalogue, to),
            _ => Ok(None),
        }
    }

    /// The GpuModule is gone.
    async fn let_go(&mut self) -> Acted {
        self.say_farewell().await;
        self.context.metrics.show(None, None);
        Acted::Gone
    }
}
