//! Changes that end well and are undone at once, by a policy or another tool: they are told, and tried again ever more rarely.

use std::fs;
use std::time::Duration;

use gpu_manager::api::ANNOTATION_RECONCILE_AT;
use serde_json::{Value, json};

use crate::lab::{Lab, ready_policy};
use crate::server::{CRDS, Fault, GPU_MODULES, Recorded, Verb};

const POLICIES: &str = "clusterpolicies.nvidia.com";

fn assert_without_effect(lab: &Lab, what: &str) {
    let status = lab.api.status();
    assert_eq!(
        (lab.state().as_str(), lab.installed_reason().as_str()),
        ("Error", "NoEffect"),
        "{status:#}"
    );
    let description = status["description"].as_str().unwrap_or_default();
    assert!(description.starts_with(what), "{description}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_without_effect_is_a_failure_with_a_growing_pause() {
    let lab = Lab::start().await;
    lab.helm.be_idle(true);
    lab.create_module(&json!({}));
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade"), 1, "{:?}", lab.helm.calls());
    assert_without_effect(
        &lab,
        "helm upgrade to chart 26.7.0 ended without an error and would have to be done again",
    );
    let history = lab.api.status()["history"].clone();
    assert_eq!(history[0]["outcome"], "Failed", "{history:#}");
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.helm.count("upgrade");
    assert!((5..=9).contains(&tries), "{tries} tries");

    lab.helm.be_idle(false);
    lab.advance_fast(Duration::from_mins(10)).await;
    assert_eq!(lab.helm.count("upgrade"), tries + 1);
    assert_eq!(lab.installed_reason(), "Installed", "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_without_effect_is_a_failure_with_a_growing_pause() {
    let lab = Lab::installed().await;
    lab.helm.be_idle(true);
    lab.api.delete(GPU_MODULES, "default");
    lab.settle().await;
    assert_eq!(lab.helm.count("uninstall"), 1, "{:?}", lab.helm.calls());
    assert_without_effect(
        &lab,
        "helm uninstall ended without an error and would have to be done again",
    );
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.helm.count("uninstall");
    assert!((5..=9).contains(&tries), "{tries} tries");

    lab.helm.be_idle(false);
    lab.api.delete(POLICIES, "cluster-policy");
    lab.advance_fast(Duration::from_mins(11)).await;
    assert_eq!(lab.api.get(GPU_MODULES, "default"), None);
}

#[tokio::test(start_paused = true)]
async fn a_removal_passes_over_what_is_set_back_each_time() {
    let lab = Lab::installed().await;
    let mut policy = ready_policy();
    policy["spec"] = json!({ "driver": { "upgradePolicy": { "autoUpgrade": true } } });
    lab.api.put(POLICIES, policy);
    let pauses_upgrades =
        |r: &Recorded| r.verb == Verb::Patch && r.kind == POLICIES && r.body["spec"]["driver"].is_object();
    lab.api.fault(Fault::Undo, pauses_upgrades);
    lab.api.delete(GPU_MODULES, "default");
    lab.settle().await;
    assert_eq!(lab.api.requests(pauses_upgrades).len(), 1);
    let description = lab.api.status()["description"].to_string();
    assert!(
        description.contains("ClusterPolicy cluster-policy") && description.contains("undone"),
        "{description}"
    );
    assert_eq!(lab.helm.count("uninstall"), 0);
    lab.advance(Duration::from_secs(40)).await;
    assert_eq!(lab.api.requests(pauses_upgrades).len(), 6);
    assert_eq!(lab.helm.count("uninstall"), 1, "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_may_not_go_is_told() {
    let lets_go = |r: &Recorded| {
        r.verb == Verb::Patch && r.kind == GPU_MODULES && r.body["metadata"]["finalizers"].is_array()
    };
    let lab = Lab::installed().await;
    lab.api.fault(Fault::Refuse(403), lets_go);
    lab.api.delete(GPU_MODULES, "default");
    lab.api.delete(POLICIES, "cluster-policy");
    lab.advance(Duration::from_secs(10)).await;
    let status = lab.api.status();
    assert_eq!(
        (lab.state().as_str(), lab.installed_reason().as_str()),
        ("Error", "ApiCallFailed"),
        "{status:#}"
    );
    let description = status["description"].to_string();
    assert!(
        description.contains("cannot remove the finalizer"),
        "{description}"
    );
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.api.requests(lets_go).len();
    assert!((5..=10).contains(&tries), "{tries} tries");
    lab.api.heal();
    lab.advance_fast(Duration::from_mins(11)).await;
    assert_eq!(lab.api.get(GPU_MODULES, "default"), None);
}

#[tokio::test(start_paused = true)]
async fn a_crd_is_applied_once_although_its_watch_is_late() {
    let lab = Lab::installed().await;
    lab.change_spec(json!({ "drift": { "mode": "Report" } }));
    lab.settle().await;
    lab.api.delete(CRDS, POLICIES);
    lab.settle().await;
    lab.api.keep_late(CRDS);
    let applies = |r: &Recorded| r.verb == Verb::Patch && r.kind == CRDS && r.name == POLICIES && r.applies;
    let before = lab.api.requests(applies).len();
    lab.api.delete(GPU_MODULES, "default");
    lab.advance(Duration::from_secs(2)).await;
    assert_eq!(lab.api.requests(applies).len(), before + 1);
    assert_eq!(lab.helm.count("uninstall"), 1, "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn a_look_that_takes_longer_than_the_pause_is_no_reason_to_try_again() {
    let lab = Lab::start().await;
    lab.helm.fail_upgrades(Some("Error: UPGRADE FAILED: no\n"));
    let calls = lab.helm.calls_file();
    lab.api.fault(Fault::Hang, move |r| {
        let called = fs::read_to_string(&calls).is_ok_and(|calls| calls.contains("upgrade --install"));
        called && r.verb == Verb::Get && r.kind == "namespaces"
    });
    lab.create_module(&json!({}));
    lab.advance(Duration::from_secs(11)).await;
    assert_eq!(lab.installed_reason(), "InstallFailed", "{:#}", lab.api.status());
    assert_eq!(lab.state(), "Error");
    assert_eq!(lab.helm.count("upgrade --install"), 1, "{:?}", lab.helm.calls());
    // From here on each pass fails once, and each failure counts.
    lab.advance_fast(Duration::from_mins(30)).await;
    let reads = lab
        .api
        .requests(|r| r.verb == Verb::Get && r.kind == "namespaces")
        .len();
    assert!(reads <= 20, "{reads} reads");
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_is_refused_by_its_spec_records_the_release_by_another_one() {
    let lab = Lab::start().await;
    lab.create_module(&json!({ "chartVersion": "26.3.3" }));
    lab.settle().await;
    lab.api.put(POLICIES, ready_policy());
    lab.api.put("clusterroles.rbac.authorization.k8s.io", json!({ "metadata": { "name": "gpu-operator",
        "annotations": {
            "meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator" } } }));
    lab.settle().await;
    assert_eq!(
        lab.api.status()["release"]["chartVersion"],
        "26.3.3",
        "{:#}",
        lab.api.status()
    );
    // Refused: the module owns that value.
    lab.change_spec(json!({ "chartVersion": "26.3.3", "values": { "operator": { "cleanupCRD": true } } }));
    lab.settle().await;
    assert_eq!(lab.state(), "Warning", "{:#}", lab.api.status());
    lab.helm.lose_revisions();
    lab.settle().await;
    let upgrades = lab.helm.count("upgrade");
    lab.api.delete(GPU_MODULES, "default");
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade"), upgrades + 1, "{:#}", lab.api.status());
    let calls = lab.helm.calls();
    let again = calls.iter().rfind(|call| call.starts_with("upgrade"));
    assert!(
        again.is_some_and(|call| call.contains("gpu-operator-v26.3.3.tgz")),
        "{calls:?}"
    );
    assert_eq!(lab.helm.count("uninstall"), 1, "{:#}", lab.api.status());
    // The ClusterRole that stands for the release is there again after each uninstall: that has an end, too.
    assert_without_effect(
        &lab,
        "helm upgrade to chart 26.3.3 ended without an error and would have to be done again",
    );
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.helm.count("uninstall");
    assert!((4..=9).contains(&tries), "{tries} tries");
}

#[tokio::test(start_paused = true)]
async fn work_that_begins_while_helm_compares_holds_a_removal() {
    let lab = Lab::installed().await;
    lab.put_node("gpu-0", 1, 0);
    lab.settle().await;
    let (calls, compared) = (lab.helm.calls_file(), lab.helm.count("get values"));
    lab.api.fault(Fault::Refuse(500), move |r| {
        let calls = fs::read_to_string(&calls).unwrap_or_default();
        let now = calls
            .lines()
            .filter(|call| call.starts_with("get values"))
            .count();
        now > compared && r.verb == Verb::List && r.kind == "pods" && r.parameter("fieldSelector").is_some()
    });
    // The comparison is due in the same pass in which the removal would begin.
    lab.api.edit(GPU_MODULES, "default", |module: &mut Value| {
        module["metadata"]["annotations"][ANNOTATION_RECONCILE_AT] = json!("now");
        module["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    });
    lab.settle().await;
    assert!(lab.helm.count("get values") > compared, "{:?}", lab.helm.calls());
    assert_eq!(lab.helm.count("uninstall"), 0, "{:#}", lab.api.status());
    assert_eq!(
        lab.api.condition("Deleted")["reason"],
        "WorkUnreadable",
        "{:#}",
        lab.api.status()
    );
}
