//! Reads objects of the release and asks the API server, by dry runs, what Helm's apply would make of them.

use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::Value;

use super::kinds::Kinds;
use crate::drift::{Finding, Manifest, Mark, ObjectRef, Repair, judge, refused};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Objects that are looked at at once.
const AT_ONCE: usize = 8;

/// What became of an object.
#[derive(Debug)]
pub struct Inspection {
    /// The object.
    pub object: ObjectRef,
    /// As it was read; `None`: missing.
    pub mark: Option<Mark>,
    /// What is wrong with it.
    pub finding: Option<Finding>,
}

/// Compares objects with the manifest. Nothing is changed. `manager` is Helm's name as a field manager.
pub async fn inspect(
    kinds: &Kinds,
    manager: &str,
    manifest: &Manifest,
    objects: &[ObjectRef],
) -> Vec<Result<Inspection, ApiError>> {
    let mut each = Vec::new();
    for object in objects {
        if let Some(wanted) = manifest.object(object) {
            each.push(inspect_one(kinds, manager, object, wanted));
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
    let inspection = |mark, finding| Inspection {
        object: object.clone(),
        mark,
        finding,
    };
    let missing = || {
        let finding = Finding {
            fields: Vec::new(),
            managers: Vec::new(),
            repair: Repair::Create,
        };
        Ok(inspection(None, Some(finding)))
    };
    let Some(served) = kinds.resolve(&object.kind).await? else {
        return missing();
    };
    let api = served.api::<DynamicObject>(kinds.client(), object.namespace.as_deref());
    let call = api.get(&object.name);
    let Some(live) = found(deadline(API_DEADLINE, format!("read {object}"), call).await)? else {
        return missing();
    };
    let mark = Some(Mark::of(&live.metadata));
    let params = PatchParams::apply(manager).force().dry_run();
    let wanted = Patch::Apply(served.place(wanted));
    let call = api.patch(&object.name, &params, &wanted);
    match deadline(API_DEADLINE, format!("compare {object}"), call).await {
        Ok(applied) => {
            let finding = judge(object, &whole(&live), &whole(&applied), manager);
            Ok(inspection(mark, finding))
        }
        Err(error) if error.is_about_object() => Ok(inspection(mark, Some(refused(&error.to_string())))),
        Err(error) => Err(error),
    }
}

/// The object as JSON.
fn whole(object: &DynamicObject) -> Value {
    let mut whole = object.data.clone();
    if let Some(types) = &object.types {
        whole["apiVersion"] = types.api_version.clone().into();
        whole["kind"] = types.kind.clone().into();
    }
    whole["metadata"] = metadata(&object.metadata);
    whole
}

fn metadata(metadata: &ObjectMeta) -> Value {
    serde_json::to_value(metadata).unwrap_or_default()
}
