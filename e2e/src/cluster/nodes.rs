//! Fake nodes that look like nodes of a Gardener cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

/// Annotation by which KWOK knows the nodes that it plays.
const KWOK_NODE: &str = "kwok.x-k8s.io/node";

/// Annotation with the number of GPUs in the machine. Nothing in Kubernetes shows this number before the
/// driver runs, so the simulated operator has to read it somewhere.
pub const HARDWARE_GPUS: &str = "simulated.gpu-manager.kyma-project.io/gpus";

/// Annotation with the product name of those GPUs, as GPU Feature Discovery spells it. Absent: a Tesla T4.
pub const HARDWARE_PRODUCT: &str = "simulated.gpu-manager.kyma-project.io/product";

/// Gardener's label with the name of the worker pool.
pub const POOL_LABEL: &str = "worker.gardener.cloud/pool";

/// A fake node: what is set here stays, KWOK only adds conditions and addresses.
///
/// The defaults are a machine without a GPU in a pool `worker`, with the operating system, kernel and
/// container runtime that a Gardener worker with Garden Linux 1877.13 reports.
#[derive(Clone, Debug)]
pub struct FakeNode {
    name: String,
    pool: String,
    instance_type: String,
    gpus: u32,
    product: Option<String>,
    os_image: String,
    kernel: String,
    architecture: String,
    container_runtime: String,
    kubelet: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl FakeNode {
    /// A machine without a GPU.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pool: "worker".to_owned(),
            instance_type: "m6i.large".to_owned(),
            gpus: 0,
            product: None,
            os_image: "Garden Linux 1877.13".to_owned(),
            kernel: "6.12.47-cloud-amd64".to_owned(),
            architecture: "amd64".to_owned(),
            container_runtime: "containerd://2.1.4".to_owned(),
            kubelet: "v1.36.3".to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// A machine with `gpus` NVIDIA GPUs, in a pool `gpu`.
    pub fn with_gpus(name: &str, gpus: u32) -> Self {
        Self {
            gpus,
            ..Self::new(name).pool("gpu").instance_type("g6.xlarge")
        }
    }

    /// Sets the product name of the GPUs, for example `NVIDIA-A100-SXM4-40GB`.
    #[must_use]
    pub fn product(self, product: &str) -> Self {
        Self {
            product: Some(product.to_owned()),
            ..self
        }
    }

    /// Sets the worker pool.
    #[must_use]
    pub fn pool(self, pool: &str) -> Self {
        Self {
            pool: pool.to_owned(),
            ..self
        }
    }

    /// Sets the provider's name of the machine type.
    #[must_use]
    pub fn instance_type(self, instance_type: &str) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            ..self
        }
    }

    /// Sets the operating system as the kubelet reports it, for example `Ubuntu 24.04.2 LTS`.
    #[must_use]
    pub fn os_image(self, os_image: &str) -> Self {
        Self {
            os_image: os_image.to_owned(),
            ..self
        }
    }

    /// Sets the kernel release.
    #[must_use]
    pub fn kernel(self, kernel: &str) -> Self {
        Self {
            kernel: kernel.to_owned(),
            ..self
        }
    }

    /// Sets the architecture as Go names it, for example `arm64`.
    #[must_use]
    pub fn architecture(self, architecture: &str) -> Self {
        Self {
            architecture: architecture.to_owned(),
            ..self
        }
    }

    /// Sets the container runtime, for example `containerd://2.1.4`.
    #[must_use]
    pub fn container_runtime(self, container_runtime: &str) -> Self {
        Self {
            container_runtime: container_runtime.to_owned(),
            ..self
        }
    }

    /// Sets the kubelet's version.
    #[must_use]
    pub fn kubelet(self, kubelet: &str) -> Self {
        Self {
            kubelet: kubelet.to_owned(),
            ..self
        }
    }

    /// Adds or replaces a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint, for example with the effect `NoSchedule`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.taints.push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// The object to create.
    pub fn build(&self) -> Node {
        let mut annotations = BTreeMap::from([(KWOK_NODE.to_owned(), "fake".to_owned())]);
        if self.gpus > 0 {
            annotations.insert(HARDWARE_GPUS.to_owned(), self.gpus.to_string());
            let product = self.product.clone();
            annotations.extend(product.map(|product| (HARDWARE_PRODUCT.to_owned(), product)));
        }
        // Without GPUs: a node announces them only once a device plugin runs on it.
        let resources = strings([("cpu", "8"), ("memory", "32Gi"), ("pods", "110")]);
        let resources: BTreeMap<_, _> = resources.map(|(key, value)| (key, Quantity(value))).collect();
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: Some(self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(resources.clone()),
                capacity: Some(resources),
                node_info: Some(NodeSystemInfo {
                    architecture: self.architecture.clone(),
                    container_runtime_version: self.container_runtime.clone(),
                    kernel_version: self.kernel.clone(),
                    kubelet_version: self.kubelet.clone(),
                    operating_system: "linux".to_owned(),
                    os_image: self.os_image.clone(),
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let standard = strings([
            ("kubernetes.io/hostname", &self.name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", &self.architecture),
            ("node.kubernetes.io/instance-type", &self.instance_type),
            ("topology.kubernetes.io/region", "eu-central-1"),
            ("topology.kubernetes.io/zone", "eu-central-1a"),
            ("worker.gardener.cloud/cri-name", "containerd"),
            (
                "worker.gardener.cloud/kubernetes-version",
                self.kubelet.trim_start_matches('v'),
            ),
            (POOL_LABEL, &self.pool),
        ]);
        standard.chain(self.labels.clone()).collect()
    }
}

fn strings<'a, const N: usize>(pairs: [(&'a str, &'a str); N]) -> impl Iterator<Item = (String, String)> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_shows_in_the_annotation_and_not_in_the_resources() {
        let node = FakeNode::with_gpus("gpu-0", 2).label("team", "a").build();
        assert_eq!(node.metadata.annotations.unwrap()[HARDWARE_GPUS], "2");
        let labels = node.metadata.labels.unwrap();
        assert_eq!(
            (labels[POOL_LABEL].as_str(), labels["team"].as_str()),
            ("gpu", "a")
        );
        assert!(
            !node
                .status
                .unwrap()
                .capacity
                .unwrap()
                .contains_key("nvidia.com/gpu")
        );
    }
}
