//! The kinds of NVIDIA that the operator looks at. Only a few fields of them count, so they are read untyped: a field that
//! NVIDIA adds or changes elsewhere cannot break the watch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ApiResource, GroupVersionKind};

/// Beginning of the API versions of NVIDIA's own objects.
const GROUP: &str = "nvidia.com/";

/// Kinds of it that gpu-operator makes something for; other software of NVIDIA has kinds of that group, too.
const KINDS: [&str; 3] = ["ClusterPolicy", "GPUCluster", "NVIDIADriver"];

/// True for an owner of what gpu-operator makes.
pub fn is_of_stack(owner: &OwnerReference) -> bool {
    owner.api_version.starts_with(GROUP) && KINDS.contains(&owner.kind.as_str())
}

/// ClusterPolicy, `nvidia.com/v1`.
pub fn cluster_policy() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy"),
        "clusterpolicies",
    )
}

/// NVIDIADriver, `nvidia.com/v1alpha1`.
pub fn nvidia_driver() -> ApiResource {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "NVIDIADriver");
    ApiResource::from_gvk_with_plural(&kind, "nvidiadrivers")
}

/// GPUCluster, `nvidia.com/v1alpha1`.
pub fn gpu_cluster() -> ApiResource {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "GPUCluster");
    ApiResource::from_gvk_with_plural(&kind, "gpuclusters")
}
