//! Driver changes, node by node, as NVIDIA's upgrade controller makes them.
//!
//! A node goes through labels: `upgrade-required`, cordon, `pod-restart-required`, validation,
//! uncordon, `upgrade-done`. Each pass moves a node one step. The controller looks at restarted Pods
//! only every two minutes; here a `tick` stands for that moment. GPU Pods of users are not evicted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::change::is_cordoned;
use super::names;
use super::policy::{Setup, UpgradePolicy};
use super::view::{View, is_ready, label, node_of};

/// Restarts after which a driver Pod that is not ready counts as failed.
pub const FAILED_RESTARTS: i32 = 10;

/// One pass over all nodes with a driver Pod; returns the driver Pods to be deleted.
pub fn advance(setup: &Setup<'_>, view: &View, nodes: &mut [Node], tick: bool) -> Vec<String> {
    let groups: Vec<(Option<String>, UpgradePolicy)> = if setup.uses_nvidia_drivers() {
        let drivers = view.nvidia_drivers.iter();
        drivers
            .map(|driver| (Some(driver.name_any()), UpgradePolicy::of_driver(driver)))
            .collect()
    } else {
        vec![(None, UpgradePolicy::of_policy(setup))]
    };
    let pods = driver_pods(view);
    let mut deletions = Vec::new();
    for (owner, policy) in groups {
        let in_group = |node: &Node| owner.is_none() || label(node, names::DRIVER_OWNER) == owner.as_deref();
        if !policy.auto_upgrade {
            let members = nodes.iter_mut().filter(|node| in_group(node));
            members.for_each(|node| drop(node.labels_mut().remove(names::UPGRADE_STATE)));
            continue;
        }
        let Some(pods) = &pods else { continue };
        // A node whose new driver Pod is not bound yet has none to look at, but its change goes on.
        let is_changing = |node: &Node| label(node, names::UPGRADE_STATE).is_some();
        let mut members: Vec<&mut Node> = nodes
            .iter_mut()
            .filter(|node| in_group(node) && (is_changing(node) || pods.contains_key(&node.name_any())))
            .collect();
        if owner.is_some() {
            mark_orphans(pods, &mut members);
        }
        let mut slots = free_slots(&policy, &members);
        for node in members {
            if let Some(pods) = pods.get(&node.name_any()) {
                deletions.extend(step(view, node, pods, &mut slots, tick));
            }
        }
    }
    deletions
}

/// Driver Pods by node. `None` while a DaemonSet has not yet as many Pods as it wants: the
/// controller does nothing then.
fn driver_pods(view: &View) -> Option<BTreeMap<String, Vec<&Pod>>> {
    let is_driver = |pod: &&Pod| label(*pod, names::COMPONENT) == Some(names::DRIVER_COMPONENT);
    for daemon_set in &view.daemon_sets {
        if label(daemon_set, names::COMPONENT) != Some(names::DRIVER_COMPONENT) {
            continue;
        }
        let uid = daemon_set.uid();
        let owned = view
            .pods
            .iter()
            .filter(is_driver)
            .filter(|pod| pod.owner_references().first().map(|owner| &owner.uid) == uid.as_ref())
            .count();
        let desired = daemon_set
            .status
            .as_ref()
            .map_or(0, |status| status.desired_number_scheduled);
        if usize::try_from(desired) != Ok(owned) {
            return None;
        }
    }
    let mut by_node: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in view.pods.iter().filter(is_driver) {
        if let Some(node) = node_of(pod) {
            by_node.entry(node.to_owned()).or_default().push(pod);
        }
    }
    Some(by_node)
}

/// Pods that ClusterPolicy left behind when NVIDIADriver took over must be replaced.
fn mark_orphans(pods: &BTreeMap<String, Vec<&Pod>>, members: &mut [&mut Node]) {
    for node in members {
        let mut here = pods.get(&node.name_any()).into_iter().flatten();
        let orphaned = here.any(|pod| pod.owner_references().is_empty());
        if orphaned
            && matches!(
                label(*node, names::UPGRADE_STATE),
                None | Some("" | "upgrade-done")
            )
        {
            set_state(node, "upgrade-required");
        }
    }
}

/// How many further nodes may begin their change now.
fn free_slots(policy: &UpgradePolicy, members: &[&mut Node]) -> usize {
    let state = |node: &Node| label(node, names::UPGRADE_STATE).unwrap_or_default().to_owned();
    let waiting = members
        .iter()
        .filter(|node| state(node) == "upgrade-required")
        .count();
    let idle = members
        .iter()
        .filter(|node| matches!(state(node).as_str(), "" | "upgrade-done"))
        .count();
    let in_progress = members.len() - waiting - idle;
    let unavailable = members
        .iter()
        .filter(|node| is_cordoned(node) || !is_node_ready(node) || state(node) == "cordon-required")
        .count();
    let allowed = match policy.max_parallel {
        0 => waiting,
        limit => limit.saturating_sub(in_progress),
    };
    allowed.min(policy.unavailable_of(members.len()).saturating_sub(unavailable))
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    !conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status != "True")
}

