//! Every object is put right, whatever was done to it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, OperationKind, RELEASE_NAMESPACE, State};
use gpu_manager::drift::ObjectRef;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::lab::objects::Objects;
use crate::lab::{Lab, STEP, reason};

/// A patch that gives a field of the chart another value.
fn edit(object: &ObjectRef, live: &DynamicObject) -> Value {
    match object.kind.kind.as_str() {
        "Deployment" | "DaemonSet" => {
            let container = &live.data["spec"]["template"]["spec"]["containers"][0]["name"];
            json!({ "spec": { "template": { "spec": { "containers": [{ "name": container, "image": "else:where" }] } } } })
        }
        "ConfigMap" => {
            let data = live.data["data"].as_object().and_then(|data| data.keys().next());
            json!({ "data": { data.map_or("none", String::as_str): "edited" } })
        }
        "Role" | "ClusterRole" => json!({ "rules": [] }),
        "RoleBinding" | "ClusterRoleBinding" => json!({ "subjects": null }),
        "ClusterPolicy" => json!({ "spec": { "dcgmExporter": { "enabled": false } } }),
        "NVIDIADriver" => json!({ "spec": { "version": "1" } }),
        // Nothing but what makes it Helm's.
        _ => json!({ "metadata": {
            "labels": { "app.kubernetes.io/managed-by": null },
            "annotations": { "meta.helm.sh/release-name": "other" } } }),
    }
}

/// A patch that adds what the chart does not have.
fn extra(object: &ObjectRef, live: &DynamicObject) -> Value {
    let plus = |list: &Value, more: Value| {
        let mut list = list.as_array().cloned().unwrap_or_default();
        list.push(more);
        list
    };
    match object.kind.kind.as_str() {
        "Deployment" | "DaemonSet" => {
            let container = &live.data["spec"]["template"]["spec"]["containers"][0]["name"];
            json!({ "spec": { "minReadySeconds": 1, "template": { "spec": {
                "hostname": "extra",
                "containers": [
                    { "name": container, "env": [{ "name": "EXTRA", "value": "1" }] },
                    { "name": "sidecar", "image": "side:car" },
                ] } } } })
        }
        "ConfigMap" => json!({ "data": { "extra": "1" }, "binaryData": { "more": "AAAA" } }),
        "Role" | "ClusterRole" => {
            let rule = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] });
            json!({ "rules": plus(&live.data["rules"], rule) })
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let subject = json!({ "kind": "ServiceAccount", "name": "extra", "namespace": "default" });
            json!({ "subjects": plus(&live.data["subjects"], subject) })
        }
        "ClusterPolicy" => json!({ "spec": {
            "daemonsets": { "annotations": { "extra": "1" } },
            "driver": { "kernelModuleConfig": { "name": "extra" } } } }),
        "NVIDIADriver" => json!({ "spec": {
            "priorityClassName": "extra", "gdrcopy": { "enabled": true, "image": "a", "repository": "b", "version": "c" } } }),
        _ => json!({ "automountServiceAccountToken": false }),
    }
}

/// How often helm was started to change something.
fn helm_changes(manager: &Manager) -> usize {
    manager.process.log().matches("helm starts").count()
}

