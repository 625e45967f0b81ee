//! The part of the MIG manager: GPUs are partitioned as the node's label says, and another label says whether they are.
//!
//! The real one also stops what uses the GPUs and may restart the machine; here it takes no time. Every GPU of a node gets the
//! same layout, since only the layouts `all-disabled` and `all-<profile>` are known.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::hardware::{Model, model};
use super::names;
use super::view::{View, label};

/// How the GPUs of a node are partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The profile, for example `1g.5gb`.
    pub profile: String,
    /// Partitions of each GPU.
    pub per_gpu: u32,
}

/// Brings the labels about the layout up to date, where a MIG manager runs.
pub fn pass(view: &View, nodes: &mut [Node]) {
    for node in nodes {
        if !view.app_ready_on(&node.name_any(), names::MIG_MANAGER_APP) {
            continue;
        }
        let Some(wanted) = label(node, names::MIG_CONFIG) else {
            continue;
        };
        let known = wanted == "all-disabled" || layout_named(wanted, model(node)).is_some();
        let state = if known { "success" } else { "failed" };
        node.labels_mut()
            .insert(names::MIG_CONFIG_STATE.to_owned(), state.to_owned());
    }
}

/// The layout that the node has; `None`: its GPUs are whole.
pub fn layout(node: &Node) -> Option<Layout> {
    if label(node, names::MIG_CONFIG_STATE) != Some("success") {
        return None;
    }
    layout_named(label(node, names::MIG_CONFIG)?, model(node))
}

/// `all-1g.5gb` and the like: as many partitions as the GPU has slices for.
fn layout_named(name: &str, model: &Model) -> Option<Layout> {
    let profile = name.strip_prefix("all-")?;
    let (slices, memory) = profile.split_once("g.")?;
    memory.strip_suffix("gb")?.parse::<u32>().ok()?;
    let per_gpu = model.slices.checked_div(slices.parse().ok()?)?;
    (per_gpu > 0).then(|| Layout {
        profile: profile.to_owned(),
        per_gpu,
    })
}