/// Moves one node a step on; returns the Pods to be deleted on it.
fn step(view: &View, node: &mut Node, pods: &[&Pod], slots: &mut usize, tick: bool) -> Vec<String> {
    let state = label(node, names::UPGRADE_STATE).unwrap_or_default().to_owned();
    let outdated: Vec<&&Pod> = pods
        .iter()
        .filter(|pod| view.is_current(pod) == Some(false))
        .collect();
    let to_replace = || pods.iter().filter(|pod| view.is_current(pod) != Some(true));
    let all_ready = to_replace().next().is_none() && pods.iter().all(|pod| is_ready(pod));
    match state.as_str() {
        "" | "upgrade-done" if tick => {
            if !outdated.is_empty() {
                if is_cordoned(node) {
                    let annotations = node.annotations_mut();
                    annotations.insert(names::UPGRADE_WAS_CORDONED.to_owned(), "true".to_owned());
                }
                set_state(node, "upgrade-required");
            } else if state.is_empty() {
                set_state(node, "upgrade-done");
            }
        }
        "upgrade-required" if label(node, names::UPGRADE_SKIP) == Some("true") => {}
        "upgrade-required" if *slots > 0 || is_cordoned(node) => {
            *slots = slots.saturating_sub(1);
            set_state(node, "cordon-required");
        }
        "cordon-required" => {
            node.spec.get_or_insert_default().unschedulable = Some(true);
            set_state(node, "wait-for-jobs-required");
        }
        "wait-for-jobs-required" => set_state(node, "pod-deletion-required"),
        "pod-deletion-required" => set_state(node, "pod-restart-required"),
        "pod-restart-required" => {
            if to_replace().next().is_some() {
                return to_replace()
                    .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                    .map(|pod| pod.name_any())
                    .collect();
            }
            if tick && all_ready {
                set_state(node, "validation-required");
            } else if tick && pods.iter().any(|pod| is_failing(pod)) {
                set_state(node, "upgrade-failed");
            }
        }
        "upgrade-failed" if all_ready => finish(node),
        "validation-required" if view.app_ready_on(&node.name_any(), names::VALIDATOR_APP) => finish(node),
        "uncordon-required" => {
            node.spec.get_or_insert_default().unschedulable = None;
            set_state(node, "upgrade-done");
        }
        _ => {}
    }
    Vec::new()
}

/// A node that was cordoned before stays so.
fn finish(node: &mut Node) {
    let was_cordoned = node
        .annotations_mut()
        .remove(names::UPGRADE_WAS_CORDONED)
        .is_some();
    set_state(
        node,
        if was_cordoned {
            "upgrade-done"
        } else {
            "uncordon-required"
        },
    );
}

fn is_failing(pod: &Pod) -> bool {
    pod.status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .any(|container| !container.ready && container.restart_count > FAILED_RESTARTS)
}

fn set_state(node: &mut Node, state: &str) {
    node.labels_mut()
        .insert(names::UPGRADE_STATE.to_owned(), state.to_owned());
}

/// Whether a node of an NVIDIADriver is in the middle of a driver change, or failed in it.
pub fn is_incomplete(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| {
        label(node, names::DRIVER_OWNER).is_some()
            && label(node, names::UPGRADE_SKIP) != Some("true")
            && !matches!(
                label(node, names::UPGRADE_STATE),
                None | Some("" | "upgrade-done")
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A controller with a ClusterPolicy, two nodes in the given states and a driver Pod on the second.
    fn advance_two(states: [&str; 2], tick: bool) -> Vec<Value> {
        let view: View = View {
            deployments: vec![
                serde_json::from_value(json!({
                    "metadata": {"name": names::OPERATOR_DEPLOYMENT},
                    "status": {"availableReplicas": 1},
                }))
                .unwrap(),
            ],
            cluster_policies: vec![
                serde_json::from_value(json!({
                    "metadata": {"name": "cluster-policy"},
                    "spec": {"driver": {"upgradePolicy": {"autoUpgrade": true}}},
                }))
                .unwrap(),
            ],
            pods: vec![
                serde_json::from_value(json!({
                    "metadata": {"name": "driver", "labels": {(names::COMPONENT): names::DRIVER_COMPONENT}},
                    "spec": {"nodeName": "gpu-1", "containers": []},
                }))
                .unwrap(),
            ],
            ..View::default()
        };
        let mut nodes: Vec<Node> = ["gpu-0", "gpu-1"]
            .iter()
            .zip(states)
            .map(|(name, state)| {
                let labels = json!({(names::UPGRADE_STATE): state});
                serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
            })
            .collect();
        let setup = Setup::find(&view).unwrap();
        advance(&setup, &view, &mut nodes, tick);
        let state = |node: &Node| json!(label(node, names::UPGRADE_STATE));
        nodes.iter().map(state).collect()
    }

    #[test]
    fn a_node_without_a_bound_driver_pod_still_takes_its_slot() {
        assert_eq!(
            advance_two(["pod-restart-required", "upgrade-required"], false),
            ["pod-restart-required", "upgrade-required"]
        );
        assert_eq!(
            advance_two(["upgrade-done", "upgrade-required"], false),
            ["upgrade-done", "cordon-required"]
        );
    }
}
