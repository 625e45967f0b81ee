//! What lies in the namespace of the release, of whatever kind, and whose it is.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

use super::served::{Served, served};
use super::{gone, list_there, nfd};
use crate::api::{KYMA_MODULE, LABEL_KYMA_MODULE, RELEASE_NAME};
use crate::drift::Kind;
use crate::facts::{HelmOwner, Leftover};
use crate::kube_api::ApiError;
use crate::observe::{nvidia, reduce};

/// Kinds that are listed at once.
const AT_ONCE: usize = 8;

/// What Kubernetes and service meshes put into every namespace.
const EVERYWHERE: [(&str, &str); 4] = [
    ("ConfigMap", "istio-ca-crl"),
    ("ConfigMap", "istio-ca-root-cert"),
    ("ConfigMap", "kube-root-ca.crt"),
    ("ServiceAccount", "default"),
];

/// Kinds whose objects say nothing about who uses a namespace, by group: what Kubernetes derives from others, and how the replicas of a
/// program tell each other which of them acts.
const DERIVED: [(&str, &str); 5] = [
    ("", "Endpoints"),
    ("", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
];

/// The group of what metrics-server measures.
const METRICS: &str = "metrics.k8s.io";

/// An object there.
pub(super) struct Found {
    kind: ApiResource,
    object: PartialObjectMeta<DynamicObject>,
}

/// What is there.
pub(super) struct Content {
    objects: Vec<Found>,
    /// APIs and kinds of which nobody can tell, in words.
    unknown: Vec<String>,
}

/// What others have there, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// What is somebody else's.
    pub theirs: Vec<String>,
    /// What may be, or is just going.
    pub unclear: Vec<String>,
}

/// Whose an object is.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    /// The module's, the release's or Kubernetes' own, or it goes with another object there.
    Ours,
    /// Somebody else's.
    Theirs,
    /// It is going, or goes with something that is not there: Kubernetes removes it in a moment, or it is somebody else's.
    Unclear(String),
}

