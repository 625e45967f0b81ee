//! An unchanged world costs nothing, and a comparison about every hour finds what no watch tells.

use std::time::Duration;

use serde_json::json;

use crate::lab::Lab;
use crate::server::{GPU_MODULES, Recorded, Verb};

const MINUTE: Duration = Duration::from_mins(1);

/// Requests that are not a watch's own.
fn asks(request: &Recorded) -> bool {
    request.verb != Verb::Watch
}

fn comparisons(lab: &Lab) -> usize {
    lab.helm.count("get metadata")
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_hour_is_silent_but_for_one_comparison() {
    let lab = Lab::installed().await;
    let (asked, called) = (lab.api.requests(asks).len(), lab.helm.calls().len());
    lab.advance_fast(53 * MINUTE).await;
    let requests = lab.api.requests(asks).split_off(asked);
    assert!(requests.is_empty(), "{requests:?}");
    assert_eq!(lab.helm.calls().len(), called);

    lab.advance_fast(14 * MINUTE).await;
    let paths: Vec<_> = lab
        .api
        .requests(asks)
        .split_off(asked)
        .into_iter()
        .map(|r| r.path)
        .collect();
    let expected = [
        "/version",
        // Whether the newest revision is as known, and whether there is a newer one.
        "/api/v1/namespaces/gpu-operator/secrets/sh.helm.release.v1.gpu-operator.v1",
        "/api/v1/namespaces/gpu-operator/secrets/sh.helm.release.v1.gpu-operator.v2",
        "/api/v1/namespaces/gpu-operator",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpu-operator",
        "/apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator",
    ];
    assert_eq!(
        paths.iter().filter(|path| **path == "/version").count(),
        1,
        "{paths:?}"
    );
    assert!(
        paths.iter().all(|path| expected.contains(&path.as_str())),
        "{paths:?}"
    );
    assert_eq!(
        lab.helm.calls().split_off(called).len(),
        2,
        "{:?}",
        lab.helm.calls()
    );
    assert_eq!(lab.state(), "Ready");

    let compared = comparisons(&lab);
    lab.advance_fast(6 * 60 * MINUTE).await;
    let more = comparisons(&lab) - compared;
    assert!((5..=6).contains(&more), "{more} comparisons in six hours");
    assert_eq!(lab.helm.count("upgrade"), 1);
}

#[tokio::test(start_paused = true)]
async fn comparisons_are_not_in_step_with_each_other() {
    let mut at = vec![];
    for _ in 0..3 {
        let lab = Lab::installed().await;
        let asked = lab.api.count();
        let begin = tokio::time::Instant::now();
        lab.advance_fast(67 * MINUTE).await;
        let requests = lab.api.requests(|_| true).split_off(asked);
        let version = requests
            .iter()
            .find(|r| r.path == "/version")
            .expect("a comparison");
        at.push((version.at - begin).as_secs());
    }
    assert!(at.iter().any(|other| *other != at[0]), "all at {at:?} s");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_changed_in_silence_is_healed_within_the_hour() {
    let lab = Lab::installed().await;
    let wanted = lab.helm.values(1);
    lab.helm
        .falsify_values(1, &json!({ "operator": { "replicas": 7 } }));
    lab.advance_fast(53 * MINUTE).await;
    assert_eq!(lab.helm.count("upgrade"), 1);
    lab.advance_fast(14 * MINUTE).await;
    assert_eq!(lab.helm.count("upgrade"), 2, "{:?}", lab.helm.calls());
    assert_eq!(lab.helm.values(2), wanted);
    assert_eq!(
        (lab.state().as_str(), &lab.api.status()["release"]["revision"]),
        ("Ready", &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn an_annotation_asks_for_the_comparison_at_once_and_once() {
    let lab = Lab::installed().await;
    lab.helm.falsify_values(1, &json!({}));
    lab.api.edit(GPU_MODULES, "default", |module| {
        module["metadata"]["annotations"]["gpu-manager.kyma-project.io/reconcile-at"] = json!("now");
    });
    lab.settle().await;
    assert_eq!((lab.helm.count("upgrade"), lab.state().as_str()), (2, "Ready"));
    assert_eq!(lab.api.status()["lastHandledReconcileAt"], "now");
    let compared = comparisons(&lab);
    lab.advance_fast(30 * MINUTE).await;
    assert_eq!(comparisons(&lab), compared);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_module_stays_silent_also_when_a_comparison_is_due() {
    let lab = Lab::installed().await;
    lab.change_spec(json!({ "suspend": true }));
    lab.settle().await;
    let asked = lab.api.requests(asks).len();
    lab.helm.falsify_values(1, &json!({}));
    lab.advance_fast(120 * MINUTE).await;
    let requests = lab.api.requests(asks).split_off(asked);
    assert!(requests.is_empty(), "{requests:?}");
    // It is made up for.
    lab.change_spec(json!({}));
    lab.settle().await;
    assert_eq!((lab.helm.count("upgrade"), lab.state().as_str()), (2, "Ready"));
}
