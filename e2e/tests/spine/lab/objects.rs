//! The objects of the module's release, whatever their kinds.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::inventory::differences;
use e2e::manager::MANAGER;
use e2e::wait::eventually;
use gpu_manager::drift::{Manifest, ObjectRef};
use gpu_manager::observe::Kinds;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::Value;

use super::{Lab, STEP};
use e2e::cluster::Mark;

/// The objects of the newest revision, and how to ask for them.
pub struct Objects {
    pub kinds: Kinds,
    pub manifest: Manifest,
}

impl Objects {
    /// Reads the manifest through Helm.
    pub async fn of(lab: &Lab) -> Result<Self> {
        let documents = lab.helm_release(&["get", "manifest"], &[]).await?;
        let manifest = Manifest::parse(1, "uid", &documents)
            .map_err(|reason| anyhow!("the manifest cannot be read: {reason}"))?;
        Ok(Self {
            kinds: Kinds::new(lab.cluster.client()),
            manifest,
        })
    }

    /// All of them.
    pub fn all(&self) -> Vec<ObjectRef> {
        self.manifest.refs().cloned().collect()
    }

    /// One by kind and name.
    pub fn find(&self, kind: &str, name: &str) -> Result<ObjectRef> {
        let mut all = self.manifest.refs();
        let found = all.find(|object| object.kind.kind == kind && object.name == name);
        found
            .cloned()
            .with_context(|| format!("no {kind} {name} in the manifest"))
    }

    /// Where an object lies.
    pub async fn api(&self, object: &ObjectRef) -> Result<Api<DynamicObject>> {
        let served = self.kinds.resolve(&object.kind).await?;
        let served = served.with_context(|| format!("{object} is of a kind that is not served"))?;
        Ok(served.api(self.kinds.client(), object.namespace.as_deref()))
    }

    /// An object as it is now; `None`: missing.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<DynamicObject>> {
        Ok(self.api(object).await?.get_opt(&object.name).await?)
    }

    /// Deletes an object.
    pub async fn delete(&self, object: &ObjectRef) -> Result<()> {
        let api = self.api(object).await?;
        api.delete(&object.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Changes an object as `manager` by a merge patch, for kinds of Kubernetes by a strategic one.
    pub async fn patch(&self, object: &ObjectRef, manager: &str, patch: &Value) -> Result<()> {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(object).await?;
        let built_in =
            !object.kind.api_version.contains('.') || object.kind.api_version.contains(".k8s.io/v1");
        if built_in {
            api.patch(&object.name, &params, &Patch::Strategic(patch)).await
        } else {
            api.patch(&object.name, &params, &Patch::Merge(patch)).await
        }
        .with_context(|| format!("changing {object}"))?;
        Ok(())
    }

    /// What counts of every object, to be compared later.
    pub async fn snapshot(&self) -> Result<BTreeMap<ObjectRef, Value>> {
        let mut snapshot = BTreeMap::new();
        for object in self.all() {
            let live = self
                .get(&object)
                .await?
                .with_context(|| format!("{object} is missing"))?;
            snapshot.insert(object, essence(&live));
        }
        Ok(snapshot)
    }

    /// Waits until every object is as it was.
    pub async fn until_restored(&self, lab: &Lab, snapshot: &BTreeMap<ObjectRef, Value>) -> Result<()> {
        let restored = eventually("all objects to be as the release made them", STEP, async || {
            for (object, wanted) in snapshot {
                let live = self
                    .get(object)
                    .await?
                    .with_context(|| format!("{object} is missing"))?;
                let live = essence(&live);
                let differences = differences(&live, wanted, "");
                ensure!(differences.is_empty(), "{object}: {differences:#?}");
            }
            Ok(())
        });
        restored.await.with_context(|| lab.logs())
    }
}

/// An object without status and what the API server and Kubernetes' controllers keep in it.
fn essence(object: &DynamicObject) -> Value {
    let mut essence = object.data.clone();
    essence["status"] = Value::Null;
    let mut annotations = object.metadata.annotations.clone().unwrap_or_default();
    annotations.remove("deployment.kubernetes.io/revision");
    annotations.remove("deprecated.daemonset.template.generation");
    essence["metadata"] = serde_json::json!({ "labels": object.metadata.labels, "annotations": annotations });
    essence
}

impl Lab {
    /// Requests of the operator since a mark that changed something, its Lease, its status and Events aside.
    pub fn changes_since(&self, mark: Mark) -> Result<Vec<String>> {
        let account = format!("system:serviceaccount:{MANAGER}:{MANAGER}");
        let events = self.cluster.audit().since(mark)?.into_iter();
        let changes = events.filter(|event| {
            let uri = &event.request_uri;
            event.user.username == account
                && !["get", "list", "watch"].contains(&event.verb.as_str())
                && !uri.contains("dryRun=All")
                && !uri.contains("/leases/")
                && !uri.contains("/status?")
                && !uri.contains("/events")
        });
        Ok(changes
            .map(|event| format!("{} {}", event.verb, event.request_uri))
            .collect())
    }
}
