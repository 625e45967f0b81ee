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
mod reduce;
mod view;
mod watch;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::{Notify, watch as channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD, RELEASE_NAMESPACE, STACK_DEPLOYMENT};
use crate::catalogue::MinorVersion;
use crate::contact::{Contacts, Resource};
use crate::drift::{Kind, Manifest};
use crate::facts::{
    CrdFacts, DaemonSetRole, DriverFacts, History, NodeFacts, Observed, PolicyFacts, ReleaseFacts, Revision,
};
use objects::ObjectViews;
use view::{Access, View};
use watch::Watched;

pub use inspect::{Inspection, inspect};
pub use kinds::Kinds;
pub use live::{
    Look, kubernetes_version, look, may_read_history, read_existing, read_history, read_status,
    read_through_helm,
};
pub use orphans::{OrphansError, find_orphans};
pub use work::{gpu_work, maintenance_window};

#[cfg(test)]
mod tests;

/// Everything that is watched besides the GpuModule itself.
#[derive(Clone, Debug)]
pub struct Views {
    releases: View<Revision>,
    nodes: View<NodeFacts>,
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
    /// Starts all watches on `tracker`; they end with `stop`.
    pub fn start(
        client: &Client,
        contacts: &Contacts,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let (sender, changes) = channel::channel(0);
        let retry = Arc::new(Notify::new());
        let watched = Watched {
            contacts: contacts.clone(),
            changed: Arc::new(sender),
            retry: Arc::clone(&retry),
        };
        let spawn = |task: futures::future::BoxFuture<'static, ()>| {
            let stop = stop.clone();
            tracker.spawn(async move { stop.run_until_cancelled(task).await });
        };
        let anything = watcher::Config::default;
        let namespace = Some(RELEASE_NAMESPACE);

        let crds = View::default();
        let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
        let resource = Resource::of::<CustomResourceDefinition>(None);
        spawn(Box::pin(watched.clone().run(
            api,
            anything(),
            resource,
            crds.clone(),
            |crd: &_| Some(reduce::crd(crd)),
        )));

        let releases = View::default();
        let api = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), RELEASE_NAMESPACE);
        let of_release = anything().labels(&live::release_selector());
        let resource = Resource::of::<Secret>(namespace);
        spawn(Box::pin(watched.clone().run(
            api,
            of_release,
            resource,
            releases.clone(),
            reduce::revision,
        )));

        let nodes = View::default();
        let api = Api::<Node>::all(client.clone());
        spawn(Box::pin(watched.clone().run(
            api,
            anything(),
            Resource::of::<Node>(None),
            nodes.clone(),
            reduce::node,
        )));

        let daemon_sets = View::default();
        // In all namespaces: what others run beside the release counts too.
        let api = Api::<DaemonSet>::all(client.clone());
        let resource = Resource::of::<DaemonSet>(None);
        spawn(Box::pin(watched.clone().run(
            api,
            anything(),
            resource,
            daemon_sets.clone(),
            reduce::daemon_set,
        )));

        let controller = View::default();
        let api = Api::<Deployment>::namespaced(client.clone(), RELEASE_NAMESPACE);
        let resource = Resource::of::<Deployment>(namespace);
        spawn(Box::pin(watched.clone().run(
            api,
            anything().fields(&format!("metadata.name={STACK_DEPLOYMENT}")),
            resource,
            controller.clone(),
            |deployment: &Deployment| Some(reduce::runs_newest(deployment)),
        )));

        let policies = View::default();
        let kind = nvidia::cluster_policy();
        let resource = Resource::new(&kind.group, &kind.plural, None);
        let task = watched.clone().run_while_served(
            CLUSTER_POLICY_CRD,
            crds.clone(),
            Api::all_with(client.clone(), &kind),
            resource,
            policies.clone(),
            |policy: &_| Some(reduce::policy(policy)),
        );
        spawn(Box::pin(task));

        let drivers = View::default();
        let kind = nvidia::nvidia_driver();
        let resource = Resource::new(&kind.group, &kind.plural, None);
        let task = watched.clone().run_while_served(
            NVIDIA_DRIVER_CRD,
            crds.clone(),
            Api::all_with(client.clone(), &kind),
            resource,
            drivers.clone(),
            |driver: &_| Some(reduce::driver(driver)),
        );
        spawn(Box::pin(task));

        Self {
            releases,
            nodes,
            policies,
            drivers,
            daemon_sets,
            controller,
            crds,
            objects: ObjectViews::new(Kinds::new(client.clone()), watched, tracker, stop),
            changes,
            retry,
        }
    }

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
        Observed {
            unread: self.unread(),
            release,
            comparison: None,
            existing: None,
            surroundings: None,
            gpu_work: None,
            maintenance: None,
            gpu_nodes: self.nodes.select(is_gpu_node),
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
