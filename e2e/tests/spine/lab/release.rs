//! What a test looks at to know what became of the release.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{RELEASE_NAME, RELEASE_NAMESPACE};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::Value;

use super::{Lab, STEP};

/// One revision of the module's release, from the labels of its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    pub number: u32,
    pub status: String,
    pub labels: BTreeMap<String, String>,
}

impl Lab {
    /// The revisions of the module's release, oldest first.
    pub async fn revisions(&self) -> Result<Vec<Revision>> {
        let secrets = Api::<Secret>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels(&format!("owner=helm,name={RELEASE_NAME}"));
        let mut revisions = Vec::new();
        for secret in secrets.list_metadata(&params).await?.items {
            let label = |key: &str| secret.labels().get(key).cloned().context(key.to_owned());
            revisions.push(Revision {
                number: label("version")?.parse()?,
                status: label("status")?,
                labels: secret.labels().clone(),
            });
        }
        revisions.sort_by_key(|revision| revision.number);
        Ok(revisions)
    }

    /// Number and status of each revision, oldest first.
    pub async fn history(&self) -> Result<Vec<(u32, String)>> {
        let revisions = self.revisions().await?.into_iter();
        Ok(revisions
            .map(|revision| (revision.number, revision.status))
            .collect())
    }

    /// Waits until the newest revision is this one, deployed.
    pub async fn until_revision(&self, number: u32) -> Result<()> {
        let what = format!("revision {number} to be deployed");
        let seen = eventually(&what, STEP, async || {
            let history = self.history().await?;
            let latest = history.last().cloned().context("no revision")?;
            ensure!(latest == (number, "deployed".to_owned()), "{history:?}");
            Ok(())
        });
        seen.await.with_context(|| self.logs())
    }

    /// An object of NVIDIA's; the kind's CRD must be there.
    pub async fn nvidia_object(&self, version: &str, kind: &str, plural: &str, name: &str) -> Result<Value> {
        let kind = GroupVersionKind::gvk("nvidia.com", version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let objects = Api::<DynamicObject>::all_with(self.cluster.client(), &resource);
        Ok(serde_json::to_value(objects.get(name).await?)?)
    }

    /// The ClusterPolicy.
    pub async fn cluster_policy(&self) -> Result<Value> {
        self.nvidia_object("v1", "ClusterPolicy", "clusterpolicies", "cluster-policy")
            .await
    }

    /// The module's NVIDIADriver.
    pub async fn nvidia_driver(&self) -> Result<Value> {
        let name = "gardenlinux-precompiled";
        self.nvidia_object("v1alpha1", "NVIDIADriver", "nvidiadrivers", name)
            .await
    }
}
