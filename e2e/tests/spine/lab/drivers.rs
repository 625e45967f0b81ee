//! The driver Pods of the simulated nodes: which run, and when one was deleted.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Mark;
use e2e::wait::eventually;
use gpu_manager::api::RELEASE_NAMESPACE;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::{Lab, STEP};

/// What every driver Pod carries, whichever object describes the driver.
const DRIVER: &str = "app.kubernetes.io/component=nvidia-driver";

/// A Pod of NVIDIA's driver.
#[derive(Debug)]
pub struct DriverPod {
    /// Its label `app`, the name of its DaemonSet.
    pub app: String,
    /// Image of the driver.
    pub image: String,
    ready: bool,
}

impl DriverPod {
    fn new(pod: &Pod) -> Self {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let driver = containers
            .filter(|container| container.name == "nvidia-driver-ctr")
            .find_map(|container| container.image.clone());
        let mut conditions = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        Self {
            app: pod.labels().get("app").cloned().unwrap_or_default(),
            image: driver.unwrap_or_default(),
            ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        }
    }
}

/// The driver Pods that ran at some time.
#[derive(Debug)]
pub struct RunningDrivers {
    names: Vec<String>,
    revision: u32,
    since: Mark,
}

impl RunningDrivers {
    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Lab {
    /// The driver Pods that run now.
    pub async fn running_drivers(&self) -> Result<RunningDrivers> {
        let newest = self.history().await?.last().context("no revision")?.0;
        self.running_drivers_at(newest).await
    }

    /// The same, where the newest revision is known.
    pub async fn running_drivers_at(&self, revision: u32) -> Result<RunningDrivers> {
        let since = self.cluster.audit().mark()?;
        let pods = Api::<Pod>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let pods = pods.list(&ListParams::default().labels(DRIVER)).await?.items;
        ensure!(pods.len() == 2, "{} driver Pods", pods.len());
        Ok(RunningDrivers {
            names: pods.iter().map(kube::ResourceExt::name_any).collect(),
            revision,
            since,
        })
    }

    /// Fails unless each of these Pods was deleted, and not before that revision was made.
    ///
    /// The audit log tells it: all requests of all clients, in their order.
    pub fn ensure_drivers_outlived(&self, drivers: &RunningDrivers, revision: u32) -> Result<()> {
        let secrets = format!("/api/v1/namespaces/{RELEASE_NAMESPACE}/secrets");
        let pods = format!("/api/v1/namespaces/{RELEASE_NAMESPACE}/pods");
        let (mut newest, mut deleted) = (drivers.revision, Vec::new());
        for event in self.cluster.audit().since(drivers.since)? {
            let path = event.request_uri.split('?').next().unwrap_or_default();
            // Helm creates a Secret for each revision before anything else of it.
            if event.verb == "create" && path == secrets && event.user_agent.starts_with("Helm/") {
                newest += 1;
            }
            let pod = path
                .strip_prefix(&pods)
                .filter(|_| event.verb.starts_with("delete"));
            let Some(pod) = pod.map(|name| name.trim_start_matches('/')) else {
                continue;
            };
            // A deletion without a name is one of all Pods.
            if pod.is_empty() || drivers.names.iter().any(|name| name == pod) {
                let who = &event.user.username;
                ensure!(newest >= revision, "{who} deleted {path} at revision {newest}");
                deleted.push(pod.to_owned());
            }
        }
        let all = drivers.names.iter().all(|name| deleted.contains(name));
        ensure!(all, "of {:?} only {deleted:?} were deleted", drivers.names);
        Ok(())
    }

    /// Waits until every driver DaemonSet has that in its image, whatever its Pods run.
    pub async fn until_driver_daemon_sets(&self, image: &str) -> Result<()> {
        let sets = Api::<DaemonSet>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels(DRIVER);
        let changed = eventually("driver DaemonSets with the new image", STEP, async || {
            let sets = sets.list(&params).await?.items;
            let images: Vec<_> = sets
                .iter()
                .filter_map(|set| {
                    set.spec
                        .as_ref()?
                        .template
                        .spec
                        .as_ref()?
                        .containers
                        .first()?
                        .image
                        .clone()
                })
                .collect();
            ensure!(
                !images.is_empty() && images.iter().all(|found| found.contains(image)),
                "{images:?}"
            );
            Ok(())
        });
        changed.await.with_context(|| self.logs())
    }

    /// Waits until each of these Pods is gone, and fails if one was deleted before that revision was made.
    pub async fn until_drivers_gone(&self, drivers: &RunningDrivers, revision: u32) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels(DRIVER);
        let gone = eventually("the old driver Pods to be gone", STEP, async || {
            let left = pods.list(&params).await?.items;
            let left: Vec<_> = left.iter().map(kube::ResourceExt::name_any).collect();
            ensure!(drivers.names.iter().all(|name| !left.contains(name)), "{left:?}");
            Ok(())
        });
        gone.await.with_context(|| self.logs())?;
        self.ensure_drivers_outlived(drivers, revision)
    }

    /// Waits until both GPU nodes have a ready driver Pod of that kind and no other.
    pub async fn until_drivers_run(&self, wanted: impl Fn(&DriverPod) -> bool) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels(DRIVER);
        let rolled = eventually("the new driver on both nodes", STEP, async || {
            let pods = pods.list(&params).await?.items;
            let pods: Vec<_> = pods.iter().map(DriverPod::new).collect();
            ensure!(
                pods.len() == 2 && pods.iter().all(|pod| pod.ready && wanted(pod)),
                "{pods:?}"
            );
            Ok(())
        });
        rolled.await.with_context(|| self.logs())
    }
}
