//! Starts the watches: which objects, narrowed to what is needed, and what they are reduced to.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client};
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

        let pods = View::default();
        let kind = ApiResource::erase::<Pod>(&());
        let api = Api::<reduce::SlimPod>::namespaced_with(client.clone(), RELEASE_NAMESPACE, &kind);
        let of_operands = anything().labels(reduce::OPERAND_PODS);
        spawn(Box::pin(watched.clone().run(
            api,
            of_operands,
            Resource::of::<Pod>(namespace),
            pods.clone(),
            reduce::operand_pod,
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
