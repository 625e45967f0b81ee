//! Objects of the release of which one cannot be read, put right or deleted: it keeps no other one back, and nothing else.

use std::time::Duration;

use gpu_manager::kube_api::API_DEADLINE;
use serde_json::{Value, json};

use crate::lab::{Lab, ready_policy};
use crate::server::{Fault, Recorded, Verb};

const CONFIG_MAPS: &str = "configmaps";
const DAEMON_SETS: &str = "daemonsets.apps";

const MANIFEST: &str = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: bad}, data: {a: b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: good}, data: {a: b}}
";

fn object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "gpu-operator" } })
}

/// Waits until the condition has that reason, and no other failure is told on the way.
async fn until_told(lab: &Lab, reason: &str) -> String {
    lab.advance(Duration::from_secs(10)).await;
    let drifted = lab.api.condition("Drifted");
    assert_eq!(drifted["reason"], reason, "{:#}", lab.api.status());
    assert_eq!(
        lab.api.condition("Installed")["status"],
        "True",
        "{:#}",
        lab.api.status()
    );
    assert_eq!(lab.state(), "Warning", "{:#}", lab.api.status());
    drifted["message"].as_str().unwrap_or_default().to_owned()
}

/// One object fails in all that `concerns` accepts, while another one is missing: that comes back.
async fn keeps_nothing_back(fault: Fault, concerns: fn(&Recorded) -> bool) {
    let lab = Lab::start().await;
    lab.helm.set_manifest(MANIFEST);
    lab.api.put(CONFIG_MAPS, object("bad"));
    lab.api.fault(fault, concerns);
    lab.create_module(&json!({}));
    lab.settle().await;
    lab.api.put("clusterpolicies.nvidia.com", ready_policy());
    lab.advance(Duration::from_secs(15)).await;
    assert!(
        lab.api.get(CONFIG_MAPS, "good").is_some(),
        "{:#}",
        lab.api.status()
    );
    lab.advance(Duration::from_mins(1)).await;
    let message = until_told(&lab, "DriftNotCorrected").await;
    assert!(message.contains("ConfigMap bad"), "{message}");
    assert_eq!(lab.api.status()["release"]["revision"], 1);
    let tries = lab.api.requests(concerns).len();
    assert!(tries <= 30, "{tries} tries in a minute");

    // What happens to the other one is seen and put right all the same, after a request that hangs just then at the latest.
    lab.api.delete(CONFIG_MAPS, "good");
    lab.advance(API_DEADLINE + Duration::from_secs(5)).await;
    assert!(
        lab.api.get(CONFIG_MAPS, "good").is_some(),
        "{:#}",
        lab.api.status()
    );

    lab.api.heal();
    lab.advance_fast(Duration::from_mins(11)).await;
    assert_eq!(
        lab.api.condition("Drifted")["status"],
        "False",
        "{:#}",
        lab.api.status()
    );
    assert_eq!(lab.state(), "Ready");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_keeps_no_other_one_back() {
    keeps_nothing_back(Fault::Refuse(500), |r| {
        r.kind == CONFIG_MAPS && r.name == "bad" && r.verb == Verb::Get
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_webhook_hangs_on_keeps_no_other_one_back() {
    keeps_nothing_back(Fault::Hang, |r| {
        r.kind == CONFIG_MAPS && r.name == "bad" && r.verb == Verb::Patch && r.parameter("dryRun").is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_put_right_keeps_no_other_one_back() {
    keeps_nothing_back(Fault::Refuse(500), |r| {
        r.kind == CONFIG_MAPS && r.name == "bad" && r.verb == Verb::Patch && r.parameter("dryRun").is_none()
    })
    .await;
}

/// The operator's rights in a namespace go while it goes, and so do the objects; which of them first is chance.
#[tokio::test(start_paused = true)]
async fn rights_that_go_with_the_namespace_are_no_failure() {
    let lab = Lab::start().await;
    lab.helm.set_manifest(MANIFEST);
    lab.api.put(CONFIG_MAPS, object("bad"));
    lab.create_module(&json!({}));
    lab.settle().await;
    lab.api.put("clusterpolicies.nvidia.com", ready_policy());
    lab.advance(Duration::from_mins(1)).await;
    assert_eq!(lab.state(), "Ready", "{:#}", lab.api.status());

    let mut namespace = lab.api.get("namespaces", "gpu-operator").unwrap_or_default();
    namespace["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    namespace["metadata"]["finalizers"] = json!(["kubernetes"]);
    lab.api.put("namespaces", namespace);
    lab.api.fault(Fault::Refuse(403), |r| {
        r.kind == CONFIG_MAPS && r.verb == Verb::Get
    });
    lab.api.delete(CONFIG_MAPS, "good");
    for _ in 0..20 {
        lab.advance(Duration::from_secs(1)).await;
        let reason = &lab.api.condition("Ready")["reason"];
        assert!(
            ["NamespaceTerminating", "AllGpuNodesUsable", "NoGpuNodes"]
                .contains(&reason.as_str().unwrap_or_default()),
            "{:#}",
            lab.api.status()
        );
    }
    assert_eq!(
        lab.api.condition("Installed")["reason"],
        "NamespaceTerminating",
        "{:#}",
        lab.api.status()
    );
    assert_eq!(lab.state(), "Processing");
}

fn former_driver(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": name, "namespace": "gpu-operator",
            "labels": { "app.kubernetes.io/managed-by": "gpu-operator",
                "app.kubernetes.io/component": "nvidia-driver" },
            "ownerReferences": [{ "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "name": "former", "uid": "u" }] },
        "spec": { "selector": {}, "template": { "spec": { "containers": [{ "name": "driver", "image": "r/driver:580" }] } } },
        "status": { "desiredNumberScheduled": 0, "numberReady": 0, "currentNumberScheduled": 0, "numberMisscheduled": 0 } })
}

#[tokio::test(start_paused = true)]
async fn a_leftover_that_may_not_be_deleted_keeps_nothing_back() {
    let deletes = |r: &Recorded| r.verb == Verb::Delete && r.kind == DAEMON_SETS;
    let lab = Lab::start().await;
    lab.helm.set_manifest(MANIFEST);
    lab.api
        .fault(Fault::Refuse(403), move |r| deletes(r) && r.name == "bad");
    for name in ["bad", "better", "going"] {
        lab.api.put(DAEMON_SETS, former_driver(name));
    }
    // Its Pods are on a node that is gone.
    lab.api.edit(DAEMON_SETS, "going", |set| {
        set["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
        set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    lab.create_module(&json!({ "driver": { "mode": "Preinstalled" } }));
    lab.settle().await;
    let mut policy = ready_policy();
    policy["spec"] = json!({ "driver": { "enabled": false } });
    lab.api.put("clusterpolicies.nvidia.com", policy);
    lab.settle().await;
    assert!(lab.api.get(DAEMON_SETS, "better").is_none());
    assert!(lab.api.requests(|r| deletes(r) && r.name == "going").is_empty());
    assert_eq!(
        lab.api.status()["release"]["revision"],
        1,
        "{:#}",
        lab.api.status()
    );
    assert!(
        lab.api.get(CONFIG_MAPS, "good").is_some(),
        "the objects of the release are looked at"
    );
    let message = until_told(&lab, "DriftNotCorrected").await;
    assert!(
        message.contains("DaemonSet bad") && message.contains("HTTP 403"),
        "{message}"
    );
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.api.requests(|r| deletes(r) && r.name == "bad").len();
    assert!((8..=14).contains(&tries), "{tries} tries");

    lab.api.heal();
    lab.advance_fast(Duration::from_mins(11)).await;
    assert!(lab.api.get(DAEMON_SETS, "bad").is_none());
    assert_eq!(
        lab.api.condition("Drifted")["status"],
        "False",
        "{:#}",
        lab.api.status()
    );
}
