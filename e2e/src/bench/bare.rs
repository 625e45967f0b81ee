//! A cluster without any trace of a release, on which an install can be measured again.

use anyhow::{Result, ensure};
use gpu_manager::api::{CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD, RELEASE_NAMESPACE};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use super::world::{STEP, World};
use crate::wait::eventually;

/// Suffixes of the CRDs that the chart brings.
const CRD_GROUPS: [&str; 2] = [".nvidia.com", ".nfd.k8s-sigs.io"];

impl World {
    /// Removes every trace of a release, whoever made it.
    ///
    /// The namespace goes first: Kubernetes sometimes takes minutes for CRDs while a namespace with their objects goes.
    pub async fn make_bare(&self) -> Result<()> {
        let namespaces = Api::<Namespace>::all(self.client());
        let params = DeleteParams::default();
        if namespaces.get_opt(RELEASE_NAMESPACE).await?.is_some() {
            namespaces.delete(RELEASE_NAMESPACE, &params).await?;
        }
        eventually("the namespace to be gone", STEP, async || {
            let namespace = namespaces.get_opt(RELEASE_NAMESPACE).await?;
            let status = namespace.map(|namespace| namespace.status);
            ensure!(status.is_none(), "{status:?}");
            Ok(())
        })
        .await?;
        let crds = Api::<CustomResourceDefinition>::all(self.client());
        for name in self.crds_of_chart().await? {
            crds.delete(&name, &params).await?;
        }
        eventually("the CRDs to be gone", STEP, async || {
            let left = self.crds_of_chart().await?;
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await
    }

    async fn crds_of_chart(&self) -> Result<Vec<String>> {
        let crds = Api::<CustomResourceDefinition>::all(self.client());
        let list = crds.list_metadata(&ListParams::default()).await?;
        let of_chart = |name: &String| CRD_GROUPS.iter().any(|group| name.ends_with(group));
        Ok(list.iter().map(ResourceExt::name_any).filter(of_chart).collect())
    }

    /// Fails unless all CRDs of the chart are there.
    pub async fn ensure_crds(&self) -> Result<()> {
        let found = self.crds_of_chart().await?;
        for name in [CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD] {
            ensure!(
                found.iter().any(|crd| crd == name),
                "the release is deployed without CRD {name}"
            );
        }
        Ok(())
    }
}
