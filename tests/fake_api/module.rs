//! The GpuModule itself: unreadable, late in the cache, deleted.

use std::time::Duration;

use gpu_manager::api::FINALIZER;
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::server::{FakeApi, GPU_MODULES, NODES, Recorded, Verb};

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_gets_a_warning_and_blocks_nothing() {
    let lab = Lab::start().await;
    lab.create_module(&json!({ "driver": { "branch": 999 } }));
    lab.settle().await;
    let status = lab.api.status();
    assert_eq!(lab.state(), "Warning", "{status:#}");
    assert_eq!(status["observedGeneration"], 1, "{status:#}");
    let description = status["description"].to_string();
    assert!(
        description.contains("cannot read the spec") && description.contains("999"),
        "{description}"
    );
    assert_eq!(lab.helm.count("upgrade"), 0);
    lab.advance(Duration::from_mins(5)).await;
    let writes = lab.api.requests(Recorded::is_status).len();
    assert!(writes <= 2, "the same warning is written {writes} times");

    let generation = lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.settle().await;
    assert_eq!(lab.api.status()["observedGeneration"], generation);
    assert_eq!(lab.helm.count("upgrade --install"), 1, "{:#}", lab.api.status());

    // A bad one later leaves the release alone.
    let generation = lab.change_spec(json!({ "driver": { "mode": "Emulated" } }));
    lab.settle().await;
    assert_eq!((lab.state().as_str(), lab.helm.count("upgrade")), ("Warning", 1));
    let status = lab.api.status();
    assert_eq!(status["observedGeneration"], generation, "{status:#}");
    assert_eq!(status["release"]["revision"], 1, "{status:#}");
    assert_eq!(lab.api.condition("Installed")["status"], "True", "{status:#}");
    assert_eq!(
        lab.api.condition("Ready")["reason"],
        "SpecUnreadable",
        "{status:#}"
    );
    lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.settle().await;
    assert_eq!(
        lab.api.condition("Installed")["status"],
        "True",
        "{:#}",
        lab.api.status()
    );
    assert_eq!(lab.helm.count("upgrade"), 1, "{:?}", lab.helm.calls());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_after_a_restart_keeps_what_its_status_knows() {
    let api = FakeApi::new();
    api.put(
        GPU_MODULES,
        json!({ "metadata": { "name": "default" }, "spec": { "driver": { "branch": 999 } },
        "status": { "state": "Ready", "description": "", "observedGeneration": 1, "conditions": [],
            "gpuNodes": { "total": 2, "usable": 1, "summary": "1/2" },
            "release": { "name": "gpu-operator", "namespace": "gpu-operator", "chartVersion": "26.3.3",
                "appVersion": "v26.3.3", "revision": 4, "valuesDigest": "d" } } }),
    );
    let lab = Lab::start_on(api).await;
    let status = lab.api.status();
    assert_eq!(lab.state(), "Warning", "{status:#}");
    assert_eq!(
        (&status["release"]["revision"], &status["gpuNodes"]["summary"]),
        (&json!(4), &json!("1/2"))
    );
    let metrics = lab.metrics.encode();
    assert!(
        metrics.contains("gpu_manager_module_state{state=\"Warning\"} 1"),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_and_is_deleted_keeps_its_status_and_its_wishes() {
    let api = FakeApi::new();
    let before = json!({ "time": "2026-01-01T00:00:00Z", "operation": "Upgrade", "outcome": "Succeeded", "message": "before" });
    api.put(
        GPU_MODULES,
        json!({ "metadata": { "name": "default", "deletionTimestamp": "2026-11-30T08:00:00Z",
                "finalizers": [FINALIZER] },
            "spec": { "driver": { "branch": 999 }, "deletion": { "workloads": "Ignore" } },
            "status": { "state": "Ready", "description": "", "observedGeneration": 1, "conditions": [],
                "gpuNodes": { "total": 0, "usable": 0, "summary": "0/0" }, "history": [before],
                "release": { "name": "gpu-operator", "namespace": "gpu-operator", "chartVersion": "26.3.3",
                    "appVersion": "v26.3.3", "revision": 4, "valuesDigest": "d" } } }),
    );
    // It keeps the removal from its end, so that the status can be read.
    api.put(
        "namespaces",
        json!({ "metadata": { "name": "gpu-operator", "deletionTimestamp": "2026-11-30T08:00:00Z",
            "finalizers": ["example.com/kept"] } }),
    );
    let lab = Lab::start_on(api).await;
    lab.advance(Duration::from_secs(10)).await;
    let status = lab.api.status();
    assert_eq!(status["release"]["revision"], 4, "{status:#}");
    let history = status["history"].to_string();
    assert!(history.contains("before"), "{status:#}");
    let deleted = lab.api.condition("Deleted")["message"].to_string();
    assert!(deleted.contains("example.com/kept"), "{status:#}");
}

#[tokio::test(start_paused = true)]
async fn a_module_that_goes_without_a_finalizer_leaves_no_state_behind() {
    let lab = Lab::start().await;
    lab.create_module(&json!({ "suspend": true }));
    lab.settle().await;
    assert!(
        lab.metrics
            .encode()
            .contains("gpu_manager_module_state{state=\"Warning\"} 1")
    );
    lab.api.delete(GPU_MODULES, "default");
    lab.settle().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    let metrics = lab.metrics.encode();
    assert!(
        metrics.contains("gpu_manager_module_state{state=\"Warning\"} 0"),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_old_object_in_the_cache_undoes_nothing() {
    let lab = Lab::installed().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    assert_eq!(lab.api.status()["gpuNodes"]["summary"], "1/1");
    let ready_since = lab.api.condition("Ready")["lastTransitionTime"].clone();

    // From here on the operator does not see what becomes of the GpuModule.
    lab.api.keep_late(GPU_MODULES);
    lab.put_node("two", 1, 0);
    lab.settle().await;
    assert_eq!(lab.api.status()["gpuNodes"]["summary"], "2/2");
    // Facts change without the status: what it writes must be the newest, not what the cache has.
    lab.api.put("daemonsets.apps", json!({
        "metadata": { "name": "set", "namespace": "gpu-operator",
            "labels": { "app.kubernetes.io/managed-by": "gpu-operator" } },
        "status": { "desiredNumberScheduled": 2, "numberReady": 1, "currentNumberScheduled": 2, "numberMisscheduled": 0 } }));
    lab.settle().await;
    assert_eq!(lab.api.status()["gpuNodes"]["summary"], "2/2");
    // Back to what the cache still shows: it has to be written nevertheless.
    lab.api.delete(NODES, "two");
    lab.settle().await;
    assert_eq!(lab.api.status()["gpuNodes"]["summary"], "1/1");
    assert_eq!(lab.api.condition("Ready")["lastTransitionTime"], ready_since);

    lab.api.heal();
    lab.settle().await;
    let before = lab.api.requests(Recorded::is_status).len();
    lab.advance(Duration::from_mins(5)).await;
    assert_eq!(lab.api.requests(Recorded::is_status).len(), before);
    assert_eq!(lab.helm.count("upgrade"), 1, "{:?}", lab.helm.calls());
}

#[tokio::test(start_paused = true)]
async fn a_release_is_made_once_although_the_cache_knows_nothing_of_it() {
    let lab = Lab::start().await;
    lab.create_module(&json!({ "suspend": true }));
    lab.settle().await;
    lab.change_spec(json!({}));
    // The pass that installs sees none of its own writes to the GpuModule afterwards.
    lab.settle().await;
    lab.api.keep_late(GPU_MODULES);
    for name in ["one", "two", "three"] {
        lab.put_node(name, 1, 0);
        lab.settle().await;
    }
    assert_eq!(lab.helm.count("upgrade"), 1, "{:?}", lab.helm.calls());
    assert_eq!(lab.api.status()["release"]["revision"], 1);
}

#[tokio::test(start_paused = true)]
async fn deletion_uninstalls_and_lets_go() {
    let lab = Lab::installed().await;
    let finalizers = |finalizers: Value| {
        let set = |policy: &mut Value| policy["metadata"]["finalizers"] = finalizers;
        lab.api.edit("clusterpolicies.nvidia.com", "cluster-policy", set)
    };
    finalizers(json!(["somebody.example/busy"]));
    lab.api.delete(GPU_MODULES, "default");
    lab.settle().await;
    assert_eq!(lab.helm.count("uninstall"), 1, "{:?}", lab.helm.calls());
    assert_eq!(
        lab.state(),
        "Deleting",
        "the ClusterPolicy is still there: {:#}",
        lab.api.status()
    );
    finalizers(json!([]));
    lab.advance(Duration::from_secs(10)).await;
    assert_eq!(lab.api.get(GPU_MODULES, "default"), None);
    assert!(
        !lab.metrics.encode().contains("gpu_manager_release_info{"),
        "{}",
        lab.metrics.encode()
    );
    // Nothing goes on without a GpuModule.
    let before = lab.api.requests(|r| !r.is_watching()).len();
    lab.advance_fast(Duration::from_hours(2)).await;
    let after = lab.api.requests(|r| !r.is_watching()).len();
    assert_eq!(after, before);
    assert_eq!(lab.api.requests(|r| r.verb == Verb::Other).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_or_said_without_the_lease() {
    let lab = Lab::installed().await;
    let (asked, called) = (lab.api.requests(writes).len(), lab.helm.calls().len());
    lab.set_leads(false);
    lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.put_node("gpu-0", 0, 0);
    lab.advance(Duration::from_mins(2)).await;
    let written = lab.api.requests(writes).split_off(asked);
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(lab.helm.calls().len(), called);

    lab.set_leads(true);
    lab.change_spec(json!({ "driver": { "branch": 570 } }));
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade"), 2, "{:?}", lab.helm.calls());
}

fn writes(request: &Recorded) -> bool {
    !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
}
