//! `spec.deletion.crds: Delete`: the CRDs go with the module, unless somebody else needs them.

use anyhow::{Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::State;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::lab::{Lab, STEP};
use e2e::inventory::Inventory;

/// The names of NVIDIA's CRDs and of those of Node Feature Discovery.
async fn crds(lab: &Lab) -> Result<Vec<String>> {
    let api = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    let all = api.list_metadata(&ListParams::default()).await?;
    let names = all.iter().map(ResourceExt::name_any);
    Ok(names
        .filter(|name| name.ends_with("nvidia.com") || name.ends_with("nfd.k8s-sigs.io"))
        .collect())
}

/// The note of the last Event about the module.
pub async fn farewell(lab: &Lab) -> Result<String> {
    let events = Api::<Event>::namespaced(lab.cluster.client(), "default");
    let params = ListParams::default().fields("reason=Removed");
    let mut note = String::new();
    eventually("the last Event", STEP, async || {
        let found = events.list(&params).await?;
        let last = found.items.last().and_then(|event| event.message.clone());
        ensure!(last.is_some(), "none yet");
        note = last.unwrap_or_default();
        Ok(())
    })
    .await?;
    Ok(note)
}

/// A NodeFeature of somebody else's.
async fn foreign_feature(lab: &Lab) -> Result<()> {
    let gvk = GroupVersionKind::gvk("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature");
    let kind = ApiResource::from_gvk_with_plural(&gvk, "nodefeatures");
    let features = Api::<DynamicObject>::namespaced_with(lab.cluster.client(), "default", &kind);
    let feature = json!({
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": { "name": "of-a-team" },
        "spec": { "features": {}, "labels": {} },
    });
    let params = PostParams::default();
    features
        .create(&params, &serde_json::from_value(feature)?)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn go_where_nobody_else_needs_them() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    ensure!(crds(&lab).await?.is_empty(), "CRDs before the install");
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({ "deletion": { "crds": "Delete" } })).await?;
    lab.until(State::Ready).await?;
    ensure!(crds(&lab).await?.len() >= 6, "CRDs after the install");
    lab.delete().await?;
    let left = crds(&lab).await?;
    ensure!(left.is_empty(), "{left:?}");
    let note = farewell(&lab).await?;
    ensure!(note.contains("nothing stays in the cluster"), "{note}");
    before.ensure_is_back(&lab.cluster.client()).await?;

    // And again, with kinds that were served before.
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn stay_where_somebody_else_has_objects_of_them() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({ "deletion": { "crds": "Delete" } })).await?;
    lab.until(State::Ready).await?;
    foreign_feature(&lab).await?;
    lab.delete().await?;
    let left = crds(&lab).await?;
    ensure!(
        left.len() == 3 && left.iter().all(|crd| crd.ends_with("nfd.k8s-sigs.io")),
        "{left:?}"
    );
    let note = farewell(&lab).await?;
    let told = "the CRDs of Node Feature Discovery, since somebody else has NodeFeature of-a-team";
    ensure!(note.contains(told), "{note}");
    Ok(())
}
