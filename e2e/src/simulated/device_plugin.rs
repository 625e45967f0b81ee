//! The part of the device plugin: which resources the GPUs of a node become.
//!
//! Time slicing multiplies a resource and keeps its name; partitions go by the name of GPUs (`single`) or of their profile
//! (`mixed`). No recording tells of either: this follows NVIDIA's k8s-device-plugin (`internal/rm`, `internal/lm`). A Pod keeps what it
//! was started with, as with the real one, so a change counts once NVIDIA's controller has replaced it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use serde_json::Value;

use super::hardware::{Model, model};
use super::mig_manager::{Layout, layout};
use super::names;
use super::policy::{at, text};
use super::view::{View, hardware_gpus, is_ready, label};

/// What a node's GPUs are offered as.
#[derive(Debug)]
pub struct Offer {
    /// The GPUs.
    pub model: &'static Model,
    /// How many of them.
    gpus: u32,
    /// How partitions are offered: `none`, `single` or `mixed`.
    strategy: String,
    /// How often each resource is offered, where that is more than once.
    replicas: BTreeMap<String, u32>,
    /// How the GPUs are partitioned.
    layout: Option<Layout>,
}

impl Offer {
    /// As the ready Pod with this `app` label sees it: the device plugin or GPU Feature Discovery, which are configured alike.
    pub fn seen_by(view: &View, node: &Node, app: &str) -> Option<Self> {
        let pod = view
            .pods_on(&node.name_any(), "app", app)
            .find(|pod| is_ready(pod))?;
        let strategy = match environment(pod, "MIG_STRATEGY") {
            "" => "none",
            strategy => strategy,
        };
        Some(Self {
            model: model(node),
            gpus: hardware_gpus(node),
            strategy: strategy.to_owned(),
            replicas: replicas(view, node, pod),
            layout: layout(node),
        })
    }

    /// Whether Pods take turns on a GPU.
    pub fn is_time_sliced(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// What the kubelet is told: how many there are of each resource.
    pub fn resources(&self) -> BTreeMap<String, u32> {
        let (name, count) = match &self.layout {
            Some(layout) if self.strategy == "single" => {
                (names::GPU_RESOURCE.to_owned(), self.gpus * layout.per_gpu)
            }
            Some(layout) if self.strategy == "mixed" => (partition(layout), self.gpus * layout.per_gpu),
            _ => (names::GPU_RESOURCE.to_owned(), self.gpus),
        };
        let count = count * self.replicas(&name);
        let offered = (count > 0).then_some((name, count));
        offered.into_iter().collect()
    }

    /// GPU Feature Discovery's labels about product, number and sharing of each resource, without their prefix.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let whole = self.layout.is_none();
        let mut labels = self.describe("gpu", self.model.product.to_owned(), self.gpus, whole);
        if self.strategy != "none" {
            labels.insert("mig.strategy".to_owned(), self.strategy.clone());
        }
        let Some(layout) = &self.layout else {
            return labels;
        };
        let product = format!("{}-MIG-{}", self.model.product, layout.profile);
        let count = self.gpus * layout.per_gpu;
        match self.strategy.as_str() {
            "single" => labels.extend(self.describe("gpu", product, count, true)),
            "mixed" => {
                let key = format!("mig-{}", layout.profile);
                labels.extend(self.describe(&key, product, count, true));
            }
            _ => {}
        }
        labels
    }

    fn describe(
        &self,
        key: &str,
        mut product: String,
        count: u32,
        offered: bool,
    ) -> BTreeMap<String, String> {
        let replicas = if offered {
            self.replicas(&format!("{}{key}", names::NVIDIA_PREFIX))
        } else {
            0
        };
        if replicas > 1 {
            product.push_str("-SHARED");
        }
        BTreeMap::from([
            (format!("{key}.product"), product),
            (format!("{key}.count"), count.to_string()),
            (format!("{key}.replicas"), replicas.to_string()),
        ])
    }

    fn replicas(&self, resource: &str) -> u32 {
        self.replicas.get(resource).copied().unwrap_or(1)
    }
}

fn partition(layout: &Layout) -> String {
    format!("{}mig-{}", names::NVIDIA_PREFIX, layout.profile)
}

/// The replicas of each resource, from the ConfigMap that the Pod mounts; none if it cannot be read.
fn replicas(view: &View, node: &Node, pod: &Pod) -> BTreeMap<String, u32> {
    let entry = label(node, names::PLUGIN_CONFIG).unwrap_or_else(|| environment(pod, "DEFAULT_CONFIG"));
    let config: Value = mounted(pod)
        .and_then(|name| view.config_maps.iter().find(|found| found.name_any() == name))
        .and_then(|found| serde_saphyr::from_str(found.data.as_ref()?.get(entry)?).ok())
        .unwrap_or_default();
    let resources = at(&config, "/sharing/timeSlicing/resources").as_array();
    resources
        .into_iter()
        .flatten()
        .filter_map(|resource| {
            let replicas = resource["replicas"].as_u64()?.try_into().ok()?;
            (replicas > 1).then(|| (text(resource, "/name").to_owned(), replicas))
        })
        .collect()
}

/// The name of the ConfigMap that a Pod mounts.
fn mounted(pod: &Pod) -> Option<&str> {
    let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
    let maps = volumes.iter().filter_map(|volume| volume.config_map.as_ref());
    maps.map(|map| map.name.as_str()).next()
}

/// An environment variable of a Pod's container; empty without it.
fn environment<'a>(pod: &'a Pod, name: &str) -> &'a str {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let variables = container
        .into_iter()
        .flat_map(|container| container.env.iter().flatten());
    let mut values = variables.filter(|variable| variable.name == name);
    values
        .next()
        .and_then(|variable| variable.value.as_deref())
        .unwrap_or_default()
}
