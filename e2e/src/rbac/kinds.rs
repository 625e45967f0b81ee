//! Which resource a kind is: its plural and its scope.
//!
//! Kinds of Kubernetes are listed here; the charts' own are learnt from their CRDs.
//! An unknown kind is an error, so a new one in a chart is looked at by a person.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::Value;

use super::text;

/// Kinds of built-in APIs (and of the Prometheus operator, whose CRDs are in no
/// chart): group, kind, plural, namespaced.
const BUILT_IN: &[(&str, &str, &str, bool)] = &[
    ("", "ConfigMap", "configmaps", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("apps", "DaemonSet", "daemonsets", true),
    ("apps", "Deployment", "deployments", true),
    ("batch", "Job", "jobs", true),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors", true),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", true),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
    ),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
];

/// How the API names a kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    /// The name in URLs and rules.
    pub plural: String,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
}

/// The kinds known so far.
#[derive(Debug)]
pub struct Kinds(BTreeMap<(String, String), Resource>);

impl Default for Kinds {
    fn default() -> Self {
        let entry = |&(group, kind, plural, namespaced): &(&str, &str, &str, bool)| {
            let resource = Resource {
                plural: plural.to_owned(),
                namespaced,
            };
            ((group.to_owned(), kind.to_owned()), resource)
        };
        Self(BUILT_IN.iter().map(entry).collect())
    }
}

impl Kinds {
    /// Learns the kind that a CRD declares; returns the CRD's name.
    pub fn learn(&mut self, crd: &Value) -> Result<String> {
        let key = (
            text(crd, "/spec/group")?.to_owned(),
            text(crd, "/spec/names/kind")?.to_owned(),
        );
        let resource = Resource {
            plural: text(crd, "/spec/names/plural")?.to_owned(),
            namespaced: text(crd, "/spec/scope")? == "Namespaced",
        };
        self.0.insert(key, resource);
        Ok(text(crd, "/metadata/name")?.to_owned())
    }

    /// The resource of a kind.
    pub fn resource(&self, group: &str, kind: &str) -> Result<Resource> {
        match self.0.get(&(group.to_owned(), kind.to_owned())) {
            Some(resource) => Ok(resource.clone()),
            None => bail!(
                "kind {kind} of group {group:?} is unknown: add it to the table in e2e/src/rbac/kinds.rs"
            ),
        }
    }
}
