//! Which commands a shutdown or a lost lease stops.

use std::time::Instant;

use serde_json::json;

use super::*;

/// Helm's manners: upgrade handles TERM, the others do not. All wait for `$DIR/go`, but not for ever.
const HELM_LIKE: &str = r#"
[ "$1" = upgrade ] && trap 'echo "Error: UPGRADE FAILED: context canceled" >&2; exit 1' TERM
: > $DIR/ready
n=0
while [ $n -lt 1000 ] && ! [ -e $DIR/go ]; do n=$((n + 1)); sleep 0.02; done
"#;

fn cause_of<T: std::fmt::Debug>(result: Result<T, HelmError>) -> (Cause, bool) {
    match result {
        Err(HelmError::Interrupted { cause, killed, .. }) => (cause, killed),
        other => panic!("not interrupted: {other:?}"),
    }
}

#[tokio::test]
async fn a_shutdown_stops_an_upgrade() {
    let fake = Fake::new(HELM_LIKE);
    let (helm, interrupter) = fake.open().await;
    let values = json!({});
    let (result, ()) = tokio::join!(upgrade(&helm, &values), async {
        fake.makes("ready").await;
        interrupter.shutdown();
    });
    assert_eq!(cause_of(result), (Cause::Shutdown, false));
}

#[tokio::test]
async fn a_shutdown_lets_uninstall_rollback_and_reading_finish() {
    let fake = Fake::new(HELM_LIKE);
    let (helm, interrupter) = fake.open().await;
    let (result, ()) = tokio::join!(uninstall(&helm), shut_down_and_go(&fake, &interrupter));
    assert!(result.expect("finished").is_some());

    let fake = Fake::new(HELM_LIKE);
    let (helm, interrupter) = fake.open().await;
    let (result, ()) = tokio::join!(rollback(&helm), shut_down_and_go(&fake, &interrupter));
    result.expect("finished");

    let fake = Fake::new(HELM_LIKE);
    let (helm, interrupter) = fake.open().await;
    let chart = Path::new("/charts/c.tgz");
    let (result, ()) = tokio::join!(helm.show_crds(chart), shut_down_and_go(&fake, &interrupter));
    result.expect("finished");
}

async fn shut_down_and_go(fake: &Fake, interrupter: &Interrupter) {
    fake.makes("ready").await;
    interrupter.shutdown();
    fake.write("go");
}

#[tokio::test]
async fn a_lost_lease_stops_an_uninstall_at_once() {
    let fake = Fake::new(HELM_LIKE);
    let (helm, interrupter) = fake.open().await;
    let (result, ()) = tokio::join!(uninstall(&helm), async {
        fake.makes("ready").await;
        interrupter.lease_lost(Instant::now() + Duration::from_mins(1));
    });
    assert_eq!(cause_of(result), (Cause::LeaseLost, false));
}

#[tokio::test]
async fn a_lost_lease_kills_an_uninstall_in_time() {
    let fake = Fake::new("trap '' TERM; : > $DIR/ready; while :; do sleep 0.02; done");
    let (helm, interrupter) = fake.open().await;
    let (result, kill_by) = tokio::join!(uninstall(&helm), async {
        fake.makes("ready").await;
        let kill_by = Instant::now() + Duration::from_secs(3);
        interrupter.lease_lost(kill_by);
        kill_by
    });
    assert!(Instant::now() < kill_by, "late by {:?}", kill_by.elapsed());
    assert_eq!(cause_of(result), (Cause::LeaseLost, true));
}

#[tokio::test]
async fn nothing_is_started_any_more() {
    let fake = Fake::new("echo $1 >> $DIR/log");
    let (helm, interrupter) = fake.open().await;
    interrupter.shutdown();
    assert_eq!(
        cause_of(upgrade(&helm, &json!({})).await),
        (Cause::Shutdown, false)
    );
    assert_eq!(cause_of(uninstall(&helm).await), (Cause::Shutdown, false));
    assert_eq!(cause_of(rollback(&helm).await), (Cause::Shutdown, false));
    let chart = Path::new("/charts/c.tgz");
    helm.show_crds(chart).await.expect("reading goes on");
    assert_eq!(fake.text("log"), "show\n");

    interrupter.lease_lost(Instant::now() + Duration::from_mins(1));
    assert_eq!(cause_of(helm.show_crds(chart).await), (Cause::LeaseLost, false));
    assert_eq!(fake.text("log"), "show\n");
}
