//! A release that Helm 3 made for the module is read and taken over by the module's Helm 4.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::tools::Tool;
use gpu_manager::api::{
    GpuModuleSpec, LABEL_BY, LABEL_CHART, LABEL_FINGERPRINT, LABEL_LAYOUT, LABEL_MANAGED_BY, LABEL_REVISION,
    MANAGER, NodeFeatureDiscovery, RELEASE_NAMESPACE, RELEASE_ROLE, STACK_DEPLOYMENT, State,
};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired::resolve;
use gpu_manager::helm::RELEASE_FLAGS;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::lab::Lab;

/// Values that leave nothing behind where they are not set.
fn extra_values() -> Value {
    json!({ "devicePlugin": { "args": ["--mps-root=/run/nvidia/mps"] }, "operator": { "env": [{ "name": "EXTRA", "value": "1" }] } })
}

/// Installs what a GpuModule with that spec asks for, as a module with Helm 3 would have.
async fn install_with_helm3(lab: &Lab, spec: &Value) -> Result<()> {
    let namespace =
        json!({ "metadata": { "name": RELEASE_NAMESPACE, "labels": { LABEL_MANAGED_BY: MANAGER } } });
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;

    let role = format!("--clusterrole={RELEASE_ROLE}");
    let account = format!("--serviceaccount={MANAGER}:{MANAGER}");
    let namespace = format!("--namespace={RELEASE_NAMESPACE}");
    lab.cluster
        .kubectl(&["create", "rolebinding", RELEASE_ROLE, &role, &account, &namespace])
        .await?;

    let catalogue = Catalogue::from_folder(lab.new_catalogue()?.path())?;
    let spec: GpuModuleSpec = serde_json::from_value(spec.clone())?;
    let desired = resolve(&spec, &catalogue, NodeFeatureDiscovery::Module, RELEASE_FLAGS)?;
    let labels = [
        (LABEL_FINGERPRINT, desired.fingerprint.to_string()),
        (LABEL_BY, "earlier".to_owned()),
        (LABEL_REVISION, "1".to_owned()),
        (LABEL_CHART, desired.chart.version.to_string()),
        (LABEL_LAYOUT, desired.step.layout.as_str().to_owned()),
    ];
    let labels: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let labels = format!("--labels={}", labels.join(","));
    let values = lab.values_file("helm3-values.json", &desired.values)?;
    let chart = lab.archive(&desired.chart.version.to_string());
    lab.helm_release_with(Tool::Helm3, &["install"], &[&chart, "--values", &values, &labels])
        .await?;
    Ok(())
}

/// The operations by which a manager `helm` owns fields of an object, apart from its status.
fn operations_of_helm(managed: &[Value]) -> Vec<&str> {
    let helm = managed
        .iter()
        .filter(|entry| entry["manager"] == "helm" && entry["subresource"].is_null());
    helm.filter_map(|entry| entry["operation"].as_str()).collect()
}

/// ClusterPolicy and Deployment of the stack as JSON.
async fn objects(lab: &Lab) -> Result<[Value; 2]> {
    let deployments = Api::<Deployment>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let deployment = deployments.get(STACK_DEPLOYMENT).await?;
    ensure!(!deployment.managed_fields().is_empty());
    Ok([lab.cluster_policy().await?, serde_json::to_value(deployment)?])
}

async fn ensure_owned_by(lab: &Lab, operation: &str) -> Result<()> {
    for object in objects(lab).await? {
        let managed = object["metadata"]["managedFields"]
            .as_array()
            .context("no fields")?;
        ensure!(operations_of_helm(managed) == [operation], "{managed:#?}");
    }
    Ok(())
}

/// Whether the extra values are in the ClusterPolicy and in the Deployment.
async fn extras(lab: &Lab) -> Result<[bool; 2]> {
    let [policy, deployment] = objects(lab).await?;
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let env = env.as_array().context("no environment")?;
    Ok([
        policy["spec"]["devicePlugin"]["args"].is_array(),
        env.iter().any(|variable| variable["name"] == "EXTRA"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_helm_3_is_taken_over() -> Result<()> {
    let lab = Lab::start().await?;
    let spec = json!({ "values": extra_values() });
    install_with_helm3(&lab, &spec).await?;
    ensure_owned_by(&lab, "Update").await?;
    ensure!(extras(&lab).await? == [true, true]);

    // It is as wanted, so it stays.
    let _manager = lab.manager().await?;
    lab.apply(spec).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(status.release.context("no release")?.revision == 1);

    // A change is made by Helm 4, which takes the fields over.
    let mut values = extra_values();
    values["dcgmExporter"] = json!({ "enabled": false });
    lab.apply(json!({ "values": values })).await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    let newest = lab.revisions().await?.pop().context("no revision")?;
    let labels: &BTreeMap<_, _> = &newest.labels;
    ensure!(
        labels[LABEL_REVISION] == "2" && labels[LABEL_BY] != "earlier",
        "{newest:?}"
    );
    ensure_owned_by(&lab, "Apply").await?;
    ensure!(extras(&lab).await? == [true, true]);
    ensure!(lab.cluster_policy().await?["spec"]["dcgmExporter"]["enabled"] == false);

    // What is no longer asked for goes.
    lab.apply(json!({})).await?;
    lab.until_revision(3).await?;
    lab.until(State::Ready).await?;
    ensure!(extras(&lab).await? == [false, false]);
    ensure!(lab.cluster_policy().await?["spec"]["dcgmExporter"]["enabled"] == true);
    ensure_owned_by(&lab, "Apply").await
}
