//! Deletes one object.

use kube::Api;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::core::DynamicObject;

use crate::drift::ObjectRef;
use crate::kube_api::{API_DEADLINE, ApiError, deadline};

/// Deletes the object with that UID, and in the background what it owns. One of the same name that was made since is a conflict.
pub async fn exactly(api: &Api<DynamicObject>, object: &ObjectRef, uid: &str) -> Result<(), ApiError> {
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let call = api.delete(&object.name, &params);
    deadline(API_DEADLINE, format!("delete {object}"), call)
        .await
        .map(|_| ())
}
