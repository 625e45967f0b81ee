//! Deletes objects that were left behind beside the release.

use kube::api::{DeleteParams, Preconditions};
use kube::core::DynamicObject;

use super::Actor;
use crate::facts::Orphan;
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

impl Actor {
    /// Deletes the very objects that were found; one of the same name that was made since stays.
    pub(super) async fn prune(&self, orphans: &[Orphan]) -> Result<(), ApiError> {
        for Orphan { object, uid } in orphans {
            let Some(served) = self.kinds.resolve(&object.kind).await? else {
                continue;
            };
            let api = served.api::<DynamicObject>(&self.client, object.namespace.as_deref());
            let params = DeleteParams::default().preconditions(Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            });
            let call = api.delete(&object.name, &params);
            match found(deadline(API_DEADLINE, format!("delete {object}"), call).await) {
                Ok(_) => tracing::info!(%object, "deleted what had been left behind"),
                Err(error) if error.is_conflict() => tracing::debug!(%object, "it is another one by now"),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
