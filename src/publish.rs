//! Writes the status, the only file that does, and tells of changed conditions by Events.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::api::{
    ConditionType, FIELD_MANAGER, GpuModule, GpuModuleStatus, MANAGER, OperationKind, Outcome,
    RELEASE_NAMESPACE, State,
};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::lease::Mandate;
use crate::plan::Farewell;
use crate::status::is_held;

/// Most characters of an Event's note.
const MAX_NOTE: usize = 1024;

/// What a new status has to tell by Events. Nothing depends on it, so whoever has to act does not wait for it.
#[derive(Default)]
#[must_use]
pub struct News {
    about: ObjectReference,
    events: Vec<Event>,
}

/// Takes a sentence for a person who waits for it.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes statuses and Events, or says them to a person.
pub struct Publisher {
    client: Client,
    recorder: Recorder,
    aloud: Option<Aloud>,
}

/// Says what is new to a person.
struct Aloud {
    say: Say,
    last: Mutex<String>,
}

impl Aloud {
    fn say(&self, sentence: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != sentence {
            sentence.clone_into(&mut last);
            (self.say)(sentence);
        }
    }
}

impl Publisher {
    /// `instance` names this process in Events.
    pub fn new(client: Client, instance: String) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: Some(instance),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            aloud: None,
        }
    }

    /// One that writes nothing and says everything: a GpuModule may not even be there any more.
    #[must_use]
    pub fn aloud(mut self, say: Say) -> Self {
        let last = Mutex::default();
        self.aloud = Some(Aloud { say, last });
        self
    }

    /// True for one that only says things.
    pub const fn is_aloud(&self) -> bool {
        self.aloud.is_some()
    }

    /// Writes the whole status by server-side apply; gives back what there is to tell about it.
    pub async fn write(
        &self,
        _: &Mandate,
        module: &impl Resource<DynamicType = ()>,
        previous: Option<&GpuModuleStatus>,
        status: &GpuModuleStatus,
    ) -> Result<News, ApiError> {
        if let Some(aloud) = &self.aloud {
            aloud.say(&status.description);
            return Ok(News::default());
        }
        self.apply(&module.name_any(), &json!(status)).await?;
        let before = previous.map_or(&[][..], |status| &status.conditions);
        let events = news(before, &status.conditions, status.state)
            .into_iter()
            .chain(correction(previous, status));
        Ok(News {
            about: module.object_ref(&()),
            events: events.collect(),
        })
    }

    /// Tells the news, all at once: were they to hang, they would cost one deadline together.
    pub async fn tell(&self, news: News) {
        join_all(news.events.iter().map(|event| self.tell_one(&news.about, event))).await;
    }

    /// Tells that the GpuModule is gone, and what came of the removal.
    pub async fn tell_removal(&self, module: &GpuModule, farewell: &Farewell) {
        let note = last_words(farewell);
        if let Some(aloud) = &self.aloud {
            return aloud.say(&note);
        }
        let news = News {
            about: module.object_ref(&()),
            events: vec![Event {
                type_: EventType::Normal,
                reason: "Removed".to_owned(),
                note: Some(note.chars().take(MAX_NOTE).collect()),
                action: "Delete".to_owned(),
                secondary: None,
            }],
        };
        self.tell(news).await;
    }

    async fn apply(&self, name: &str, status: &Value) -> Result<(), ApiError> {
        let object = json!({
            "apiVersion": GpuModule::api_version(&()),
            "kind": GpuModule::kind(&()),
            "metadata": { "name": name },
            "status": status,
        });
        let modules = Api::<GpuModule>::all(self.client.clone());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        // `patch_metadata` has no status variant; the answer may be an object that cannot be read, so it is not.
        let call = async {
            let request = kube::core::Request::new(modules.resource_url())
                .patch_subresource("status", name, &params, &patch)
                .map_err(kube::Error::BuildRequest)?;
            self.client.request::<Value>(request).await.map(|_| ())
        };
        let written = deadline(
            API_DEADLINE,
            format!("write the status of GpuModule {name}"),
            call,
        )
        .await;
        // Deleted meanwhile: nobody is left to read it.
        found(written).map(|_| ())
    }

    async fn tell_one(&self, object: &ObjectReference, news: &Event) {
        let call = self.recorder.publish(news, object);
        if let Err(error) = deadline(API_DEADLINE, "publish an Event", call).await {
            tracing::warn!(%error, reason = news.reason, "the Event is lost");
        }
    }
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// What is said at the end of a removal.
fn last_words(farewell: &Farewell) -> String {
    let Farewell::Removed { stays } = farewell else {
        return format!(
            "the GpuModule is gone; what stands in namespace {RELEASE_NAMESPACE} is not the module's, and nothing of it was touched"
        );
    };
    let stays = if stays.is_empty() {
        "nothing stays in the cluster".to_owned()
    } else {
        format!("what stays in the cluster: {}", stays.join("; "))
    };
    format!(
        "the module is removed; {stays}; on nodes that had a driver loaded kernel modules and files stay, which nobody in the cluster can \
         take away and a later installation can meet: replace these nodes by rolling their worker pools"
    )
}

type Condition = k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// One Event for each condition whose status or reason is another than before. That the unusual is not the case is news only
/// after it was. What is on its way, as every new installation is, warns of nothing.
fn news(before: &[Condition], now: &[Condition], state: State) -> Vec<Event> {
    let unusual = |condition: &Condition| condition.type_ == ConditionType::DriverChangePending.as_str();
    let changed = now.iter().filter(|condition| {
        let old = before.iter().find(|old| old.type_ == condition.type_);
        old.map_or_else(
            || !unusual(condition) || condition.status != "False",
            |old| (&old.status, &old.reason) != (&condition.status, &condition.reason),
        )
    });
    changed
        .map(|condition| Event {
            type_: if state != State::Processing
                && condition.status == bad(&condition.type_)
                && !unusual(condition)
                && !is_asked_for(condition)
            {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: condition.reason.clone(),
            note: Some(condition.message.chars().take(MAX_NOTE).collect()),
            action: condition.type_.clone(),
            secondary: None,
        })
        .collect()
}

/// A removal that nothing holds is what the user wants.
fn is_asked_for(condition: &Condition) -> bool {
    let is = |kind: ConditionType| condition.type_ == kind.as_str();
    match condition.reason.as_str() {
        "Uninstalling" => is(ConditionType::Installed),
        "Removing" => is(ConditionType::Ready) || is(ConditionType::Deleted),
        reason => is(ConditionType::Deleted) && !is_held(reason),
    }
}

/// The status in which a condition is nothing good.
fn bad(type_: &str) -> &'static str {
    if type_ == ConditionType::Drifted.as_str() {
        "True"
    } else {
        "False"
    }
}

/// An Event for what was done without any condition that tells of it: objects were put right, or what had been left behind was deleted.
fn correction(previous: Option<&GpuModuleStatus>, status: &GpuModuleStatus) -> Option<Event> {
    let newest = status.history.first()?;
    let known = previous.and_then(|previous| previous.history.first());
    let (reason, action) = match newest.operation {
        OperationKind::Reapply => ("DriftCorrected", "Reapply"),
        OperationKind::Prune => ("LeftoversDeleted", "Prune"),
        _ => return None,
    };
    (newest.outcome == Outcome::Succeeded && known != Some(newest)).then(|| Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(newest.message.clone()),
        action: action.to_owned(),
        secondary: None,
    })
}

#[cfg(test)]
mod tests;
