//! Fixed names: what users, Helm and Kubernetes see of the module.

/// The only name a `GpuModule` may have.
pub const MODULE_NAME: &str = "default";
/// Name of the Helm release.
pub const RELEASE_NAME: &str = "gpu-operator";
/// Namespace of the Helm release and of NVIDIA's operands.
pub const RELEASE_NAMESPACE: &str = "gpu-operator";
/// Name of NVIDIA's ClusterPolicy, fixed by the chart.
pub const CLUSTER_POLICY_NAME: &str = "cluster-policy";
/// Name of the ClusterRole that every release of NVIDIA's chart creates, whatever the release is called.
pub const STACK_CLUSTER_ROLE: &str = "gpu-operator";
/// Name of the Deployment of NVIDIA's controller, fixed by the chart.
pub const STACK_DEPLOYMENT: &str = "gpu-operator";
/// Finalizer that keeps a `GpuModule` until its release is gone.
pub const FINALIZER: &str = "gpu-manager.kyma-project.io/deletion-hook";
/// Field manager of everything the operator applies.
pub const FIELD_MANAGER: &str = "gpu-manager";
/// ClusterRole with the operator's rights inside [`RELEASE_NAMESPACE`]; bound there by a RoleBinding of the same name.
pub const RELEASE_ROLE: &str = "gpu-manager-release";
/// Name of the operator's ServiceAccount, Deployment and Lease.
pub const MANAGER: &str = "gpu-manager";

/// Release label: the [`crate::desired::Fingerprint`] of what was installed.
pub const LABEL_FINGERPRINT: &str = "gpu-manager.kyma-project.io/fingerprint";
/// Release label: identity of the operator process that ran Helm.
pub const LABEL_BY: &str = "gpu-manager.kyma-project.io/by";
/// Release label: the number of the revision that the module meant to make.
///
/// Helm copies the labels of an earlier revision when somebody upgrades or rolls back by hand; this one then differs
/// from the revision's own number.
pub const LABEL_REVISION: &str = "gpu-manager.kyma-project.io/revision";
/// Release label: the chart version that was installed; true only where [`LABEL_REVISION`] is.
pub const LABEL_CHART: &str = "gpu-manager.kyma-project.io/chart";
/// Release label: which object describes the driver; true only where [`LABEL_REVISION`] is.
pub const LABEL_LAYOUT: &str = "gpu-manager.kyma-project.io/driver-layout";
/// Release label: the driver that the nodes were last told to run, as [`crate::desired::DriverId`] writes it; true only where
/// [`LABEL_REVISION`] is.
pub const LABEL_DRIVER: &str = "gpu-manager.kyma-project.io/driver";
/// Release label: whether NVIDIA's operator may replace running drivers, as [`crate::desired::DriverUpgrades`] writes it; true
/// only where [`LABEL_REVISION`] is.
pub const LABEL_DRIVER_UPGRADES: &str = "gpu-manager.kyma-project.io/driver-upgrades";
/// Release label: whose Node Feature Discovery labels the nodes.
pub const LABEL_NFD: &str = "gpu-manager.kyma-project.io/node-feature-discovery";
/// Label on objects that the operator itself made; its value is [`MANAGER`].
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label that Kyma expects on every object of a module; its value is [`KYMA_MODULE`].
pub const LABEL_KYMA_MODULE: &str = "kyma-project.io/module";
/// Name of the Kyma module.
pub const KYMA_MODULE: &str = "gpu";

/// Annotation on the `GpuModule`: a new value forces a full comparison at once and clears the backoff.
pub const ANNOTATION_RECONCILE_AT: &str = "gpu-manager.kyma-project.io/reconcile-at";
/// Annotation on the `GpuModule`: its removal has begun, with what has to be known until its end.
pub const ANNOTATION_REMOVAL: &str = "gpu-manager.kyma-project.io/removal";
/// Annotation on a namespace that the module did not make: the values that labels had there before it set them, as a JSON object.
pub const ANNOTATION_FORMER_LABELS: &str = "gpu-manager.kyma-project.io/former-labels";
/// Annotation on CRDs that the operator applied: SHA-256 of the applied spec.
pub const ANNOTATION_SPEC_DIGEST: &str = "gpu-manager.kyma-project.io/spec-digest";
/// Annotation on CRDs that the operator applied: the generation that the spec then had. A later one means that somebody else
/// has changed the spec.
pub const ANNOTATION_SPEC_GENERATION: &str = "gpu-manager.kyma-project.io/spec-generation";

/// Name of the Secret in which Helm keeps a revision of the release; Helm looks for it by that name.
pub fn revision_secret(revision: u32) -> String {
    format!("sh.helm.release.v1.{RELEASE_NAME}.v{revision}")
}

/// Annotation by which Helm marks the release an object belongs to.
pub const HELM_RELEASE_NAME: &str = "meta.helm.sh/release-name";
/// Annotation by which Helm marks the namespace of that release.
pub const HELM_RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Namespace of the ConfigMap in which Gardener describes the shoot.
pub const SHOOT_INFO_NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap in which Gardener describes the shoot, maintenance window included.
pub const SHOOT_INFO: &str = "shoot-info";

/// CRD of the other GPU module (kyma-project/gpu), which installs the same chart.
pub const OTHER_GPU_MODULE_CRD: &str = "gpus.gpu.kyma-project.io";
/// CRD of the earlier Kyma module (kyma-project/gpu-driver), which installs a driver of its own.
pub const GPU_DRIVER_CRD: &str = "gpudrivers.gpu.kyma-project.io";
/// Name of the chart's DaemonSet of Node Feature Discovery in the module's release.
pub const NFD_WORKER: &str = "gpu-operator-node-feature-discovery-worker";
/// CRD of Node Feature Discovery's rules.
pub const NODE_FEATURE_RULE_CRD: &str = "nodefeaturerules.nfd.k8s-sigs.io";
/// CRD of NVIDIA's ClusterPolicy.
pub const CLUSTER_POLICY_CRD: &str = "clusterpolicies.nvidia.com";
/// CRD of NVIDIA's NVIDIADriver.
pub const NVIDIA_DRIVER_CRD: &str = "nvidiadrivers.nvidia.com";
