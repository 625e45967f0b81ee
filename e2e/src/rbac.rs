//! Derives the operator's rights: what helm needs to install, upgrade, roll back and remove NVIDIA's charts, from what
//! the charts render, and the operator's own list.
//!
//! Of the charts two things count: the kinds of objects they create, and every right their own roles grant (the API
//! server lets nobody grant a right that they do not hold, so holding them all makes `escalate` and a free `bind`
//! unnecessary). From the same renders come the names that the admission policy allows, and the tables of the
//! documentation.

mod kinds;
mod own;
mod power;
mod render;
mod ruleset;
mod table;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize;
use serde_json::Value;

pub use kinds::Kinds;
pub use own::{CLUSTER, HOME, Own, RELEASE, rights};
pub use render::{Sources, derive, versions};
pub use ruleset::RuleSet;

/// Verbs that helm uses on an object of a release: server-side apply (`create` and
/// `patch`), the ownership check before it (`get`), and removal; and those by which
/// helm follows its hooks and the operator everything else.
const OBJECT_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];
/// Verbs the operator uses on the charts' CRDs, which it applies before helm runs, and reads and deletes at the end of a removal if it is
/// told to.
const CRD_VERBS: &[&str] = &["create", "delete", "get", "patch"];

const CRD_GROUP: &str = "apiextensions.k8s.io";
const CRD_RESOURCE: &str = "customresourcedefinitions";

/// Rights of one scope, by why they are needed.
#[derive(Debug, Default)]
pub struct Rights {
    /// On the charts' CRDs.
    pub crds: RuleSet,
    /// On objects of the charts.
    pub made: RuleSet,
    /// Granted by the charts' own roles.
    pub granted: RuleSet,
    /// The operator's own of the same role.
    own: RuleSet,
}

impl Rights {
    /// What is held only because the charts' roles grant it.
    pub fn only_granted(&self) -> RuleSet {
        self.granted
            .without(&self.own)
            .without(&self.crds)
            .without(&self.made)
    }

    /// All of them.
    pub fn all(&self) -> RuleSet {
        let mut all = self.own.clone();
        for set in [&self.crds, &self.made, &self.granted] {
            all.join(set);
        }
        all
    }
}

/// The rights that the renders seen so far need.
#[derive(Debug)]
pub struct ReleaseRights {
    kinds: Kinds,
    /// Needed in the whole cluster.
    pub cluster: Rights,
    /// Needed in the release namespace alone.
    pub namespaced: Rights,
    /// What each role of a chart grants, by its name and the chart's version.
    grants: BTreeMap<(String, String), RuleSet>,
    /// Names of the ClusterRoles and ClusterRoleBindings.
    roles: BTreeSet<String>,
    /// Names of the CRDs.
    crds: BTreeSet<String>,
}

/// The part of a role that matters here.
#[derive(Deserialize)]
struct Role {
    #[serde(default)]
    rules: Vec<PolicyRule>,
}

impl Default for ReleaseRights {
    fn default() -> Self {
        Self::new()
    }
}

impl ReleaseRights {
    /// The rights that do not depend on any chart.
    pub fn new() -> Self {
        let namespaced = Rights {
            own: rights(RELEASE),
            ..Rights::default()
        };
        Self {
            kinds: Kinds::default(),
            cluster: Rights::default(),
            namespaced,
            grants: BTreeMap::new(),
            roles: BTreeSet::new(),
            crds: BTreeSet::new(),
        }
    }

    /// Adds a chart's CRDs (`helm show crds`), so that their kinds are known.
    pub fn add_crds(&mut self, manifest: &str) -> Result<()> {
        for crd in documents(manifest)? {
            let name = self.kinds.learn(&crd)?;
            self.cluster
                .crds
                .allow(CRD_GROUP, CRD_RESOURCE, &[&name], CRD_VERBS);
            self.crds.insert(name);
        }
        Ok(())
    }

    /// Adds one render of a chart (`helm template`, hooks included).
    pub fn add_render(&mut self, version: &str, manifest: &str) -> Result<()> {
        for object in documents(manifest)? {
            let (kind, name) = (text(&object, "/kind")?, text(&object, "/metadata/name")?);
            self.add_object(version, &object)
                .with_context(|| format!("{kind} {name}"))?;
        }
        Ok(())
    }

    fn add_object(&mut self, version: &str, object: &Value) -> Result<()> {
        let (group, kind) = group_and_kind(object)?;
        let name = text(object, "/metadata/name")?;
        let resource = self.kinds.resource(group, kind)?;
        let scope = if resource.namespaced {
            &mut self.namespaced
        } else {
            &mut self.cluster
        };
        scope.made.allow(group, &resource.plural, &[], OBJECT_VERBS);
        if matches!(kind, "ClusterRole" | "ClusterRoleBinding") {
            self.roles.insert(name.to_owned());
        }
        if matches!(kind, "ClusterRole" | "Role") {
            ensure!(
                object.get("aggregationRule").is_none(),
                "an aggregated role's rights cannot be derived from the chart"
            );
            let role: Role = serde_json::from_value(object.clone())?;
            let key = (format!("{kind} {name}"), version.to_owned());
            let grants = self.grants.entry(key).or_default();
            for rule in &role.rules {
                scope.granted.grant(rule)?;
                grants.grant(rule)?;
            }
        }
        Ok(())
    }

    /// Everything that the operator may do in the whole cluster, for itself and for the release.
    pub fn in_the_whole_cluster(&self) -> RuleSet {
        let mut all = self.cluster.all();
        all.join(&rights(CLUSTER));
        all
    }

    /// The generated files below the repository's root, each with its content.
    pub fn files(&self, root: &Path) -> Result<Vec<(PathBuf, String)>> {
        let document = root.join("docs/contributor/rbac.md");
        let text = std::fs::read_to_string(&document)
            .with_context(|| format!("{} cannot be read", document.display()))?;
        let folder = root.join("hack/deploy/rbac");
        Ok(vec![
            (folder.join("manager.yaml"), yaml::manager()?),
            (folder.join("release.yaml"), yaml::release(self)?),
            (folder.join("admission.yaml"), yaml::admission(self)),
            (document, table::in_document(&text, self)?),
        ])
    }
}

/// Group (empty for the core) and kind of an object.
fn group_and_kind(object: &Value) -> Result<(&str, &str)> {
    let group = text(object, "/apiVersion")?
        .split_once('/')
        .map_or("", |(group, _)| group);
    Ok((group, text(object, "/kind")?))
}

/// The non-empty documents of a YAML stream.
fn documents(manifest: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(manifest).context("helm's output is not YAML")?;
    Ok(all.into_iter().filter(|doc| !doc.is_null()).collect())
}

/// The string at a JSON pointer.
fn text<'a>(object: &'a Value, pointer: &str) -> Result<&'a str> {
    match object.pointer(pointer).and_then(Value::as_str) {
        Some(text) => Ok(text),
        None => bail!("an object has no string at {pointer}"),
    }
}

#[cfg(test)]
mod tests;
