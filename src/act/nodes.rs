//! Sets and takes off labels by which NVIDIA's operator knows what to do on a node.
//!
//! That which keeps it off by a server-side apply of it alone and without force, so that the node's `managedFields` tell whose it is and nobody else's
//! label is ever overwritten. The UID in it keeps an apply to a Node that is gone from making one.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{PartialObjectMeta, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::FIELD_MANAGER;
use crate::facts::{DRIVER_CHANGE_LABEL, OPERANDS_LABEL, OPERANDS_OFF};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};
use crate::lease::Mandate;
use crate::plan::{LabelChange, NodeLabel};

/// Nodes that are labelled at once.
const AT_ONCE: usize = 8;

/// Labels nodes, for which a mandate is used up. Each ends in its own way; one that is gone or has somebody else's label by now
/// is as it should be.
pub async fn label(client: &Client, _: Mandate, labels: &[NodeLabel]) -> Vec<Result<(), ApiError>> {
    let each: Vec<_> = labels.iter().map(|label| apply(client, label)).collect();
    futures::stream::iter(each).buffered(AT_ONCE).collect().await
}

async fn apply(client: &Client, label: &NodeLabel) -> Result<(), ApiError> {
    let NodeLabel { node, uid, change } = label;
    let nodes = Api::<Node>::all(client.clone());
    let call = async {
        match change {
            // What an apply leaves out and the same manager had applied before is removed.
            LabelChange::KeepOut => {
                apply_labels(&nodes, node, uid, json!({ OPERANDS_LABEL: OPERANDS_OFF })).await
            }
            LabelChange::LetIn => apply_labels(&nodes, node, uid, json!({})).await,
            LabelChange::EndDriverChange => {
                let without = json!({ "metadata": { "uid": uid, "labels": { DRIVER_CHANGE_LABEL: null } } });
                let params = PatchParams {
                    field_manager: Some(FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                nodes.patch_metadata(node, &params, &Patch::Merge(&without)).await
            }
        }
    };
    match deadline(API_DEADLINE, format!("label Node {node}"), call).await {
        Ok(_) => {
            tracing::info!(node, ?change, "told NVIDIA's operator what to do on a node");
            Ok(())
        }
        // No Node, another one of that name (its UID is immutable), or a label that somebody else owns.
        Err(error) if error.is_conflict() || error.is_not_found() || error.is_invalid() => {
            tracing::debug!(node, %error, "the Node is another one, or its label somebody else's");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn apply_labels(
    nodes: &Api<Node>,
    node: &str,
    uid: &str,
    labels: Value,
) -> kube::Result<PartialObjectMeta<Node>> {
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node, "uid": uid, "labels": labels },
    });
    let params = PatchParams::apply(FIELD_MANAGER);
    nodes.patch_metadata(node, &params, &Patch::Apply(&wanted)).await
}
