//! Sets and takes off the label that keeps NVIDIA's operator off a node.
//!
//! By a server-side apply of that label alone and without force, so that the node's `managedFields` tell whose it is and nobody else's
//! label is ever overwritten. The UID in it keeps an apply to a Node that is gone from making one.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::api::FIELD_MANAGER;
use crate::facts::{OPERANDS_LABEL, OPERANDS_OFF};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};
use crate::lease::Mandate;
use crate::plan::NodeLabel;

/// Nodes that are labelled at once.
const AT_ONCE: usize = 8;

/// Labels nodes, for which a mandate is used up. Each ends in its own way; one that is gone or has somebody else's label by now
/// is as it should be.
pub async fn label(client: &Client, _: Mandate, labels: &[NodeLabel]) -> Vec<Result<(), ApiError>> {
    let each: Vec<_> = labels.iter().map(|label| apply(client, label)).collect();
    futures::stream::iter(each).buffered(AT_ONCE).collect().await
}

async fn apply(client: &Client, label: &NodeLabel) -> Result<(), ApiError> {
    let NodeLabel { node, uid, keep_out } = label;
    let mut wanted = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node, "uid": uid },
    });
    // What an apply leaves out and the same manager had applied before is removed.
    if *keep_out {
        wanted["metadata"]["labels"] = json!({ OPERANDS_LABEL: OPERANDS_OFF });
    }
    let nodes = Api::<Node>::all(client.clone());
    let params = PatchParams::apply(FIELD_MANAGER);
    let patch = Patch::Apply(&wanted);
    let call = nodes.patch_metadata(node, &params, &patch);
    match deadline(API_DEADLINE, format!("label Node {node}"), call).await {
        Ok(_) => {
            tracing::info!(node, keep_out, "told NVIDIA's operator whether to keep off");
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
