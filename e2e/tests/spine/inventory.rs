//! The inventory sees each kind of thing that a removal could leave.

use anyhow::{Result, ensure};
use e2e::cluster::{Cluster, FakeNode, Options};
use e2e::inventory::Inventory;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

async fn change<K>(api: &Api<K>, name: &str, patch: Value) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn crd(group: &str) -> Value {
    json!({
        "metadata": { "name": format!("things.{group}") },
        "spec": {
            "group": group,
            "names": { "kind": "Thing", "plural": "things" },
            "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    })
}

/// Changes made by `change` are reported in these words, and in no more.
async fn reports(client: &Client, change: impl AsyncFnOnce() -> Result<()>, words: &[&str]) -> Result<()> {
    let before = Inventory::take(client).await?;
    change().await?;
    let found = before.differences(&Inventory::take(client).await?);
    ensure!(found == words, "{found:#?} instead of {words:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sees_whatever_was_not_there_before() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    cluster.create_node(&FakeNode::new("gpu-0")).await?;
    let client = cluster.client();
    let nodes = Api::<Node>::all(client.clone());
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let secrets = Api::<Secret>::default_namespaced(client.clone());
    let leases = Api::<Lease>::default_namespaced(client.clone());
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let map = |name: &str| json!({ "metadata": { "name": name }, "data": { "a": "1" } });
    create(&maps, map("kept")).await?;
    create(&maps, map("deleted")).await?;
    create(&maps, map("replaced")).await?;

    let on_node = async || {
        let cordon = json!({ "spec": { "unschedulable": true } });
        change(&nodes, "gpu-0", cordon).await?;
        let more =
            json!({ "metadata": { "labels": { "nvidia.com/a": "" }, "annotations": { "nfd/b": "" } } });
        change(&nodes, "gpu-0", more).await?;
        let taint = json!({ "spec": { "taints": [{ "key": "nvidia.com/c", "effect": "NoSchedule" }] } });
        change(&nodes, "gpu-0", taint).await
    };
    let words = [
        r#"Node gpu-0: .metadata.annotations.nfd/b is "" instead of null"#,
        r#"Node gpu-0: .metadata.labels.nvidia.com/a is "" instead of null"#,
        r#"Node gpu-0: .spec.taints is [{"effect":"NoSchedule","key":"nvidia.com/c","timeAdded":null}] instead of [{"effect":"NoSchedule","key":"node.kubernetes.io/not-ready","timeAdded":null}]"#,
        "Node gpu-0: .spec.unschedulable is true instead of null",
    ];
    reports(&client, on_node, &words).await?;

    let objects = async || {
        create(&maps, map("more")).await?;
        create(&secrets, json!({ "metadata": { "name": "more" } })).await?;
        create(&leases, json!({ "metadata": { "name": "53822513.nvidia.com" } })).await?;
        create(&crds, crd("example.com")).await?;
        change(&maps, "kept", json!({ "data": { "a": "2" } })).await?;
        maps.delete("deleted", &DeleteParams::default()).await?;
        Ok(())
    };
    let words = [
        "ConfigMap default/deleted is gone",
        "APIService v1.example.com is new",
        r#"ConfigMap default/kept: .data.a is "2" instead of "1""#,
        "ConfigMap default/more is new",
        "CustomResourceDefinition things.example.com is new",
        "Lease default/53822513.nvidia.com is new",
        "Secret default/more is new",
    ];
    reports(&client, objects, &words).await?;

    // The same name is not the same object.
    let before = Inventory::take(&client).await?;
    maps.delete("replaced", &DeleteParams::default()).await?;
    create(&maps, map("replaced")).await?;
    let found = before.differences(&Inventory::take(&client).await?);
    let about_it = |line: &String| line.starts_with("ConfigMap default/replaced: .metadata.");
    ensure!(!found.is_empty() && found.iter().all(about_it), "{found:#?}");

    // What is allowed, and nothing that looks like it.
    let namespaces = Api::<Namespace>::all(client.clone());
    create(&namespaces, json!({ "metadata": { "name": "gpu-manager" } })).await?;
    let own = Api::<Lease>::namespaced(client.clone(), "gpu-manager");
    let allowed = async || {
        create(&own, json!({ "metadata": { "name": "gpu-manager" } })).await?;
        create(&own, json!({ "metadata": { "name": "other" } })).await?;
        create(&crds, crd("nvidia.com")).await
    };
    reports(&client, allowed, &["Lease gpu-manager/other is new"]).await
}
