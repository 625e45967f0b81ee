//! Names that NVIDIA's stack uses in a cluster, and the few of the simulation's own.
//!
//! NVIDIA's and NFD's keys are those seen on nodes and objects of a real gpu-operator; the keys
//! under `simulated.gpu-manager.kyma-project.io` exist only on the local cluster.

pub use crate::cluster::{HARDWARE_GPUS as GPUS, HARDWARE_PRODUCT as PRODUCT, HOLD};

/// Namespace of the release and of everything namespaced that the operator makes.
pub const NAMESPACE: &str = "gpu-operator";
/// Deployment of NVIDIA's controller.
pub const OPERATOR_DEPLOYMENT: &str = "gpu-operator";
/// Deployment of the NFD master.
pub const NFD_MASTER: &str = "gpu-operator-node-feature-discovery-master";
/// DaemonSet of the NFD workers.
pub const NFD_WORKER: &str = "gpu-operator-node-feature-discovery-worker";
/// Label of the Pods of NFD's chart, whoever installed it.
pub const NFD_CHART: &str = "app.kubernetes.io/name=node-feature-discovery";
/// Label by which that chart tells its Pods apart.
pub const NFD_ROLE: &str = "role";
/// ConfigMap with the NFD worker's configuration, key [`NFD_WORKER_CONF_KEY`].
pub const NFD_WORKER_CONF: &str = "gpu-operator-node-feature-discovery-worker-conf";
/// Key of the NFD worker's configuration in its ConfigMap.
pub const NFD_WORKER_CONF_KEY: &str = "nfd-worker.conf";
/// Post-delete Job that takes NFD's labels from the nodes.
pub const NFD_PRUNE_JOB: &str = "gpu-operator-node-feature-discovery-prune";
/// CRD without which the controller of 26.7 and newer never starts to work.
pub const GPU_CLUSTERS_CRD: &str = "gpuclusters.nvidia.com";

/// Node annotation `"true"`: the node's image brings a loaded driver of its own.
pub const PREINSTALLED_DRIVER: &str = "simulated.gpu-manager.kyma-project.io/preinstalled-driver";

/// Extended resource that the device plugin announces.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";
/// Beginning of everything that the device plugin announces, of GPU Feature Discovery's labels and of the controller's.
pub const NVIDIA_PREFIX: &str = "nvidia.com/";
/// Node label: which entry of the device plugin's configuration counts there.
pub const PLUGIN_CONFIG: &str = "nvidia.com/device-plugin.config";
/// Prefix of NFD's labels.
pub const NFD_PREFIX: &str = "feature.node.kubernetes.io/";
/// Kernel as `uname -r` prints it.
pub const KERNEL: &str = "feature.node.kubernetes.io/kernel-version.full";
/// `ID` of os-release.
pub const OS_ID: &str = "feature.node.kubernetes.io/system-os_release.ID";
/// `VERSION_ID` of os-release.
pub const OS_VERSION: &str = "feature.node.kubernetes.io/system-os_release.VERSION_ID";
/// NFD's label for a PCI device of NVIDIA.
pub const PCI_PRESENT: &str = "feature.node.kubernetes.io/pci-10de.present";
/// All labels by which the controller finds a GPU.
pub const PCI_LABELS: [&str; 3] = [
    PCI_PRESENT,
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
];
/// NFD's annotation that lists the labels it owns on the node.
pub const NFD_OWNED: &str = "nfd.node.kubernetes.io/feature-labels";

/// The controller's own mark of a GPU node.
pub const GPU_PRESENT: &str = "nvidia.com/gpu.present";
/// Prefix of the labels that let an operand onto a node.
pub const DEPLOY_PREFIX: &str = "nvidia.com/gpu.deploy.";
/// Opt-out from all operands with the value `false`.
pub const DEPLOY_OPERANDS: &str = "nvidia.com/gpu.deploy.operands";
/// Lets the driver onto a node.
pub const DEPLOY_DRIVER: &str = "nvidia.com/gpu.deploy.driver";
/// Lets the MIG manager onto a node.
pub const DEPLOY_MIG_MANAGER: &str = "nvidia.com/gpu.deploy.mig-manager";
/// GFD: whether the GPU can be partitioned.
pub const MIG_CAPABLE: &str = "nvidia.com/mig.capable";
/// Which MIG layout the node shall have.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// The MIG manager's word on whether the node has it.
pub const MIG_CONFIG_STATE: &str = "nvidia.com/mig.config.state";
/// NVIDIADriver whose driver the node runs.
pub const DRIVER_OWNER: &str = "nvidia.com/gpu-operator.driver.owner";
/// Where the node stands in a driver change.
pub const UPGRADE_STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
/// Label that keeps a node out of driver changes.
pub const UPGRADE_SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";
/// Annotation: driver changes of this node are made by the controller.
pub const UPGRADE_ENABLED: &str = "nvidia.com/gpu-driver-upgrade-enabled";
/// Annotation: the node was cordoned before the driver change began.
pub const UPGRADE_WAS_CORDONED: &str = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";

/// Label of all driver DaemonSets and Pods, in both layouts.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Value of [`COMPONENT`] on driver DaemonSets and Pods.
pub const DRIVER_COMPONENT: &str = "nvidia-driver";
/// Annotation on DaemonSets: hash over what the controller last wrote.
pub const LAST_APPLIED_HASH: &str = "nvidia.com/last-applied-hash";
/// Name (or its beginning, with precompiled drivers) of ClusterPolicy's driver DaemonSets.
pub const POLICY_DRIVER: &str = "nvidia-driver-daemonset";
/// `app` of the container toolkit.
pub const TOOLKIT_APP: &str = "nvidia-container-toolkit-daemonset";
/// `app` of the device plugin.
pub const DEVICE_PLUGIN_APP: &str = "nvidia-device-plugin-daemonset";
/// `app` of GPU feature discovery.
pub const GFD_APP: &str = "gpu-feature-discovery";
/// `app` of the MIG manager.
pub const MIG_MANAGER_APP: &str = "nvidia-mig-manager";
/// `app` of the validator.
pub const VALIDATOR_APP: &str = "nvidia-operator-validator";
