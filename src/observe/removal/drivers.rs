//! Nodes in the middle of a driver upgrade.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::facts::{DriverChange, NodeIds};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};

/// Selects nodes whose driver upgrade is not done.
const UNFINISHED: &str =
    "nvidia.com/gpu-driver-upgrade-state,nvidia.com/gpu-driver-upgrade-state!=upgrade-done";

/// NVIDIA's operator notes by it that a node was cordoned before the upgrade began, and leaves it so
/// (`vendor/github.com/NVIDIA/k8s-operator-libs/pkg/upgrade` of gpu-operator v26.7.0).
const WAS_CORDONED: &str = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";

/// Nodes that NVIDIA's operator has cordoned for a driver upgrade, or may cordon any moment.
pub async fn unfinished_driver_upgrades(client: &Client) -> Result<NodeIds, ApiError> {
    let nodes = Api::<Node>::all(client.clone());
    let params = ListParams::default().labels(UNFINISHED);
    let what = "list the Nodes whose driver is being replaced";
    let list = deadline(API_DEADLINE, what, nodes.list_metadata(&params)).await?;
    let unfinished = list.items.into_iter().filter(|node| {
        DriverChange::of(node.labels()).is_some() && !node.annotations().contains_key(WAS_CORDONED)
    });
    Ok(unfinished
        .map(|node| (node.name_any(), node.uid().unwrap_or_default()))
        .collect())
}
