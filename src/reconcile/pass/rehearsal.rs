//! A removal that changes nothing: each step is told, and the next one decided as if it had been taken.

use std::collections::BTreeSet;

use super::{Acted, MAX_STEPS, Pass};
use crate::act::release;
use crate::drift::Manifest;
use crate::facts::first_few;
use crate::kube_api::ApiError;
use crate::plan::{self, Action, Farewell, Held, Plan, Protection, Wait};
use crate::publish::Say;

/// Why it is not known what a removal would do.
#[derive(Debug, thiserror::Error)]
pub enum Hindrance {
    /// The removal itself would be held.
    #[error("{0}")]
    Held(String),
    /// Something could not be read.
    #[error("{0}")]
    Unreadable(String),
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// It would take more steps than a pass may.
    #[error("the removal takes too many steps to tell")]
    TooLong,
}

impl Pass<'_> {
    /// Says what each step would do.
    pub async fn rehearse(mut self, say: &Say) -> Result<(), Hindrance> {
        // What was told is not told again of another step.
        let mut told = BTreeSet::new();
        let mut tell = |line: String| {
            if told.insert(line.clone()) {
                say(&line);
            }
        };
        for _ in 0..MAX_STEPS {
            let plan = plan::decide(&self.situation(self.now()));
            let acted = match (self.read(&plan).await, &plan) {
                (Some(acted), _) => acted,
                (None, Plan::Act(Action::RemoveFinalizer)) => {
                    if let Some(Farewell::Removed { stays }) = plan::farewell(&self.situation(self.now())) {
                        for left in stays {
                            tell(format!("leave {left}"));
                        }
                    }
                    return Ok(());
                }
                (None, Plan::Act(action)) => {
                    for line in plan::lines(action) {
                        tell(line);
                    }
                    if let Action::Uninstall { .. } = action {
                        for line in self.objects_of_release().await? {
                            tell(line);
                        }
                    }
                    if let Action::BeginRemoval { removal } = action {
                        self.removal = Some(removal.clone());
                    }
                    plan::pretend(action, &mut self.observed);
                    Acted::Done
                }
                (None, Plan::AwaitRemoval { names, .. }) => {
                    for name in names {
                        tell(format!("wait until {name} is gone"));
                    }
                    self.observed
                        .left
                        .values_mut()
                        .for_each(|left| left.objects.clear());
                    Acted::Done
                }
                (None, Plan::Wait { why: Wait::Work, .. }) => {
                    return Err(Hindrance::Held(self.held()));
                }
                (None, Plan::Wait { .. }) if self.failed => Acted::Failed,
                (None, Plan::Wait { until, .. }) => {
                    return Err(Hindrance::Held(format!(
                        "the removal would wait until {until}, look again then"
                    )));
                }
                (None, Plan::Hold(hold)) => return Err(Hindrance::Held(hold.to_string())),
                (None, _) => return Ok(()),
            };
            if self.failed || matches!(acted, Acted::Failed | Acted::Interrupted) {
                let failure = self.memory.attempts.last().map(|failure| failure.message.clone());
                return Err(Hindrance::Unreadable(failure.unwrap_or_default()));
            }
        }
        Err(Hindrance::TooLong)
    }

    /// Why the removal would not begin.
    fn held(&self) -> String {
        let why = match plan::protection(&self.situation(self.now())) {
            Protection::Held(Held::Work(pods)) => {
                let names = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
                format!("Pods use GPUs ({})", first_few(names))
            }
            Protection::Held(Held::Unreadable(why)) => {
                format!("it is not known whether Pods use GPUs ({why})")
            }
            Protection::Nothing | Protection::Unknown => "Pods may use GPUs".to_owned(),
        };
        format!("{why}, so nothing would be removed; end them, or give --workloads ignore")
    }

    /// A line for each object of the release.
    async fn objects_of_release(&self) -> Result<Vec<String>, Hindrance> {
        let Some(latest) = self.newest() else {
            return Ok(Vec::new());
        };
        let read = self
            .context
            .actor
            .helm
            .get_manifest(&release(), latest.number)
            .await;
        let unreadable = |why: String| Hindrance::Unreadable(format!("the release cannot be read: {why}"));
        let documents = read.map_err(|error| unreadable(error.to_string()))?;
        let documents = documents.unwrap_or_default();
        let manifest = Manifest::parse(latest.number, &latest.uid, &documents).map_err(unreadable)?;
        Ok(manifest.refs().map(|object| format!("delete {object}")).collect())
    }
}
