//! Every kind that has objects in namespaces, and every API of which nobody can tell what it has.
//!
//! The API server answers at once also for an API whose own server is away: with what it knew of it, which may be nothing. So an answer
//! without an API is no sign that nothing of it is there.

use std::collections::BTreeSet;

use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery, APIVersionDiscovery};
use kube::core::discovery::verbs;

use crate::kube_api::{API_DEADLINE, ApiError, deadline};

/// The word of the API server for what it knows of an API now (`apidiscovery.k8s.io/v2`); the other one is `Stale`.
const CURRENT: &str = "Current";

/// What is served in namespaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Served {
    /// Each kind that can be listed, once.
    pub kinds: Vec<ApiResource>,
    /// APIs that may have more kinds, as `group/version`.
    pub unknown: Vec<String>,
}

/// Asks the API server, itself and not those that it stands before.
pub(super) async fn served(client: &Client) -> Result<Served, ApiError> {
    let what = "learn which kinds are served";
    let (core, others) = tokio::try_join!(
        deadline(API_DEADLINE, what, client.list_core_api_versions_aggregated()),
        deadline(API_DEADLINE, what, client.list_api_groups_aggregated()),
    )?;
    let mut served = Served::default();
    for (groups, path) in [(core.items, "/api"), (others.items, "/apis")] {
        // As from an API server that answers in the form before this one.
        if groups.is_empty() {
            served.unknown.push(path.to_owned());
        }
        for group in groups {
            served.add(group);
        }
    }
    Ok(served)
}

impl Served {
    fn add(&mut self, group: APIGroupDiscovery) {
        let name = group
            .metadata
            .and_then(|metadata| metadata.name)
            .unwrap_or_default();
        if group.versions.is_empty() {
            self.unknown.push(name);
            return;
        }
        // Not every kind is served in the version that its group prefers, and that stands first.
        let mut seen = BTreeSet::new();
        for version in group.versions {
            let APIVersionDiscovery {
                version,
                resources,
                freshness,
            } = version;
            let version = version.unwrap_or_default();
            let api_version = if name.is_empty() {
                version.clone()
            } else {
                format!("{name}/{version}")
            };
            if freshness.as_deref() != Some(CURRENT) {
                self.unknown.push(api_version);
                continue;
            }
            for resource in resources.into_iter().filter(is_listed) {
                let plural = resource.resource.unwrap_or_default();
                if !seen.insert(plural.clone()) {
                    continue;
                }
                let kind = resource.response_kind.and_then(|kind| kind.kind);
                self.kinds.push(ApiResource {
                    group: name.clone(),
                    version: version.clone(),
                    api_version: api_version.clone(),
                    kind: kind
                        .filter(|kind| !kind.is_empty())
                        .unwrap_or_else(|| plural.clone()),
                    plural,
                });
            }
        }
    }
}

/// True for a kind whose objects lie in namespaces and can be listed; others are no objects but calls.
fn is_listed(resource: &APIResourceDiscovery) -> bool {
    resource.scope.as_deref() == Some("Namespaced") && resource.verbs.iter().any(|verb| verb == verbs::LIST)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn served(group: Value) -> Served {
        let mut served = Served::default();
        served.add(serde_json::from_value(group).unwrap());
        served
    }

    fn kind(kind: &str, plural: &str, scope: &str, verbs: &[&str]) -> Value {
        json!({ "resource": plural, "responseKind": { "group": "g.test", "version": "v1", "kind": kind },
            "scope": scope, "verbs": verbs })
    }

    #[test]
    fn each_kind_comes_once_in_the_version_that_is_preferred() {
        let served = served(json!({ "metadata": { "name": "g.test" }, "versions": [
            { "version": "v1", "freshness": "Current", "resources": [
                kind("A", "as", "Namespaced", &["list", "get"]),
                kind("Whole", "wholes", "Cluster", &["list"]),
                kind("Review", "reviews", "Namespaced", &["create"]),
            ] },
            { "version": "v1beta1", "freshness": "Current", "resources": [
                kind("A", "as", "Namespaced", &["list"]),
                kind("B", "bs", "Namespaced", &["list"]),
            ] },
        ] }));
        let kinds: Vec<_> = served
            .kinds
            .iter()
            .map(|kind| (kind.api_version.as_str(), kind.kind.as_str()))
            .collect();
        assert_eq!(kinds, [("g.test/v1", "A"), ("g.test/v1beta1", "B")]);
        assert!(served.unknown.is_empty(), "{:?}", served.unknown);
    }

    #[test]
    fn an_api_whose_server_is_away_is_not_one_without_kinds() {
        let away = served(json!({ "metadata": { "name": "g.test" }, "versions": [
            { "version": "v1", "freshness": "Stale" },
            { "version": "v1beta1", "freshness": "Current" },
        ] }));
        assert_eq!(away.unknown, ["g.test/v1"]);
        let empty = served(json!({ "metadata": { "name": "g.test" }, "versions": [] }));
        assert_eq!(empty.unknown, ["g.test"]);
        let unsaid = served(json!({ "metadata": { "name": "g.test" }, "versions": [{ "version": "v1" }] }));
        assert_eq!(unsaid.unknown, ["g.test/v1"]);
    }
}
