//! The heartbeats that kubelets send: writes to nodes that change nothing but a time.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// Lets every node report that it is alive, as its kubelet does, and returns how many there are.
pub async fn heartbeat(nodes: &Api<Node>) -> Result<usize> {
    let list = nodes.list(&ListParams::default()).await?;
    for node in &list {
        let mut conditions = node
            .status
            .as_ref()
            .and_then(|status| status.conditions.clone())
            .context("a node has no conditions")?;
        for condition in &mut conditions {
            let now = k8s_openapi::jiff::Timestamp::now();
            condition.last_heartbeat_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        }
        let patch = Patch::Strategic(json!({ "status": { "conditions": conditions } }));
        nodes
            .patch_status(&node.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    Ok(list.items.len())
}
