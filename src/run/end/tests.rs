//! Ends of a leading replica, and whether the Pod's grace period allows for them.

use k8s_openapi::api::apps::v1::Deployment;

use super::*;
use crate::helm::{self, Phase};

fn leading() -> (watch::Sender<Leadership>, watch::Receiver<Leadership>) {
    let until = Instant::now() + Duration::from_hours(1);
    watch::channel(Leadership::Leading { until })
}

#[tokio::test]
async fn work_that_breaks_off_is_noticed_at_once() {
    let (_signal, mut signals) = mpsc::channel(1);
    let (_sender, mut leadership) = leading();
    let mut work = tokio::spawn(async { panic!("a fault") });
    let End::Work(ended) = reason(&mut signals, &mut leadership, &mut work).await else {
        panic!("another reason");
    };
    let error = format!("{:#}", broken_off(ended));
    assert!(
        error.starts_with("the reconciler broke off: ") && error.contains("a fault"),
        "{error}"
    );

    let mut work = tokio::spawn(async {});
    let end = reason(&mut signals, &mut leadership, &mut work).await;
    assert!(matches!(end, End::Work(Ok(()))), "{end:?}");
}

#[tokio::test]
async fn a_vanished_elector_is_a_lost_lease() {
    let (_signal, mut signals) = mpsc::channel(1);
    let (sender, mut leadership) = leading();
    drop(sender);
    let mut work = tokio::spawn(std::future::pending());
    let end = reason(&mut signals, &mut leadership, &mut work).await;
    assert!(matches!(end, End::LeaseLost(_)), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn a_signal_lets_the_work_finish_within_the_limit() {
    let (interrupter, interrupt) = helm::interrupt();
    let (_sender, mut leadership) = leading();
    let work = tokio::spawn(tokio::time::sleep(
        DRAIN_LIMIT.saturating_sub(Duration::from_secs(1)),
    ));
    let ended = by_signal(work, &interrupter, &mut leadership).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(interrupt.phase(), Phase::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn work_that_never_ends_is_stopped() {
    let (interrupter, interrupt) = helm::interrupt();
    let (_sender, mut leadership) = leading();
    let start = Instant::now();
    let work = tokio::spawn(std::future::pending());
    let ended = by_signal(work, &interrupter, &mut leadership).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert!(matches!(interrupt.phase(), Phase::LeaseLost { .. }));
    assert!(start.elapsed() <= DRAIN_LIMIT + KILL_GRACE + Duration::from_secs(1));
}

#[test]
fn the_grace_period_of_the_pod_is_long_enough() {
    let text = include_str!("../../../hack/deploy/base/deployment.yaml");
    let deployment: Deployment = serde_saphyr::from_str(text).unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let grace = Duration::from_secs(pod.termination_grace_period_seconds.unwrap().try_into().unwrap());
    // Afterwards the Lease is released and the servers end, each within 5 s.
    let needed = DRAIN_LIMIT + KILL_GRACE + Duration::from_secs(10);
    assert!(
        grace > needed,
        "the Pod has {grace:?}, the operator may need {needed:?}"
    );
}
