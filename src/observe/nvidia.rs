//! The kinds of NVIDIA that the operator looks at. Only a few fields of them count, so they are read untyped: a field that
//! NVIDIA adds or changes elsewhere cannot break the watch.

use kube::core::{ApiResource, GroupVersionKind};

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
