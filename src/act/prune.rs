//! Deletes objects that were left behind beside the release.

use futures::StreamExt as _;
use kube::core::DynamicObject;

use super::{Actor, delete};
use crate::facts::Orphan;
use crate::kube_api::{ApiError, found};
use crate::lease::Mandate;

/// Objects that are deleted at once.
const AT_ONCE: usize = 8;

impl Actor {
    /// Deletes the very objects that were found, for which a mandate is used up; how each ended, in their order. One of the same name that
    /// was made since stays.
    pub async fn prune(&self, _: Mandate, orphans: &[Orphan]) -> Vec<Result<(), ApiError>> {
        let each: Vec<_> = orphans.iter().map(|orphan| self.prune_one(orphan)).collect();
        futures::stream::iter(each).buffered(AT_ONCE).collect().await
    }

    async fn prune_one(&self, Orphan { object, uid }: &Orphan) -> Result<(), ApiError> {
        let Some(served) = self.kinds.resolve(&object.kind).await? else {
            return Ok(());
        };
        let api = served.api::<DynamicObject>(&self.client, object.namespace.as_deref());
        match found(delete::exactly(&api, object, uid).await) {
            Ok(_) => tracing::info!(%object, "deleted what had been left behind"),
            Err(error) if error.is_conflict() => tracing::debug!(%object, "it is another one by now"),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
