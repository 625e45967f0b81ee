//! Step 2, read-only I/O: what the watches have collected, and the live reads that a decision asks for.
//!
//! Each watch is isolated: a missing CRD, a 403 or a missing namespace delays that watch alone. Objects are reduced to
//! facts on arrival, and only changed facts wake the reconciler.

mod inspect;
mod kinds;
mod live;
mod nvidia;
mod objects;
mod orphans;
pub mod reduce;
mod removal;
mod start;
mod view;
mod watch;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Notify, watch as channel};

use crate::api::{CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD, STACK_DEPLOYMENT};
use crate::catalogue::MinorVersion;
use crate::drift::{Kind, Manifest};
use crate::facts::{
    CrdFacts, DaemonSetRole, DriverFacts, History, NodeFacts, Observed, OperandPod, OperandPods, PolicyFacts,
    ReleaseFacts, Revision,
};
use objects::ObjectViews;
use view::{Access, View};

pub use inspect::{Inspection, inspect};
pub use kinds::{Kinds, Served};
pub use live::{
    Look, kubernetes_version, look, may_read_history, missing_secrets, read_existing, read_history,
    read_readable, read_through_helm,
};
pub use orphans::{OrphansError, find_orphans};
pub use reduce::former_labels;
pub use removal::{has_gpu_clusters, is_in_use, left, unfinished_driver_upgrades};
pub use work::{gpu_work, maintenance_window};

#[cfg(test)]
mod tests;

/// Everything that is watched besides the GpuModule itself.
#[derive(Clone, Debug)]
pub struct Views {
    releases: View<Revision>,
    nodes: View<NodeFacts>,
    pods: View<OperandPod>,
    policies: View<PolicyFacts>,
    drivers: View<DriverFacts>,
    daemon_sets: View<DaemonSetRole>,
    /// NVIDIA's controller; true where it runs what its newest spec says.
    controller: View<bool>,
    crds: View<CrdFacts>,
    objects: ObjectViews,
    changes: channel::Receiver<u64>,
    retry: Arc<Notify>,
}

impl Views {
    /// Counts up with each change of facts.
    pub fn changes(&self) -> channel::Receiver<u64> {
        self.changes.clone()
    }

    /// Lets every watch that waits after an error try again at once.
    pub fn retry_now(&self) {
        self.retry.notify_waiters();
    }

    /// True once each watch has been answered, be it by a refusal.
    pub fn are_settled(&self) -> bool {
        self.unsettled().is_empty()
    }

    /// The kinds whose watch has not been answered yet. NVIDIA's own are only watched while their CRDs are there.
    pub fn unsettled(&self) -> Vec<&'static str> {
        let of_nvidia = |crd: &str, access| self.crds.contains(crd).then_some(access);
        let watches = [
            ("CustomResourceDefinitions", Some(self.crds.access())),
            ("Secrets", Some(self.releases.access())),
            ("Nodes", Some(self.nodes.access())),
            ("Pods", Some(self.pods.access())),
            ("DaemonSets", Some(self.daemon_sets.access())),
            ("Deployments", Some(self.controller.access())),
            (
                "ClusterPolicies",
                of_nvidia(CLUSTER_POLICY_CRD, self.policies.access()),
            ),
            (
                "NVIDIADrivers",
                of_nvidia(NVIDIA_DRIVER_CRD, self.drivers.access()),
            ),
        ];
        let unanswered = watches
            .into_iter()
            .filter(|(_, access)| *access == Some(Access::Unknown));
        unanswered.map(|(kind, _)| kind).collect()
    }

    /// Kinds of the cluster that are not known. Those of NVIDIA count only when they are forbidden: right after their CRDs came they are
    /// not answered yet, and before the first pass they are waited for. What lies in the release's namespace does not count:
    /// the operator may have no rights there yet.
    fn unread(&self) -> Vec<&'static str> {
        let unread = [
            ("CustomResourceDefinitions", self.crds.access() != Access::Granted),
            ("Nodes", self.nodes.access() != Access::Granted),
            ("DaemonSets", self.daemon_sets.access() != Access::Granted),
            ("ClusterPolicies", self.policies.access() == Access::Forbidden),
            ("NVIDIADrivers", self.drivers.access() == Access::Forbidden),
        ];
        unread
            .into_iter()
            .filter(|(_, unread)| *unread)
            .map(|(kind, _)| kind)
            .collect()
    }

    /// How kinds are served, as the watches have learnt it.
    pub fn kinds(&self) -> Kinds {
        self.objects.kinds()
    }

    /// Watches objects of exactly these kinds from now on, each with the namespace that a manifest names for them.
    pub fn follow(&self, places: &BTreeSet<(Kind, Option<String>)>) {
        self.objects.follow(places);
    }

    /// Worker pools that have nodes and none of these.
    fn pools_without(&self, gpu_nodes: &[NodeFacts]) -> BTreeMap<String, Timestamp> {
        let with: BTreeSet<_> = gpu_nodes.iter().filter_map(|node| node.pool.as_deref()).collect();
        self.nodes.fold(BTreeMap::new(), |mut pools, node| {
            if let Some(pool) = node.pool.as_deref().filter(|pool| !with.contains(pool)) {
                if let Some(first) = pools.get_mut(pool) {
                    *first = node.created.min(*first);
                } else {
                    pools.insert(pool.to_owned(), node.created);
                }
            }
            pools
        })
    }

    /// What the watches know now, also of the objects in `manifest`. `is_gpu_node` picks from the nodes that may be one.
    pub fn observe(
        &self,
        kubernetes: MinorVersion,
        manifest: Option<&Manifest>,
        is_gpu_node: impl Fn(&NodeFacts) -> bool,
    ) -> Observed {
        let release = match self.releases.access() {
            Access::Granted => ReleaseFacts::Read(History::new(self.releases.all())),
            Access::Unknown | Access::Forbidden | Access::NotServed => ReleaseFacts::Unreadable,
        };
        let (mut daemon_sets, mut neighbours) = (Vec::new(), Vec::new());
        for role in self.daemon_sets.all() {
            match role {
                DaemonSetRole::OfRelease(set) => daemon_sets.push(set),
                DaemonSetRole::Beside(neighbour) => neighbours.push(neighbour),
            }
        }
        let gpu_nodes = self.nodes.select(&is_gpu_node);
        Observed {
            unread: self.unread(),
            release,
            comparison: None,
            existing: None,
            surroundings: None,
            gpu_work: None,
            driver_upgrades: None,
            gpu_clusters: None,
            left: BTreeMap::new(),
            maintenance: None,
            pools_without_gpu: self.pools_without(&gpu_nodes),
            gpu_nodes,
            former_gpu_nodes: self
                .nodes
                .select(|node| node.has_own_label() && !is_gpu_node(node)),
            operand_pods: (self.pods.access() == Access::Granted).then(|| OperandPods::new(self.pods.all())),
            missing_pull_secrets: None,
            policies: self.policies.all(),
            drivers: self.drivers.all(),
            daemon_sets,
            neighbours,
            controller_runs: self.controller.get(STACK_DEPLOYMENT) == Some(true),
            crds: self.crds.by_name(),
            objects: manifest.map_or_else(BTreeMap::new, |manifest| self.objects.see(manifest)),
            kubernetes,
        }
    }
}
