//! Each watch by itself: it backs off, comes back, and loses nothing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpu_manager::facts::{Observed, ReleaseFacts};
use serde_json::json;

use crate::lab::{Lab, ready_policy};
use crate::server::{CRDS, FakeApi, Fault, NODES, ROLE_BINDINGS, Recorded, SECRETS, Verb};

fn observe(lab: &Lab) -> Observed {
    lab.views
        .observe("1.36".parse().expect("a version"), None, |node| node.shows_gpu)
}

fn nodes_seen(lab: &Lab) -> Vec<String> {
    observe(lab).gpu_nodes.into_iter().map(|node| node.name).collect()
}

fn bind_role(api: &FakeApi) {
    api.put(
        ROLE_BINDINGS,
        json!({ "metadata": { "name": "gpu-manager-release", "namespace": "gpu-operator" } }),
    );
}

fn is_readable(lab: &Lab) -> bool {
    observe(lab).release != ReleaseFacts::Unreadable
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_asks_ever_more_rarely() {
    let lab = Lab::start().await;
    let asked = |lab: &Lab| lab.api.requests(|r| r.kind == SECRETS).len();
    lab.advance_fast(Duration::from_mins(1)).await;
    let begin = asked(&lab);
    lab.advance_fast(Duration::from_mins(10)).await;
    // Pauses of 15 s and up to as much again in jitter; steps of 5 s.
    let asked = asked(&lab) - begin;
    assert!((15..=41).contains(&asked), "{asked} requests in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_comes_back_at_once_when_told_and_soon_when_not() {
    for told in [true, false] {
        let lab = Lab::start().await;
        lab.advance_fast(Duration::from_mins(5)).await;
        assert!(!is_readable(&lab));
        bind_role(&lab.api);
        if told {
            lab.views.retry_now();
            lab.settle().await;
        } else {
            lab.settle().await;
            assert!(!is_readable(&lab));
            lab.advance(Duration::from_secs(30)).await;
        }
        assert!(is_readable(&lab), "told: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn rights_that_come_back_show_everything_again() {
    let lab = Lab::installed().await;
    let before = observe(&lab).release;
    lab.api.withhold_rights();
    // The watch under way goes on until the API server ends it; the next one is refused.
    lab.advance_fast(Duration::from_mins(6)).await;
    assert!(!is_readable(&lab));
    lab.api.heal();
    lab.advance_fast(Duration::from_mins(1)).await;
    assert_eq!(observe(&lab).release, before);
    assert_eq!(lab.state(), "Ready", "{:#}", lab.api.status());
}

#[tokio::test(start_paused = true)]
async fn nvidias_kinds_are_watched_while_their_crds_are_there() {
    let lab = Lab::start().await;
    lab.advance(Duration::from_mins(2)).await;
    let asked = |lab: &Lab| lab.api.requests(|r| r.kind == "clusterpolicies.nvidia.com").len();
    assert_eq!(asked(&lab), 0, "a kind that does not exist is asked for");
    for _ in 0..2 {
        let crd = json!({ "metadata": { "name": "clusterpolicies.nvidia.com" } });
        lab.api.put(CRDS, crd);
        lab.api.put("clusterpolicies.nvidia.com", ready_policy());
        lab.settle().await;
        assert_eq!(observe(&lab).policies.len(), 1);

        lab.api.delete(CRDS, "clusterpolicies.nvidia.com");
        lab.settle().await;
        assert!(observe(&lab).policies.is_empty());
        let before = asked(&lab);
        lab.advance(Duration::from_mins(2)).await;
        assert_eq!(asked(&lab), before, "a kind that is gone is asked for");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_or_a_lost_history_hides_nothing() {
    let lab = Lab::start().await;
    lab.put_node("one", 1, 0);
    lab.put_node("two", 1, 0);
    lab.settle().await;
    assert_eq!(nodes_seen(&lab), ["one", "two"]);

    lab.api.cut_watches();
    lab.put_node("three", 1, 0);
    lab.settle().await;
    assert_eq!(nodes_seen(&lab), ["one", "three", "two"]);

    // 410: what happened meanwhile is only in a new list.
    let lists = || {
        lab.api
            .requests(|r| r.verb == Verb::List && r.kind == NODES)
            .len()
    };
    let before = lists();
    lab.api.keep_late(NODES);
    lab.api.delete(NODES, "two");
    lab.put_node("four", 1, 0);
    lab.api.expire_watches();
    lab.api.heal();
    lab.advance(Duration::from_secs(3)).await;
    assert_eq!(nodes_seen(&lab), ["four", "one", "three"]);
    assert_eq!(lists(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_as_too_old_begins_anew() {
    let lab = Lab::start().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    lab.api
        .fault(Fault::Refuse(410), |r| r.verb == Verb::Watch && r.kind == NODES);
    lab.api.cut_watches();
    lab.settle().await;
    lab.api.delete(NODES, "one");
    lab.put_node("two", 1, 0);
    // The history that the watch would go on from is gone for good.
    let version = lab.api.version();
    lab.api.heal();
    lab.api.fault(Fault::Refuse(410), move |r| {
        let since = r
            .parameter("resourceVersion")
            .and_then(|text| text.parse::<u64>().ok());
        r.verb == Verb::Watch && r.kind == NODES && since.is_some_and(|since| since < version)
    });
    lab.advance(Duration::from_secs(30)).await;
    assert_eq!(nodes_seen(&lab), ["two"]);
}

#[tokio::test(start_paused = true)]
async fn failing_watches_keep_what_is_known() {
    let lab = Lab::start().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    lab.api.fault(Fault::Refuse(500), |r| r.kind == NODES);
    lab.api.cut_watches();
    lab.advance_fast(Duration::from_mins(5)).await;
    assert_eq!(nodes_seen(&lab), ["one"]);
    lab.put_node("two", 1, 0);
    lab.api.heal();
    lab.advance_fast(Duration::from_mins(1)).await;
    assert_eq!(nodes_seen(&lab), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn of_secrets_only_metadata_is_asked_for() {
    let lab = Lab::installed().await;
    lab.advance_fast(Duration::from_mins(10)).await;
    let secrets = lab.api.requests(|r| r.kind == SECRETS);
    assert!(secrets.len() > 4, "{}", secrets.len());
    for request in secrets {
        let selector = request.parameter("labelSelector");
        assert!(request.metadata_only, "{request:?}");
        assert_eq!(request.namespace, "gpu-operator");
        let of_release = match request.verb {
            Verb::Get => request.path.contains("/sh.helm.release.v1.gpu-operator.v"),
            _ => selector == Some("owner=helm,name=gpu-operator"),
        };
        assert!(of_release, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_watch_of_revisions_has_not_told_is_seen_before_acting() {
    let lab = Lab::installed().await;
    lab.api
        .fault(Fault::Hang, |r| r.kind == SECRETS && r.verb == Verb::Watch);
    lab.api.cut_watches();
    lab.settle().await;
    // Somebody upgrades by hand; Helm's labels of it are not the module's.
    let (ours, theirs) = (lab.helm.revisions().join("1"), lab.helm.revisions().join("2"));
    std::fs::create_dir(&theirs).unwrap();
    for file in std::fs::read_dir(&ours).unwrap() {
        let name = file.unwrap().file_name();
        if name != "labels" {
            std::fs::copy(ours.join(&name), theirs.join(&name)).unwrap();
        }
    }
    lab.change_spec(json!({ "values": { "mig": { "strategy": "mixed" } } }));
    lab.advance(Duration::from_secs(5)).await;
    let calls = lab.helm.calls();
    let upgrade = calls.iter().rfind(|call| call.starts_with("upgrade")).unwrap();
    assert!(upgrade.contains("the release was not as wanted"), "{calls:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_moment_hides_nothing_and_one_that_stays_is_told() {
    let lab = Lab::installed().await;
    lab.put_node("one", 1, 0);
    lab.settle().await;
    let written = lab.api.requests(Recorded::is_status).len();
    // So an API server begins: it answers before it knows its own rules.
    let left = AtomicU32::new(2);
    lab.api.fault(Fault::Refuse(403), move |r| {
        let one_less = |left: u32| left.checked_sub(1);
        r.kind == NODES
            && left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_ok()
    });
    lab.api.cut_watches();
    lab.advance(Duration::from_secs(20)).await;
    assert_eq!(nodes_seen(&lab), ["one"]);
    assert_eq!(
        lab.api.requests(Recorded::is_status).len(),
        written,
        "{:#}",
        lab.api.status()
    );

    lab.api.fault(Fault::Refuse(403), |r| r.kind == NODES);
    lab.api.cut_watches();
    lab.advance(Duration::from_secs(30)).await;
    assert_eq!(lab.state(), "Error", "{:#}", lab.api.status());
}