async fn everything_comes_back(version: &str) -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.manager().await?;
    lab.apply(json!({ "chartVersion": version })).await?;
    lab.until(State::Ready).await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    let objects = Objects::of(&lab).await?;
    let snapshot = objects.snapshot().await?;
    let all = objects.all();

    // Deleted.
    let began = Instant::now();
    for object in &all {
        objects.delete(object).await?;
    }
    objects.until_restored(&lab, &snapshot).await?;
    println!(
        "chart {version}: {} deleted objects were back after {:?}",
        all.len(),
        began.elapsed()
    );

    // Edited, then given something more.
    for change in [edit, extra] {
        let began = Instant::now();
        for object in &all {
            let live = objects
                .get(object)
                .await?
                .with_context(|| format!("{object} is missing"))?;
            objects.patch(object, "somebody", &change(object, &live)).await?;
        }
        objects.until_restored(&lab, &snapshot).await?;
        println!(
            "chart {version}: {} changed objects were right after {:?}",
            all.len(),
            began.elapsed()
        );
    }

    ensure!(
        lab.history().await? == [(1, "deployed".to_owned())],
        "no new revision"
    );
    ensure!(helm_changes(&manager) == 1, "only the install");
    let status = lab.until_status("the corrections in the history", |status| {
        status
            .history
            .iter()
            .any(|entry| entry.operation == OperationKind::Reapply)
    });
    let history = status.await?.history;
    ensure!(
        history
            .iter()
            .any(|entry| entry.operation == OperationKind::Install),
        "{history:#?}"
    );
    let events = lab
        .cluster
        .kubectl(&["get", "events.events.k8s.io", "-A", "-o", "json"])
        .await?;
    ensure!(events.contains("DriftCorrected"), "{events}");

    // Helm still knows every object as its own.
    lab.delete().await?;
    for object in &all {
        eventually(&format!("{object} to be gone"), STEP, async || {
            ensure!(objects.get(object).await?.is_none(), "it is left");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_object_of_the_newest_chart_is_put_right() -> Result<()> {
    everything_comes_back("26.7.0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_object_of_the_chart_before_is_put_right() -> Result<()> {
    everything_comes_back("26.3.3").await
}

/// How long a deleted Deployment may be gone.
const AT_ONCE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_and_a_crd_are_back_at_once() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    lab.until_reason(ConditionType::Drifted, "InSync").await?;
    let objects = Objects::of(&lab).await?;
    let snapshot = objects.snapshot().await?;

    let deployment = objects.find("Deployment", "gpu-operator")?;
    let before = objects.get(&deployment).await?.context("missing")?.metadata.uid;
    let deleted = Instant::now();
    objects.delete(&deployment).await?;
    let back = loop {
        let now = objects.get(&deployment).await?;
        if now.is_some_and(|now| now.metadata.uid != before) {
            break deleted.elapsed();
        }
        ensure!(deleted.elapsed() < STEP, "{}", lab.logs());
        sleep(Duration::from_millis(5)).await;
    };
    println!("the Deployment was back after {back:?}");
    ensure!(back < AT_ONCE, "{back:?}");

    // With a CRD go all objects of its kind.
    for crd in ["clusterpolicies.nvidia.com", "nvidiadrivers.nvidia.com"] {
        let deleted = Instant::now();
        lab.cluster
            .kubectl(&["delete", "crd", crd, "--wait=false"])
            .await?;
        let what = format!("{crd} to be put right");
        let log = || manager.process.log();
        let applied = log().matches("CRD applied").count();
        eventually(&what, STEP, async || {
            ensure!(log().matches("CRD applied").count() > applied, "not yet");
            Ok(())
        })
        .await?;
        objects.until_restored(&lab, &snapshot).await?;
        println!("{crd} and its object were back after {:?}", deleted.elapsed());
    }
    // Changed by hand, as a chart of another version would.
    let versions = r#"[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/description","value":"edited"}]"#;
    let crd = ["crd", "clusterpolicies.nvidia.com"];
    lab.cluster
        .kubectl(&[&["patch"][..], &crd, &["--type=json", "-p", versions]].concat())
        .await?;
    eventually("the CRD's description to be NVIDIA's", STEP, async || {
        let text = lab
            .cluster
            .kubectl(&[&["get"][..], &crd, &["-o", "yaml"]].concat())
            .await?;
        ensure!(!text.contains("description: edited"), "edited");
        Ok(())
    })
    .await
    .with_context(|| lab.logs())?;
    let status = lab.until(State::Ready).await?;
    ensure!(
        reason(&status, ConditionType::Drifted) != "DriftNotCorrected",
        "{status:#?}"
    );
    ensure!(
        lab.history().await? == [(1, "deployed".to_owned())],
        "no new revision"
    );
    ensure!(
        helm_changes(&manager) == 1,
        "{RELEASE_NAMESPACE}: only the install"
    );
    Ok(())
}
