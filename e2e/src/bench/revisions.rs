//! The revisions of the release, from the Secrets in which Helm keeps them.

use std::time::{Duration, Instant};

use anyhow::Result;
use gpu_manager::api::{RELEASE_NAME, RELEASE_NAMESPACE};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, ResourceExt as _};

use super::feed::Feed;
use super::world::{STEP, World};

impl World {
    /// The revisions of the release as they change.
    pub async fn revisions(&self) -> Result<Feed<PartialObjectMeta<Secret>>> {
        let secrets = Api::namespaced(self.client(), RELEASE_NAMESPACE);
        Feed::start(secrets, &format!("owner=helm,name={RELEASE_NAME}")).await
    }

    /// How many Secrets Helm has for the release, and the number of the newest revision.
    pub async fn release_secrets(&self) -> Result<(usize, u32)> {
        let secrets = Api::<Secret>::namespaced(self.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels(&format!("owner=helm,name={RELEASE_NAME}"));
        let list = secrets.list_metadata(&params).await?;
        let newest = list.iter().filter_map(revision).max();
        Ok((list.items.len(), newest.unwrap_or_default()))
    }
}

/// Number of the revision that a Secret holds.
fn revision(secret: &PartialObjectMeta<Secret>) -> Option<u32> {
    secret.labels().get("version")?.parse().ok()
}

/// Waits until a revision newer than `known` is deployed, and says how long after `start` that was seen.
pub async fn until_deployed(
    revisions: &mut Feed<PartialObjectMeta<Secret>>,
    start: Instant,
    known: u32,
) -> Result<Duration> {
    let what = format!("a deployed revision after {known}");
    revisions
        .until(&what, start, STEP, |secret| {
            let status = secret.labels().get("status").map(String::as_str);
            status == Some("deployed") && revision(secret).is_some_and(|number| number > known)
        })
        .await
}
