//! Reads objects of the release and asks the API server, by dry runs, what Helm's apply would make of them.

use futures::StreamExt as _;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::kinds::Kinds;
use crate::api::LABEL_MANAGED_BY;
use crate::drift::{Finding, Manifest, Mark, ObjectRef, judge, refused};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Objects that are looked at at once.
const AT_ONCE: usize = 8;

/// Most reads of an object that somebody keeps writing.
const ROUNDS: u32 = 5;

/// What became of an object.
#[derive(Debug)]
pub struct Inspection {
    /// As it was read; `None`: missing, or without the label by which watches find it.
    pub mark: Option<Mark>,
    /// What is wrong with it.
    pub finding: Option<Finding>,
}

/// Compares objects with the manifest, each of which ends in its own way. Nothing is changed. `manager` is Helm's name as a field manager.
pub async fn inspect(
    kinds: &Kinds,
    manager: &str,
    manifest: &Manifest,
    objects: &[ObjectRef],
) -> Vec<(ObjectRef, Result<Inspection, ApiError>)> {
    let mut each = Vec::new();
    for object in objects {
        if let Some(wanted) = manifest.object(object) {
            each.push(async move { (object.clone(), inspect_one(kinds, manager, object, wanted).await) });
        }
    }
    futures::stream::iter(each)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

async fn inspect_one(
    kinds: &Kinds,
    manager: &str,
    object: &ObjectRef,
    wanted: &Value,
) -> Result<Inspection, ApiError> {
    let inspection = |mark, finding| Inspection { mark, finding };
    let Some(served) = kinds.resolve(&object.kind).await? else {
        return Ok(inspection(None, Some(Finding::missing())));
    };
    let api = served.api::<DynamicObject>(kinds.client(), object.namespace.as_deref());
    let wanted = served.place(wanted);
    let mut before = None;
    for _ in 0..ROUNDS {
        let Some(live) = read(&api, object).await? else {
            return Ok(inspection(None, Some(Finding::missing())));
        };
        let mark = Mark::of(&live.metadata);
        let watched = is_watched(&live).then(|| mark.clone());
        let finding = match before {
            // Nobody has written the object between the two requests that the finding comes from.
            Some((known, _, finding)) if known == mark => return Ok(inspection(watched, finding)),
            _ => compare(&api, manager, object, &live, &wanted).await?,
        };
        if finding.is_none() {
            return Ok(inspection(watched, None));
        }
        before = Some((mark, watched, finding));
    }
    // Somebody writes it faster than it can be compared, so what was found last has to do.
    let (watched, finding) = before
        .map(|(_, watched, finding)| (watched, finding))
        .unwrap_or_default();
    Ok(inspection(watched, finding))
}

/// True where a watch of the release's objects shows it.
fn is_watched(live: &DynamicObject) -> bool {
    live.labels().get(LABEL_MANAGED_BY).is_some_and(|by| by == "Helm")
}

async fn read(api: &Api<DynamicObject>, object: &ObjectRef) -> Result<Option<DynamicObject>, ApiError> {
    let call = api.get(&object.name);
    found(deadline(API_DEADLINE, format!("read {object}"), call).await)
}

async fn compare(
    api: &Api<DynamicObject>,
    manager: &str,
    object: &ObjectRef,
    live: &DynamicObject,
    wanted: &Value,
) -> Result<Option<Finding>, ApiError> {
    let params = PatchParams::apply(manager).force().dry_run();
    let wanted = Patch::Apply(wanted);
    let call = api.patch(&object.name, &params, &wanted);
    match deadline(API_DEADLINE, format!("compare {object}"), call).await {
        Ok(applied) => Ok(judge(object, &whole(live), &whole(&applied), manager)),
        Err(error) if error.is_about_object() => Ok(Some(refused(&error.to_string()))),
        Err(error) => Err(error),
    }
}

/// The object as JSON.
fn whole(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
