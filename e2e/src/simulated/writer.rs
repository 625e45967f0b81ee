//! Sends changes to the API server.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Client, Error};
use serde_json::Value;

use super::change::{Change, Kind};
use super::hash::fnv1a;
use super::{names, programs};

/// Sends changes, and remembers which objects it has applied as they are.
pub struct Writer {
    client: Client,
    applied: HashMap<(Kind, String), u32>,
}

impl Writer {
    /// A writer that has written nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            applied: HashMap::new(),
        }
    }

    /// Forgets what was applied: it may be gone.
    pub fn forget(&mut self) {
        self.applied.clear();
    }

    /// Sends all changes in order; says whether all arrived. Those that did not will be planned again.
    pub async fn write(&mut self, changes: Vec<Change>) -> bool {
        let mut complete = true;
        for change in changes {
            if let Err(error) = self.send(&change).await {
                complete = false;
                tracing::debug!("The simulated operator could not make a change: {error:#}");
            }
        }
        complete
    }

    async fn send(&mut self, change: &Change) -> Result<()> {
        let merge = PatchParams {
            field_manager: Some(programs::CONTROLLER.to_owned()),
            ..PatchParams::default()
        };
        match change {
            Change::Apply { kind, object } => self.apply(*kind, object).await,
            Change::Delete { kind, name, orphan } => {
                let policy = if *orphan {
                    PropagationPolicy::Orphan
                } else {
                    PropagationPolicy::Background
                };
                let parameters = DeleteParams {
                    propagation_policy: Some(policy),
                    ..DeleteParams::default()
                };
                gone_is_fine(self.dynamic(*kind).delete(name, &parameters).await.map(drop))
                    .with_context(|| format!("deleting {} {name}", kind.name()))
            }
            Change::DeletePod { name } => {
                gone_is_fine(self.pods().delete(name, &DeleteParams::default()).await.map(drop))
                    .with_context(|| format!("deleting Pod {name}"))
            }
            Change::Node { name, patch } => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                for (program, patch) in programs::split(patch) {
                    let params = PatchParams {
                        field_manager: Some(program.to_owned()),
                        ..PatchParams::default()
                    };
                    gone_is_fine(nodes.patch(name, &params, &Patch::Merge(patch)).await.map(drop))
                        .with_context(|| format!("labelling node {name}"))?;
                }
                Ok(())
            }
            Change::NodeStatus { name, patch } => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                gone_is_fine(
                    nodes
                        .patch_status(name, &merge, &Patch::Merge(patch))
                        .await
                        .map(drop),
                )
                .with_context(|| format!("status of node {name}"))
            }
            Change::PodStatus { name, patch } => gone_is_fine(
                self.pods()
                    .patch_status(name, &merge, &Patch::Merge(patch))
                    .await
                    .map(drop),
            )
            .with_context(|| format!("status of Pod {name}")),
            Change::Status { kind, name, patch } => {
                let objects = self.dynamic(*kind);
                gone_is_fine(
                    objects
                        .patch_status(name, &merge, &Patch::Merge(patch))
                        .await
                        .map(drop),
                )
                .with_context(|| format!("status of {} {name}", kind.name()))
            }
        }
    }

    async fn apply(&mut self, kind: Kind, object: &Value) -> Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = (kind, name.to_owned());
        let content = fnv1a(&object.to_string());
        // DaemonSets are planned only when they differ; the rest is planned always.
        if kind != Kind::DaemonSet && self.applied.get(&key) == Some(&content) {
            return Ok(());
        }
        let parameters = PatchParams::apply(programs::CONTROLLER).force();
        self.dynamic(kind)
            .patch(name, &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("applying {} {name}", kind.name()))?;
        self.applied.insert(key, content);
        Ok(())
    }

    fn dynamic(&self, kind: Kind) -> Api<DynamicObject> {
        let resource = kind.api_resource();
        if kind.is_namespaced() {
            Api::namespaced_with(self.client.clone(), names::NAMESPACE, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }
}

/// What is gone meanwhile needs no change.
fn gone_is_fine(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
