//! Nodes change all the time; only what matters wakes the reconciler.

use serde_json::json;

use crate::lab::Lab;

#[tokio::test(start_paused = true)]
async fn thousands_of_heartbeats_cause_nothing_and_one_gpu_does() {
    const NODES: u64 = 100;
    const HEARTBEATS: u64 = 50;
    let lab = Lab::installed().await;
    for node in 0..NODES {
        lab.put_node(&format!("node-{node}"), 1, 0);
    }
    lab.settle().await;
    assert_eq!(lab.api.status()["gpuNodes"]["summary"], "100/100");
    let changes = lab.views.changes();
    let (before, requested) = (*changes.borrow(), lab.api.count());

    for heartbeat in 1..=HEARTBEATS {
        for node in 0..NODES {
            lab.put_node(&format!("node-{node}"), 1, heartbeat);
        }
        lab.settle().await;
    }
    assert_eq!(*changes.borrow(), before, "heartbeats changed facts");
    assert_eq!(lab.api.count(), requested, "heartbeats caused requests");

    lab.put_node("node-7", 0, HEARTBEATS);
    lab.settle().await;
    assert_eq!(*changes.borrow(), before + 1);
    let requests = lab.api.requests(|_| true).split_off(requested);
    assert!(requests[0].is_status(), "{requests:?}");
    assert_eq!(lab.api.status()["gpuNodes"]["usable"], 99);
    let statuses = requests.iter().filter(|request| request.is_status()).count();
    assert_eq!(statuses, 1, "{requests:?}");
}

/// Looking at the world before acting is no reason to hold a driver change.
#[tokio::test(start_paused = true)]
async fn another_driver_goes_at_once_onto_idle_nodes() {
    let lab = Lab::installed().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    lab.change_spec(json!({ "driver": { "branch": 590 } }));
    lab.settle().await;
    let pending = lab.api.condition("DriverChangePending");
    assert_eq!(pending["reason"], "NoDriverChange", "{:#}", lab.api.status());
    assert_eq!(lab.helm.count("upgrade --install"), 2, "{:?}", lab.helm.calls());
}
