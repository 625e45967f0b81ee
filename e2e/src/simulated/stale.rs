//! DaemonSets that the controller takes away again.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

use super::change::{Change, Kind};
use super::names;
use super::policy::text;
use super::view::{View, label};

const PRECOMPILED: &str = "nvidia.com/precompiled";

/// The DaemonSet of an operand that is switched off.
pub fn switched_off(view: &View, name: &str) -> Option<Change> {
    view.daemon_set(name).and_then(|found| deletion(found, false))
}

/// ClusterPolicy's precompiled driver DaemonSets that no node wants any more.
///
/// They go only while other driver DaemonSets are `wanted`: with the driver switched off they stay.
pub fn unused_kernels(view: &View, wanted: &[Value]) -> Vec<Change> {
    let labels = |daemon_set: &Value| daemon_set["metadata"]["labels"][PRECOMPILED] == "true";
    if !wanted.iter().any(labels) {
        return Vec::new();
    }
    let is_unused = |found: &&DaemonSet| {
        found
            .status
            .as_ref()
            .is_some_and(|status| status.desired_number_scheduled == 0 && status.number_misscheduled == 0)
    };
    view.daemon_sets
        .iter()
        .filter(|found| label(*found, PRECOMPILED) == Some("true") && !is_among(found, wanted))
        .filter(is_unused)
        .filter_map(|found| deletion(found, false))
        .collect()
}

/// ClusterPolicy's driver DaemonSets once NVIDIADrivers are used.
///
/// Since 26.7 their Pods go on running and are replaced node by node; before, all of them went at once.
pub fn replaced_layout(view: &View, since_26_7: bool) -> Vec<Change> {
    view.daemon_sets
        .iter()
        .filter(|found| found.name_any().starts_with(names::POLICY_DRIVER))
        .filter(|found| {
            found
                .owner_references()
                .iter()
                .any(|owner| owner.kind == Kind::ClusterPolicy.name())
        })
        .filter_map(|found| deletion(found, since_26_7))
        .collect()
}

/// DaemonSets of an NVIDIADriver for nodes that it no longer has.
pub fn lost_pools(view: &View, nvidia_driver: &DynamicObject, wanted: &[Value]) -> Vec<Change> {
    let uid = nvidia_driver.uid().unwrap_or_default();
    view.daemon_sets
        .iter()
        .filter(|found| found.owner_references().iter().any(|owner| owner.uid == uid))
        .filter(|found| !is_among(found, wanted))
        .filter_map(|found| deletion(found, false))
        .collect()
}

fn is_among(found: &DaemonSet, wanted: &[Value]) -> bool {
    wanted
        .iter()
        .any(|wanted| text(wanted, "/metadata/name") == found.name_any())
}

fn deletion(found: &DaemonSet, orphan: bool) -> Option<Change> {
    found
        .metadata
        .deletion_timestamp
        .is_none()
        .then(|| Change::Delete {
            kind: Kind::DaemonSet,
            name: found.name_any(),
            orphan,
        })
}
