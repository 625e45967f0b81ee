//! What is refused or missing elsewhere delays no change of the GpuModule.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::lab::Lab;
use crate::server::{Fault, Recorded, Verb};

/// How long a change of the GpuModule may go unanswered, with all around it broken.
const LIMIT: Duration = Duration::from_secs(1);

/// Changes the spec every 50 ms and returns how long each change took to show in `status.observedGeneration`.
async fn delays(lab: &Lab, changes: u32, spec: impl Fn(u32) -> Value) -> Vec<Duration> {
    let mut made = vec![];
    for number in 0..changes {
        made.push((lab.change_spec(spec(number)), Instant::now()));
        lab.advance(Duration::from_millis(50)).await;
    }
    lab.advance(2 * LIMIT).await;
    let written = lab.api.requests(Recorded::is_status);
    let delay = |(generation, at): &(i64, Instant)| {
        let answer = written.iter().find(|request| {
            let observed = request.body["status"]["observedGeneration"].as_i64();
            observed.is_some_and(|observed| observed >= *generation)
        });
        answer
            .unwrap_or_else(|| panic!("generation {generation} is never observed"))
            .at
            - *at
    };
    made.iter().map(delay).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wrong_spec_is_answered_at_once_while_everything_else_is_refused() {
    let lab = Lab::start().await;
    // Neither CRDs of NVIDIA nor rights in the release's namespace, nor that namespace.
    lab.create_module(&json!({ "chartVersion": "1.0.0" }));
    lab.settle().await;
    let delays = delays(
        &lab,
        50,
        |number| json!({ "chartVersion": format!("1.1.{number}") }),
    )
    .await;
    assert!(delays.iter().all(|delay| *delay <= LIMIT), "{delays:?}");
    assert_eq!(lab.state(), "Warning", "{:#}", lab.api.status());
    let lists = lab
        .api
        .requests(|r| r.verb == Verb::List && r.kind == "deployments.apps");
    assert!(lists.len() <= 6, "{} lists of Deployments in 5 s", lists.len());
}

#[tokio::test(start_paused = true)]
async fn a_right_spec_is_tried_at_once_while_everything_else_is_refused() {
    let lab = Lab::start().await;
    lab.api.fault(Fault::Refuse(403), |r| {
        r.verb == Verb::Patch && r.kind == "namespaces"
    });
    lab.create_module(&json!({}));
    lab.settle().await;
    let delays = delays(&lab, 50, |number| json!({ "values": { "number": number } })).await;
    assert!(delays.iter().all(|delay| *delay <= LIMIT), "{delays:?}");
    assert_eq!(lab.state(), "Error", "{:#}", lab.api.status());
    assert_eq!(lab.installed_reason(), "ApiCallFailed");
}

#[tokio::test(start_paused = true)]
async fn an_installation_needs_no_time_but_helms() {
    let lab = Lab::start().await;
    let begin = Instant::now();
    lab.create_module(&json!({}));
    lab.settle().await;
    assert_eq!(lab.helm.count("upgrade --install"), 1, "{:#}", lab.api.status());
    assert_eq!(
        lab.api.status()["release"]["revision"],
        1,
        "{:#}",
        lab.api.status()
    );
    // Its own RoleBinding and CRDs end the pauses of the watches that were refused before.
    lab.api
        .put("clusterpolicies.nvidia.com", crate::lab::ready_policy());
    lab.advance(LIMIT).await;
    assert_eq!(lab.state(), "Ready", "{:#}", lab.api.status());
    assert!(begin.elapsed() <= LIMIT, "{:?}", begin.elapsed());
}
