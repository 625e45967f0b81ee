//! What others have put into the namespace of the release, or may have, keeps it.

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{from_value, json};

use crate::gone::crds::farewell;
use crate::lab::{Lab, STEP, message};

/// A kind of somebody else's that is called as one of Kubernetes is, and an object of it.
async fn foreign_lease(lab: &Lab) -> Result<()> {
    let client = lab.cluster.client();
    let crd = json!({
        "metadata": { "name": "leases.rent.test" },
        "spec": {
            "group": "rent.test",
            "scope": "Namespaced",
            "names": { "kind": "Lease", "plural": "leases", "singular": "lease" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } } }],
        },
    });
    let params = PostParams::default();
    Api::<CustomResourceDefinition>::all(client.clone())
        .create(&params, &from_value(crd)?)
        .await?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("rent.test", "v1", "Lease"));
    let leases = Api::<DynamicObject>::namespaced_with(client, RELEASE_NAMESPACE, &kind);
    let lease = json!({ "apiVersion": "rent.test/v1", "kind": "Lease", "metadata": { "name": "flat" } });
    let lease: DynamicObject = from_value(lease)?;
    eventually("the kind to be served", STEP, async || {
        leases.create(&params, &lease).await?;
        Ok(())
    })
    .await
}

fn api_services(lab: &Lab) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    Api::all_with(lab.cluster.client(), &ApiResource::from_gvk(&kind))
}

/// An API of somebody else's whose server is away.
async fn dead_api(lab: &Lab) -> Result<()> {
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": "v1.away.test" },
        "spec": {
            "group": "away.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true, "service": { "namespace": "default", "name": "nobody" },
        },
    });
    api_services(lab)
        .create(&PostParams::default(), &from_value(service)?)
        .await?;
    let client = lab.cluster.client();
    eventually("the API to be announced", STEP, async || {
        let groups = client.list_api_groups_aggregated().await?.items;
        let names = groups
            .iter()
            .filter_map(|group| group.metadata.as_ref()?.name.as_deref());
        ensure!(
            names.clone().any(|name| name == "away.test"),
            "{:?}",
            names.collect::<Vec<_>>()
        );
        Ok(())
    })
    .await
}

async fn ensure_namespace_stands(lab: &Lab) -> Result<()> {
    let namespace = Api::<Namespace>::all(lab.cluster.client())
        .get(RELEASE_NAMESPACE)
        .await?;
    ensure!(namespace.metadata.deletion_timestamp.is_none(), "it goes");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_kind_that_is_called_as_one_of_kubernetes() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    foreign_lease(&lab).await?;
    lab.delete().await?;
    ensure_namespace_stands(&lab).await?;
    let told = farewell(&lab).await?;
    let words = "namespace gpu-operator, which holds Lease flat of somebody else's";
    ensure!(told.contains(words), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_belongs_to_one_outside_of_the_namespace() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let client = lab.cluster.client();
    let roles = Api::<ClusterRole>::all(client.clone());
    let role = json!({ "metadata": { "name": "tenant" }, "rules": [] });
    let role = roles.create(&PostParams::default(), &from_value(role)?).await?;
    let maps = Api::<ConfigMap>::namespaced(client, RELEASE_NAMESPACE);
    let owner = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "tenant", "uid": role.uid(),
    });
    let map =
        json!({ "metadata": { "name": "of-a-tenant", "ownerReferences": [owner] }, "data": { "a": "b" } });
    maps.create(&PostParams::default(), &from_value(map)?).await?;

    lab.delete().await?;
    ensure_namespace_stands(&lab).await?;
    ensure!(
        maps.get_opt("of-a-tenant").await?.is_some(),
        "the ConfigMap is gone"
    );
    let told = farewell(&lab).await?;
    ensure!(
        told.contains("ConfigMap of-a-tenant of ClusterRole tenant"),
        "{told}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_whose_server_is_away_until_it_is_known_what_it_has() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    dead_api(&lab).await?;
    lab.begin_to_delete().await?;
    let told = eventually("the API in the status", STEP, async || {
        let module = lab.module().await?;
        let status = module.status.context("no status")?;
        let text = message(&status, ConditionType::Deleted);
        ensure!(
            text.contains("step 8 of 8")
                && text.contains("objects of API away.test/v1 that cannot be listed"),
            "{text}"
        );
        Ok(())
    });
    told.await.with_context(|| lab.logs())?;
    ensure_namespace_stands(&lab).await?;

    api_services(&lab)
        .delete("v1.away.test", &DeleteParams::default())
        .await?;
    lab.until_gone().await?;
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    ensure!(
        namespaces.get_opt(RELEASE_NAMESPACE).await?.is_none(),
        "the namespace stays"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_of_a_team_gets_back_what_it_had() -> Result<()> {
    let lab = Lab::start().await?;
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    let enforce = "pod-security.kubernetes.io/enforce";
    let namespace = json!({ "metadata": {
        "name": RELEASE_NAMESPACE, "labels": { enforce: "restricted", "team": "a" }, "annotations": { "of-a-team": "a" },
    }});
    namespaces
        .create(&PostParams::default(), &from_value(namespace)?)
        .await?;
    let before = namespaces.get(RELEASE_NAMESPACE).await?;
    let _manager = lab.ready().await?;
    let borrowed = namespaces.get(RELEASE_NAMESPACE).await?;
    ensure!(
        borrowed
            .labels()
            .get(enforce)
            .is_some_and(|level| level == "privileged"),
        "{:?}",
        borrowed.labels()
    );
    // Another revision finds the module's own labels there.
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;

    lab.delete().await?;
    let after = namespaces.get(RELEASE_NAMESPACE).await?;
    ensure!(after.labels() == before.labels(), "{:?}", after.labels());
    ensure!(
        after.annotations() == before.annotations(),
        "{:?}",
        after.annotations()
    );
    Ok(())
}
