//! Starts the watches: which objects, narrowed to what is needed, and what they are reduced to.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as KubeResource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch as channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::kinds::Kinds;
use super::objects::ObjectViews;
use super::view::View;
use super::watch::Watched;
use super::{Views, live, nvidia, reduce};
use crate::api::{CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD, RELEASE_NAMESPACE, STACK_DEPLOYMENT};
use crate::contact::{Contacts, Resource};
use crate::facts::CrdFacts;

/// Nodes or Pods of the stack that are listed at a time. A page lies in memory as a whole, at ten times the size that it has as JSON, and
/// the allocator keeps what was once needed.
const PAGE: u32 = 100;

/// Starts one watch after the other.
struct Starter<'a> {
    client: &'a Client,
    watched: Watched,
    tracker: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Starter<'_> {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker
            .spawn(async move { stop.run_until_cancelled(task).await });
    }

    /// Watches for ever.
    fn watch<K, F>(
        &self,
        api: Api<K>,
        config: watcher::Config,
        resource: Resource,
        reduce: impl Fn(&K) -> Option<F> + Send + 'static,
    ) -> View<F>
    where
        K: KubeResource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        F: Clone + PartialEq + Send + Sync + 'static,
    {
        let view = View::default();
        let watched = self.watched.clone();
        self.spawn(watched.run(api, config, resource, view.clone(), reduce));
        view
    }

    /// Watches a kind of NVIDIA's as long as its CRD is there.
    fn watch_while_served<F>(
        &self,
        crd: &'static str,
        crds: &View<CrdFacts>,
        kind: &ApiResource,
        reduce: fn(&DynamicObject) -> Option<F>,
    ) -> View<F>
    where
        F: Clone + PartialEq + Send + Sync + 'static,
    {
        let view = View::default();
        let api = Api::all_with(self.client.clone(), kind);
        let resource = Resource::new(&kind.group, &kind.plural, None);
        let watched = self.watched.clone();
        self.spawn(watched.run_while_served(crd, crds.clone(), api, resource, view.clone(), reduce));
        view
    }
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
        let starter = Starter {
            client,
            watched: watched.clone(),
            tracker,
            stop,
        };
        let anything = watcher::Config::default;
        let namespace = Some(RELEASE_NAMESPACE);

        let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
        let resource = Resource::of::<CustomResourceDefinition>(None);
        let crds = starter.watch(api, anything(), resource, |crd| Some(reduce::crd(crd)));

        let api = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), RELEASE_NAMESPACE);
        let of_release = anything().labels(&live::release_selector());
        let resource = Resource::of::<Secret>(namespace);
        let releases = starter.watch(api, of_release, resource, reduce::revision);

        let api = Api::<Node>::all(client.clone());
        let pages = anything().page_size(PAGE);
        let nodes = starter.watch(api, pages, Resource::of::<Node>(None), reduce::node);

        let kind = ApiResource::erase::<Pod>(&());
        let api = Api::<reduce::SlimPod>::namespaced_with(client.clone(), RELEASE_NAMESPACE, &kind);
        let of_operands = anything().labels(reduce::OPERAND_PODS).page_size(PAGE);
        let resource = Resource::of::<Pod>(namespace);
        let pods = starter.watch(api, of_operands, resource, reduce::operand_pod);

        // In all namespaces: what others run beside the release counts too.
        let api = Api::<DaemonSet>::all(client.clone());
        let resource = Resource::of::<DaemonSet>(None);
        let daemon_sets = starter.watch(api, anything(), resource, reduce::daemon_set);

        let api = Api::<Deployment>::namespaced(client.clone(), RELEASE_NAMESPACE);
        let only = anything().fields(&format!("metadata.name={STACK_DEPLOYMENT}"));
        let resource = Resource::of::<Deployment>(namespace);
        let controller = starter.watch(api, only, resource, |deployment| {
            Some(reduce::runs_newest(deployment))
        });

        let kind = nvidia::cluster_policy();
        let policies = starter.watch_while_served(CLUSTER_POLICY_CRD, &crds, &kind, |policy| {
            Some(reduce::policy(policy))
        });
        let kind = nvidia::nvidia_driver();
        let drivers = starter.watch_while_served(NVIDIA_DRIVER_CRD, &crds, &kind, |driver| {
            Some(reduce::driver(driver))
        });

        Self {
            releases,
            nodes,
            pods,
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
}
