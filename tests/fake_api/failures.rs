//! Calls that fail or hang: they end, are told in the status, are tried again ever more rarely, and heal.

use std::time::Duration;

use gpu_manager::kube_api::API_DEADLINE;
use serde_json::json;
use tokio::time::Instant;

use crate::lab::Lab;
use crate::server::{Fault, GPU_MODULES, Recorded, Verb};

fn reads_namespace(request: &Recorded) -> bool {
    request.verb == Verb::Get && request.kind == "namespaces"
}

fn applies_namespace(request: &Recorded) -> bool {
    request.verb == Verb::Patch && request.kind == "namespaces"
}

/// When the requests came, as seconds since `begin`.
fn seconds(requests: &[Recorded], begin: Instant) -> Vec<u64> {
    requests.iter().map(|r| (r.at - begin).as_secs()).collect()
}

fn assert_failed(lab: &Lab, reason: &str) {
    let status = lab.api.status();
    assert_eq!(lab.state(), "Error", "{status:#}");
    assert_eq!(lab.installed_reason(), reason, "{status:#}");
    let ready = lab.api.condition("Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!(reason))
    );
}

/// Installs while requests that `concerns` accepts fail, then heals.
async fn fails_and_heals(fault: Fault, concerns: fn(&Recorded) -> bool, says: &str) {
    let lab = Lab::start().await;
    lab.api.fault(fault, concerns);
    let begin = Instant::now();
    lab.create_module(&json!({}));
    lab.settle().await;
    if fault == Fault::Hang {
        assert_ne!(lab.state(), "Error", "the deadline has not passed");
        lab.advance(API_DEADLINE + Duration::from_secs(1)).await;
    }
    assert_failed(&lab, "ApiCallFailed");
    let description = lab.api.status()["description"].to_string();
    assert!(description.contains(says), "{description}");

    lab.advance_fast(Duration::from_mins(15)).await;
    assert_failed(&lab, "ApiCallFailed");
    let tries = seconds(&lab.api.requests(concerns), begin);
    let pauses: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((5..=9).contains(&tries.len()), "tries at {tries:?} s");
    assert!(
        pauses.windows(2).all(|pair| pair[0] <= pair[1]),
        "pauses {pauses:?}"
    );

    lab.api.heal();
    lab.advance_fast(Duration::from_mins(10) + 2 * API_DEADLINE).await;
    assert_eq!(lab.helm.count("upgrade --install"), 1);
    assert_eq!(
        lab.api.condition("Installed")["status"],
        "True",
        "{:#}",
        lab.api.status()
    );
}

#[tokio::test(start_paused = true)]
async fn a_hung_read_meets_its_deadline() {
    let says = "cannot read Namespace gpu-operator: the Kubernetes API did not answer within 10 s";
    fails_and_heals(Fault::Hang, reads_namespace, says).await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_write_meets_its_deadline() {
    let says = "cannot apply Namespace gpu-operator: the Kubernetes API did not answer within 10 s";
    fails_and_heals(Fault::Hang, applies_namespace, says).await;
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_is_told_and_tried_again() {
    let says = "cannot read Namespace gpu-operator: the fake API says 500 (HTTP 500)";
    fails_and_heals(Fault::Refuse(500), reads_namespace, says).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_told_and_tried_again() {
    let says = "cannot apply Namespace gpu-operator: the fake API says 403 (HTTP 403)";
    fails_and_heals(Fault::Refuse(403), applies_namespace, says).await;
}

#[tokio::test(start_paused = true)]
async fn rights_that_never_come_are_an_error_with_an_end() {
    let lab = Lab::start().await;
    lab.api.withhold_rights();
    lab.create_module(&json!({}));
    lab.advance(Duration::from_secs(15)).await;
    assert_failed(&lab, "ApiCallFailed");
    let description = lab.api.status()["description"].to_string();
    assert!(description.contains("list the Secrets"), "{description}");
    lab.advance_fast(Duration::from_mins(15)).await;
    let tries = lab.api.requests(applies_namespace).len();
    assert!((5..=9).contains(&tries), "{tries} tries");

    // Another spec is worth another try, at once.
    lab.api.heal();
    lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade --install"), 1, "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_written_later() {
    for fault in [Fault::Hang, Fault::Refuse(500)] {
        let lab = Lab::installed().await;
        lab.api.fault(fault, Recorded::is_status);
        lab.put_node("one", 1, 0);
        lab.advance(Duration::from_mins(1)).await;
        assert_eq!(lab.api.status()["gpuNodes"]["total"], 0);
        let tries = lab
            .api
            .requests(|r| r.is_status() && r.body["status"]["gpuNodes"]["total"] == 1);
        assert!((2..=14).contains(&tries.len()), "{} tries", tries.len());
        lab.api.heal();
        lab.advance(API_DEADLINE + Duration::from_secs(6)).await;
        assert_eq!(lab.api.status()["gpuNodes"]["summary"], "1/1");
        assert_eq!(lab.state(), "Ready");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_hang_cost_one_deadline() {
    let lab = Lab::start().await;
    lab.api.fault(Fault::Hang, |r| r.kind == "events.events.k8s.io");
    lab.create_module(&json!({ "chartVersion": "1.0.0" }));
    lab.settle().await;
    assert_eq!(lab.state(), "Warning", "{:#}", lab.api.status());
    assert_eq!(lab.api.requests(|r| r.kind == "events.events.k8s.io").len(), 5);
    let generation = lab.change_spec(json!({ "chartVersion": "1.0.1" }));
    lab.advance(API_DEADLINE + Duration::from_secs(1)).await;
    assert_eq!(lab.api.status()["observedGeneration"], generation);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_meets_a_conflict_is_set_later() {
    let sets_finalizer = |r: &Recorded| r.verb == Verb::Patch && r.kind == GPU_MODULES && !r.is_status();
    let lab = Lab::start().await;
    lab.api.fault(Fault::Refuse(409), sets_finalizer);
    lab.create_module(&json!({}));
    lab.advance(Duration::from_secs(21)).await;
    let tries = lab.api.requests(sets_finalizer);
    assert!((3..=6).contains(&tries.len()), "{} tries", tries.len());
    assert!(
        tries
            .iter()
            .all(|r| r.body["metadata"]["resourceVersion"].is_string())
    );
    assert_eq!(lab.helm.count("upgrade --install"), 0);
    let state = lab.state();
    assert!(
        state.is_empty() || state == "Processing",
        "a conflict is no failure: {state}"
    );

    lab.api.heal();
    lab.advance(Duration::from_secs(6)).await;
    assert_eq!(lab.helm.count("upgrade --install"), 1, "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn what_helm_says_is_told_and_another_spec_is_tried_at_once() {
    let lab = Lab::start().await;
    lab.helm.fail_upgrades(Some(
        "Error: values don't meet the specifications of the schema\n",
    ));
    lab.create_module(&json!({}));
    lab.settle().await;
    assert_failed(&lab, "InstallFailed");
    let message = lab.api.condition("Installed")["message"].to_string();
    assert!(
        message.contains("values don't meet the specifications"),
        "{message}"
    );
    lab.advance_fast(Duration::from_hours(3)).await;
    let tries = lab.helm.count("upgrade --install");
    assert!((20..=27).contains(&tries), "{tries} tries in three hours");

    lab.helm.fail_upgrades(None);
    lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade --install"), tries + 1);
    assert_eq!(
        lab.api.status()["driver"]["branch"],
        590,
        "{:#}",
        lab.api.status()
    );
}
