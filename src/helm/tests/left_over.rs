//! A helm process that lives on after its operator was killed.

use serde_json::json;

use super::*;
use crate::helm::testing::{Role, is_running, read_number, until};

const OPERATOR: Role = Role {
    name: "operator",
    test: "helm::tests::left_over::as_operator",
};

/// Each change notes its start and end; all but the first end at once, the first when `$DIR/go` is there.
const NOTING: &str = r#"
[ "$1" = get ] && { echo null; exit; }
echo "start $1" >> $DIR/log
if ! [ -e $DIR/process ]; then
  echo $$ > $DIR/process.new; mv $DIR/process.new $DIR/process
  while [ -d $DIR ] && ! [ -e $DIR/go ]; do sleep 0.02; done
fi
echo "end $1" >> $DIR/log
"#;

/// An operator of its own that upgrades; killed while helm runs. Returns the number of the helm process.
async fn kill_an_operator(fake: &Fake) -> i32 {
    let folder = fake.dir.path().to_str().expect("UTF-8");
    let mut operator = OPERATOR.start(&[], &[("GPU_MANAGER_TEST_FOLDER", folder)]);
    fake.makes("process").await;
    operator.kill().await.expect("the operator dies");
    let helm = read_number(&fake.file("process"));
    assert!(is_running(helm), "helm died with its operator");
    helm
}

/// The part of the operator that is killed. Does nothing elsewhere.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "a copy of the test learns by a variable where to work"
)]
async fn as_operator() {
    if !OPERATOR.is_ours() {
        return;
    }
    let folder = std::env::var("GPU_MANAGER_TEST_FOLDER").expect("the folder");
    let (_interrupter, interrupt) = interrupt();
    let helm = Helm::open(settings(Path::new(&folder)), interrupt)
        .await
        .expect("a usable helm");
    let _ = upgrade(&helm, &json!({})).await;
}

#[tokio::test]
async fn the_next_change_waits_for_it() {
    let fake = Fake::new(NOTING);
    let left_over = kill_an_operator(&fake).await;

    let (helm, _interrupter) = fake.open().await;
    helm.get_values(&release(), None)
        .await
        .expect("reading does not wait");
    let change = rollback(&helm);
    tokio::pin!(change);
    // Long enough for several looks at the lock; the log below proves the order.
    let early = tokio::time::timeout(Duration::from_millis(700), &mut change).await;
    assert!(early.is_err(), "did not wait: {early:?}");
    fake.write("go");
    change.await.expect("its turn came");
    assert_eq!(
        fake.text("log"),
        "start upgrade\nend upgrade\nstart rollback\nend rollback\n"
    );
    until("the left-over helm is gone", || !is_running(left_over)).await;
}

#[tokio::test]
async fn a_shutdown_ends_the_waiting() {
    let fake = Fake::new(NOTING);
    let left_over = kill_an_operator(&fake).await;
    let (helm, interrupter) = fake.open().await;
    let (result, ()) = tokio::join!(rollback(&helm), async { interrupter.shutdown() });
    assert!(
        matches!(
            result,
            Err(HelmError::Interrupted {
                cause: Cause::Shutdown,
                ..
            })
        ),
        "{result:?}"
    );
    fake.write("go");
    until("the left-over helm is gone", || !is_running(left_over)).await;
}

#[tokio::test]
async fn the_waiting_has_an_end() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let work_dir = WorkDir::create(dir.path()).expect("a working directory");
    let (_interrupter, interrupt) = interrupt();
    let held = work_dir.try_lock().expect("the lock");
    let values = work_dir.write_values(&json!({})).expect("a file with values");
    let result = work_dir.lock(Duration::from_millis(300), &interrupt).await;
    assert!(matches!(result, Err(LockError::Held)), "{result:?}");
    assert!(
        dir.path().join(values.name()).exists(),
        "values of a running helm were removed"
    );

    drop(held.stdin().expect("a copy"));
    assert!(work_dir.try_lock().is_err(), "the copy took the lock along");
    let stdin = held.stdin().expect("a copy");
    drop(held);
    assert!(work_dir.try_lock().is_err(), "the copy does not hold the lock");
    drop(stdin);
    work_dir
        .lock(Duration::from_secs(10), &interrupt)
        .await
        .expect("the lock is free");
}
