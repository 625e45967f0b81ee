//! Watches the cluster and keeps the copy from which a [`View`] is made.
//!
//! Every watch stands alone: one whose CRD does not exist yet asks again and again, and the others go
//! on. Any event wakes the operator.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_all};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::change::Kind;
use super::names;
use super::view::{View, label};

/// Pause after a watch failed, mostly because its CRD is not there yet.
const RETRY: Duration = Duration::from_millis(300);

/// The copies of all watched objects.
pub struct Cache {
    nodes: Watched<Node>,
    pods: Watched<Pod>,
    daemon_sets: Watched<DaemonSet>,
    revisions: Watched<ControllerRevision>,
    deployments: Watched<Deployment>,
    config_maps: Watched<ConfigMap>,
    crds: Watched<PartialObjectMeta<CustomResourceDefinition>>,
    nfd_pods: Watched<Pod>,
    node_feature_rules: Watched<DynamicObject>,
    cluster_policies: Watched<DynamicObject>,
    nvidia_drivers: Watched<DynamicObject>,
    prune_seen: Arc<AtomicBool>,
}

struct Watched<K: Resource + 'static>
where
    K::DynamicType: Eq + Hash,
{
    store: Store<K>,
    is_complete: Arc<AtomicBool>,
}

impl Cache {
    /// Starts all watches in `tasks`; each event notifies `wake`.
    pub fn start(client: &Client, wake: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let custom = |resource: ApiResource| {
            (
                Api::<DynamicObject>::all_with(client.clone(), &resource),
                resource,
            )
        };
        let rule = GroupVersionKind::gvk("nfd.k8s-sigs.io", "v1alpha1", "NodeFeatureRule");
        let (rules, rule) = custom(ApiResource::from_gvk(&rule));
        let (policies, policy) = custom(Kind::ClusterPolicy.api_resource());
        let (drivers, driver) = custom(Kind::NvidiaDriver.api_resource());
        let prune_seen = Arc::new(AtomicBool::new(false));

        let mut watch = Watch { wake, tasks };
        Self {
            nodes: watch.typed(Api::all(client.clone()), |_| {}),
            pods: watch.typed(Api::namespaced(client.clone(), names::NAMESPACE), {
                let prune_seen = Arc::clone(&prune_seen);
                move |pod| {
                    if is_pruning(pod) {
                        prune_seen.store(true, Ordering::SeqCst);
                    }
                }
            }),
            daemon_sets: watch.typed(Api::namespaced(client.clone(), names::NAMESPACE), |_| {}),
            revisions: watch.typed(Api::namespaced(client.clone(), names::NAMESPACE), |_| {}),
            deployments: watch.typed(Api::namespaced(client.clone(), names::NAMESPACE), |_| {}),
            config_maps: watch.typed(Api::namespaced(client.clone(), names::NAMESPACE), |_| {}),
            crds: watch.typed(Api::all(client.clone()), |_| {}),
            nfd_pods: watch.follow(
                watch_all(
                    Api::<Pod>::all(client.clone()),
                    watcher::Config::default().labels(names::NFD_CHART),
                ),
                (),
                |_| {},
            ),
            node_feature_rules: watch.follow(watch_all(rules, watcher::Config::default()), rule, |_| {}),
            cluster_policies: watch.follow(watch_all(policies, watcher::Config::default()), policy, |_| {}),
            nvidia_drivers: watch.follow(watch_all(drivers, watcher::Config::default()), driver, |_| {}),
            prune_seen,
        }
    }

    /// The cluster as it stands; `None` while a watch has not seen all there is.
    pub fn view(&self) -> Option<View> {
        let crds: BTreeSet<String> = self.crds.list()?.iter().map(ResourceExt::name_any).collect();
        let custom = |watched: &Watched<DynamicObject>, crd: &str| {
            if crds.contains(crd) {
                watched.list()
            } else {
                Some(Vec::new())
            }
        };
        Some(View {
            nodes: self.nodes.list()?,
            pods: self.pods.list()?,
            daemon_sets: self.daemon_sets.list()?,
            revisions: self.revisions.list()?,
            deployments: self.deployments.list()?,
            config_maps: self.config_maps.list()?,
            nfd_pods: self.nfd_pods.list()?,
            node_feature_rules: custom(&self.node_feature_rules, "nodefeaturerules.nfd.k8s-sigs.io")?,
            cluster_policies: custom(&self.cluster_policies, "clusterpolicies.nvidia.com")?,
            nvidia_drivers: custom(&self.nvidia_drivers, "nvidiadrivers.nvidia.com")?,
            crds,
        })
    }

    /// Whether NFD's prune Job has run since [`Cache::forget_prune`].
    pub fn prune_seen(&self) -> bool {
        self.prune_seen.load(Ordering::SeqCst)
    }

    /// To be called once the Job's work is done.
    pub fn forget_prune(&self) {
        self.prune_seen.store(false, Ordering::SeqCst);
    }
}

impl<K> Watched<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    /// All objects, sorted by name; `None` until the first list is complete.
    fn list(&self) -> Option<Vec<K>> {
        if !self.is_complete.load(Ordering::SeqCst) {
            return None;
        }
        let mut objects: Vec<K> = self.store.state().iter().map(|object| K::clone(object)).collect();
        objects.sort_by_key(ResourceExt::name_any);
        Some(objects)
    }
}

struct Watch<'a> {
    wake: &'a Arc<Notify>,
    tasks: &'a mut JoinSet<()>,
}

impl Watch<'_> {
    fn typed<K>(&mut self, api: Api<K>, look: impl Fn(&K) + Send + 'static) -> Watched<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.follow(watch_all(api, watcher::Config::default()), (), look)
    }

    fn follow<K>(
        &mut self,
        events: impl futures::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
        kind: K::DynamicType,
        look: impl Fn(&K) + Send + 'static,
    ) -> Watched<K>
    where
        K: Resource + Clone + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Send + Sync,
    {
        let mut writer = Writer::new(kind);
        let store = writer.as_reader();
        let is_complete = Arc::new(AtomicBool::new(false));
        let (wake, complete) = (Arc::clone(self.wake), Arc::clone(&is_complete));
        self.tasks.spawn(async move {
            let mut events = std::pin::pin!(events.backoff(Pause));
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                writer.apply_watcher_event(&event);
                match &event {
                    Event::Apply(object) | Event::InitApply(object) => look(object),
                    Event::InitDone => complete.store(true, Ordering::SeqCst),
                    Event::Delete(_) | Event::Init => {}
                }
                wake.notify_one();
            }
        });
        Watched { store, is_complete }
    }
}

fn is_pruning(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    label(pod, "job-name") == Some(names::NFD_PRUNE_JOB) && matches!(phase, Some("Running" | "Succeeded"))
}

/// The same short pause after each failure.
struct Pause;

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(RETRY)
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {}
}
