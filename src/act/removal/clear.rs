//! Takes away what is left of one kind of thing, several objects at once.

use futures::StreamExt as _;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;

use crate::act::{Actor, delete};
use crate::api::FIELD_MANAGER;
use crate::facts::{Leftover, Remedy};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::lease::Mandate;
use crate::observe;

/// Objects that are changed or deleted at once.
const AT_ONCE: usize = 8;

/// Why something was not taken away.
#[derive(Debug, thiserror::Error)]
pub enum NotCleared {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Something else is in the way, as was seen before.
    #[error("{0}")]
    Blocked(String),
}

impl Actor {
    /// Does what the leftovers ask for; how each ended, in their order.
    pub async fn clear(&self, _: Mandate, leftovers: &[Leftover]) -> Vec<Result<(), NotCleared>> {
        let each: Vec<_> = leftovers
            .iter()
            .map(|leftover| self.clear_one(leftover))
            .collect();
        futures::stream::iter(each).buffered(AT_ONCE).collect().await
    }

    async fn clear_one(&self, leftover: &Leftover) -> Result<(), NotCleared> {
        let Leftover { object, uid, remedy } = leftover;
        let Some(served) = self.kinds.resolve(&object.kind).await? else {
            return Ok(());
        };
        let api: Api<DynamicObject> = served.api(&self.client, object.namespace.as_deref());
        let result = match remedy {
            Remedy::Wait => Ok(()),
            Remedy::Blocked(why) => return Err(NotCleared::Blocked(why.clone())),
            Remedy::DeleteUnused(instances) if observe::is_in_use(&self.client, instances).await? => {
                tracing::info!(%object, "it is in use again and stays");
                return Ok(());
            }
            Remedy::Delete | Remedy::DeleteUnused(_) => delete::exactly(&api, object, uid).await,
            // What an apply leaves out and the same manager had applied before is removed. The UID keeps it from making an object that is gone.
            Remedy::Unapply => {
                let nothing = json!({
                    "apiVersion": object.kind.api_version,
                    "kind": object.kind.kind,
                    "metadata": { "name": object.name, "namespace": object.namespace, "uid": uid },
                });
                let (params, patch) = (PatchParams::apply(FIELD_MANAGER), Patch::Apply(nothing));
                let call = api.patch_metadata(&object.name, &params, &patch);
                let patched = deadline(API_DEADLINE, format!("clean {object}"), call).await;
                patched.map(|_| ())
            }
            Remedy::Patch(patch) => {
                let mut patch = patch.clone();
                patch["metadata"]["uid"] = json!(uid);
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let patch = Patch::Merge(patch);
                let call = api.patch_metadata(&object.name, &params, &patch);
                let patched = deadline(API_DEADLINE, format!("clean {object}"), call).await;
                patched.map(|_| ())
            }
        };
        // Gone is what was wanted.
        if found(result)?.is_some() {
            tracing::info!(%object, "took away what was left");
        }
        Ok(())
    }
}
