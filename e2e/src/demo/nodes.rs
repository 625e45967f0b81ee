//! The nodes as the demo shows them.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use super::Screen;
use crate::cluster::POOL_LABEL;
use crate::simulated::names::{GPU_RESOURCE, NFD_PREFIX};

/// Prefix of the labels of NVIDIA's operator.
const NVIDIA_PREFIX: &str = "nvidia.com/";

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// Its worker pool, where Gardener made it.
    pub pool: Option<String>,
    /// Operating system as the kubelet reports it.
    pub os: String,
    /// Kernel as the kubelet reports it.
    pub kernel: String,
    /// GPUs that Pods can ask for.
    pub gpus: u32,
    /// Keys of the labels that NFD and NVIDIA's operator put on it.
    pub labels: BTreeSet<String>,
}

impl From<&Node> for NodeRow {
    fn from(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let allocatable = status.allocatable.unwrap_or_default();
        let gpus = allocatable.get(GPU_RESOURCE).map(|quantity| quantity.0.parse());
        let marked = |key: &&String| key.starts_with(NFD_PREFIX) || key.starts_with(NVIDIA_PREFIX);
        Self {
            name: node.name_any(),
            pool: node.labels().get(POOL_LABEL).cloned(),
            os: info.os_image,
            kernel: info.kernel_version,
            gpus: gpus.and_then(Result::ok).unwrap_or_default(),
            labels: node.labels().keys().filter(marked).cloned().collect(),
        }
    }
}

/// All nodes, by name.
pub async fn list(client: &Client) -> Result<Vec<NodeRow>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    Ok(nodes.iter().map(NodeRow::from).collect())
}

/// Shows the nodes as a table.
pub fn show(screen: &mut Screen<'_>, nodes: &[NodeRow]) {
    let row = |node: &NodeRow| {
        [
            node.name.clone(),
            node.pool.clone().unwrap_or_else(|| "-".to_owned()),
            node.os.clone(),
            node.kernel.clone(),
            node.gpus.to_string(),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    screen.table(
        ["NODE", "POOL", "OPERATING SYSTEM", "KERNEL", "GPUS ALLOCATABLE"],
        &rows,
    );
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;
    use crate::cluster::FakeNode;

    #[test]
    fn only_what_the_kubelet_announces_counts_as_a_gpu() {
        let mut node = FakeNode::with_gpus("gpu-0", 2)
            .label("nvidia.com/gpu.present", "true")
            .build();
        let row = NodeRow::from(&node);
        assert_eq!((row.gpus, row.pool.as_deref()), (0, Some("gpu")));
        assert_eq!(row.labels, BTreeSet::from(["nvidia.com/gpu.present".to_owned()]));

        let status = node.status.get_or_insert_default();
        let allocatable = status.allocatable.get_or_insert_default();
        allocatable.insert(GPU_RESOURCE.to_owned(), Quantity("2".to_owned()));
        assert_eq!(NodeRow::from(&node).gpus, 2);
    }
}
