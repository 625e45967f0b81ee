//! Waits until the API server serves CRDs, by one watch for all of them.
//!
//! CRDs of a chart hold half a megabyte of schema, which every event of a watch repeats. A watch for each, and typed objects
//! besides, cost the API server and the operator more than the CRDs themselves; here the schema is skipped while reading.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, Object};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use tokio::time::timeout;

use crate::api::{KYMA_MODULE, LABEL_KYMA_MODULE};

/// How long the API server may take to serve new CRDs; it takes well under a second.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A CRD without its schema.
type Served = Object<Unread, Status>;

#[derive(Clone, Debug, Default, Deserialize)]
struct Unread {}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    /// The API server sends null for a CRD that has just come.
    conditions: Option<Vec<StatusCondition>>,
}

#[derive(Clone, Debug, Deserialize)]
struct StatusCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

/// Waits until CRDs of these names, which carry the module's label, are served. The error names one that is not.
pub async fn until(client: &Client, names: impl IntoIterator<Item = String>) -> Result<(), String> {
    let mut missing: BTreeSet<String> = names.into_iter().collect();
    let kind = ApiResource::erase::<CustomResourceDefinition>(&());
    let api = Api::<Served>::all_with(client.clone(), &kind);
    let config = watcher::Config::default().labels(&format!("{LABEL_KYMA_MODULE}={KYMA_MODULE}"));
    let served = async {
        let events = watcher(api, config).default_backoff().applied_objects();
        let mut events = std::pin::pin!(events);
        while !missing.is_empty()
            && let Some(event) = events.next().await
        {
            match event {
                Ok(crd) if is_established(&crd) => {
                    missing.remove(&crd.name_any());
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the watch of CRDs is begun anew"),
            }
        }
    };
    // What counts is what is missing, not why.
    let _ = timeout(LIMIT, served).await;
    missing.pop_first().map_or(Ok(()), Err)
}

fn is_established(crd: &Served) -> bool {
    let conditions = crd.status.iter().flat_map(|status| &status.conditions).flatten();
    let mut established = conditions.filter(|condition| condition.type_ == "Established");
    established.any(|condition| condition.status == "True")
}