impl Content {
    /// Lists everything.
    pub async fn read(client: &Client) -> Result<Self, ApiError> {
        let Served { kinds, unknown } = served(client).await?;
        let mut content = Self {
            objects: Vec::new(),
            unknown: unknown
                .iter()
                .map(|api| format!("objects of API {api} that cannot be listed"))
                .collect(),
        };
        let kinds = kinds.into_iter().filter(|kind| !is_derived(kind));
        let mut lists = stream::iter(kinds)
            .map(|kind| async move { (list_there(client, &kind).await, kind) })
            .buffered(AT_ONCE);
        while let Some((list, kind)) = lists.next().await {
            match list {
                Ok(objects) => content.objects.extend(objects.into_iter().map(|object| Found {
                    kind: kind.clone(),
                    object,
                })),
                // Kubernetes passes over such a kind too when it empties a namespace.
                Err(error) if error.code() == Some(405) => {}
                Err(error) if is_about_kind(&error) => {
                    tracing::info!(%error, "nobody can tell what is there of a kind");
                    content
                        .unknown
                        .push(format!("{} that cannot be listed", kind.plural));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(content)
    }

    /// What the release has there, but for what its chart tells Helm to keep.
    pub fn of_release(&self) -> impl Iterator<Item = Leftover> {
        let of_release = self.objects.iter().filter(|found| is_of_release(&found.object));
        of_release.map(|Found { kind, object }| gone(object, Kind::new(&kind.api_version, &kind.kind)))
    }

    /// What others have there.
    pub fn of_others(&self) -> Others {
        let there: BTreeSet<_> = self
            .objects
            .iter()
            .filter_map(|found| found.object.uid())
            .collect();
        let mut others = Others {
            unclear: self.unknown.clone(),
            ..Others::default()
        };
        for Found { kind, object } in &self.objects {
            let name = format!("{} {}", kind.kind, object.name_any());
            match whose(kind, object, &there) {
                Whose::Ours => {}
                Whose::Theirs => others.theirs.push(name),
                Whose::Unclear(why) => others.unclear.push(format!("{name} {why}")),
            }
        }
        others.theirs.sort_unstable();
        others.unclear.sort_unstable();
        others
    }
}

/// True where the server of that kind is at fault, or nobody may list it, and not the operator or the whole API server.
fn is_about_kind(error: &ApiError) -> bool {
    let answer = error.code().is_some_and(|code| !matches!(code, 401 | 429));
    (answer && !error.is_missing_right()) || matches!(error, ApiError::TimedOut { .. })
}

fn is_derived(kind: &ApiResource) -> bool {
    kind.group == METRICS || DERIVED.contains(&(kind.group.as_str(), kind.kind.as_str()))
}

/// True for what bears the marks by which Helm knows the objects of the release.
fn is_marked(object: &PartialObjectMeta<DynamicObject>) -> bool {
    reduce::owner(&object.metadata).is_some_and(|owner| HelmOwner::is_module_release(&owner))
}

/// True for what an uninstall deletes.
pub(super) fn is_of_release(object: &PartialObjectMeta<DynamicObject>) -> bool {
    let policy = object.annotations().get("helm.sh/resource-policy");
    is_marked(object) && policy.is_none_or(|policy| policy != "keep")
}

fn whose(kind: &ApiResource, object: &PartialObjectMeta<DynamicObject>, there: &BTreeSet<String>) -> Whose {
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let core = |name| kind.group.is_empty() && kind.kind == name;
    // A dry run comes here with them; otherwise they are gone.
    let of_helm = core("Secret") && label("owner") == Some("helm") && label("name") == Some(RELEASE_NAME);
    let name = object.name_any();
    let is_everywhere = EVERYWHERE
        .iter()
        .any(|(kind, everywhere)| core(kind) && name == *everywhere);
    if is_marked(object)
        || of_helm
        || is_everywhere
        || label(LABEL_KYMA_MODULE) == Some(KYMA_MODULE)
        || nfd::is_feature_of_stack(kind, object)
    {
        return Whose::Ours;
    }
    let elsewhere = |owner: &&OwnerReference| !there.contains(&owner.uid) && !nvidia::is_of_stack(owner);
    let owners = object.owner_references();
    if let Some(owner) = owners.iter().find(elsewhere) {
        return Whose::Unclear(format!("of {} {}", owner.kind, owner.name));
    }
    // What something else there has made goes with that.
    if !owners.is_empty() {
        return Whose::Ours;
    }
    if object.metadata.deletion_timestamp.is_some() {
        return Whose::Unclear("that is being deleted".to_owned());
    }
    Whose::Theirs
}

#[cfg(test)]
mod tests {
    use kube::core::GroupVersionKind;
    use serde_json::{Value, json};

    use super::*;

    fn kind(group: &str, kind: &str) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
    }

    fn judge(of: &ApiResource, metadata: &Value) -> Whose {
        let there = BTreeSet::from(["here".to_owned()]);
        let object = json!({ "metadata": metadata });
        whose(of, &serde_json::from_value(object).unwrap(), &there)
    }

    fn core(of: &str, metadata: &Value) -> Whose {
        judge(&kind("", of), metadata)
    }

    #[test]
    fn only_what_nobody_of_the_stack_has_made_is_somebody_elses() {
        assert_eq!(
            judge(
                &kind("cert-manager.io", "Certificate"),
                &json!({ "name": "of-a-team" })
            ),
            Whose::Theirs
        );
        assert_eq!(core("ConfigMap", &json!({ "name": "default" })), Whose::Theirs);
        assert_eq!(core("ServiceAccount", &json!({ "name": "default" })), Whose::Ours);
        let of_release = |name: &str| json!({ "name": "a", "labels": { "owner": "helm", "name": name } });
        assert_eq!(core("Secret", &of_release("gpu-operator")), Whose::Ours);
        assert_eq!(core("Secret", &of_release("another")), Whose::Theirs);
        let of_module = |name: &str| json!({ "name": "a", "labels": { LABEL_KYMA_MODULE: name } });
        assert_eq!(core("RoleBinding", &of_module(KYMA_MODULE)), Whose::Ours);
        assert_eq!(core("ServiceMonitor", &of_module("telemetry")), Whose::Theirs);
    }

    #[test]
    fn kinds_are_told_by_their_group_too() {
        for (group, name) in DERIVED {
            assert!(is_derived(&kind(group, name)), "{name}");
            assert!(!is_derived(&kind("rent.test", name)), "{name}");
        }
        assert!(is_derived(&kind(METRICS, "PodMetrics")));
        assert!(!is_derived(&kind("", "ConfigMap")));
        let account = json!({ "name": "default" });
        assert_eq!(
            judge(&kind("rent.test", "ServiceAccount"), &account),
            Whose::Theirs
        );
        let secret = json!({ "name": "a", "labels": { "owner": "helm", "name": "gpu-operator" } });
        assert_eq!(judge(&kind("rent.test", "Secret"), &secret), Whose::Theirs);
    }

    #[test]
    fn what_belongs_to_something_elsewhere_may_be_somebody_elses() {
        let owned = |api_version: &str, kind: &str, uid: &str| {
            let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "o", "uid": uid });
            core("ConfigMap", &json!({ "name": "a", "ownerReferences": [owner] }))
        };
        assert_eq!(owned("apps/v1", "Deployment", "here"), Whose::Ours);
        assert_eq!(owned("nvidia.com/v1", "ClusterPolicy", "elsewhere"), Whose::Ours);
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("tenants.test/v1", "Tenant"),
            ("nvidia.com/v1", "Other"),
        ] {
            assert_eq!(
                owned(api_version, kind, "elsewhere"),
                Whose::Unclear(format!("of {kind} o")),
                "{kind}"
            );
        }
        let going = json!({ "name": "a", "deletionTimestamp": "2026-11-30T08:00:00Z" });
        assert_eq!(
            core("ConfigMap", &going),
            Whose::Unclear("that is being deleted".to_owned())
        );
    }

    #[test]
    fn what_cannot_be_listed_is_unclear() {
        let content = Content {
            objects: Vec::new(),
            unknown: vec!["widgets that cannot be listed".to_owned()],
        };
        let others = content.of_others();
        assert_eq!((others.theirs.len(), others.unclear.len()), (0, 1));
    }
}
