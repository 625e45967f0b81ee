//! How ends of helm become results.

use serde_json::json;

use super::*;

fn failing(stderr: &str) -> Fake {
    Fake::new(&format!("printf '%s\\n' \"{stderr}\" >&2; exit 1"))
}

#[tokio::test]
async fn helms_own_last_error() {
    let fake = failing("level=WARN msg=x\nError: UPGRADE FAILED: one\ntwo");
    let (helm, _interrupter) = fake.open().await;
    let error = upgrade(&helm, &json!({})).await.expect_err("the fake fails");
    assert!(
        matches!(&error, HelmError::Failed { code: 1, message, .. } if message == "UPGRADE FAILED: one two"),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "helm upgrade failed: UPGRADE FAILED: one two");
}

#[tokio::test]
async fn another_operation() {
    let fake = failing("Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress");
    let (helm, _interrupter) = fake.open().await;
    let error = upgrade(&helm, &json!({})).await.expect_err("the fake fails");
    assert!(
        matches!(error, HelmError::OperationInProgress { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn no_answer_from_the_api_server() {
    let fake = failing("Error: kubernetes cluster unreachable: Get x: connection refused");
    let (helm, _interrupter) = fake.open().await;
    let error = helm
        .get_metadata(&release(), None)
        .await
        .expect_err("the fake fails");
    assert!(matches!(error, HelmError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn no_such_release() {
    let fake = failing("Error: release: not found");
    let (helm, _interrupter) = fake.open().await;
    assert_eq!(uninstall(&helm).await.expect("no error"), None);
    assert_eq!(helm.get_metadata(&release(), None).await.expect("no error"), None);
    assert_eq!(
        helm.get_values(&release(), Some(3)).await.expect("no error"),
        None
    );
    let error = rollback(&helm).await.expect_err("nothing to go back to");
    assert!(matches!(error, HelmError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn results_of_reading() {
    let fake = Fake::new(r#"case "$1 $2" in "get values") echo null;; *) printf '%s ' "$@";; esac"#);
    let (helm, _interrupter) = fake.open().await;
    assert_eq!(
        helm.get_values(&release(), None).await.expect("values"),
        Some(json!({}))
    );
    let crds = helm.show_crds(Path::new("/charts/c.tgz")).await.expect("CRDs");
    assert_eq!(crds, "show crds -- /charts/c.tgz ");
    let error = helm.get_metadata(&release(), None).await.expect_err("no JSON");
    assert!(matches!(error, HelmError::Output { .. }), "{error:?}");
}

#[tokio::test]
async fn a_cut_result_is_no_result() {
    let fake = Fake::new("head -c 5000000 /dev/zero | tr '\\0' x");
    let (helm, _interrupter) = fake.open().await;
    let error = helm
        .show_crds(Path::new("/charts/c.tgz"))
        .await
        .expect_err("too long");
    assert_eq!(
        error.to_string(),
        "helm show crds printed something unexpected: more than 4194304 bytes"
    );
    upgrade(&helm, &json!({}))
        .await
        .expect("what a change prints does not matter");
}

#[tokio::test]
async fn killed_from_outside() {
    let fake = Fake::new("kill -KILL $$");
    let (helm, _interrupter) = fake.open().await;
    let error = rollback(&helm).await.expect_err("killed");
    assert!(
        matches!(error, HelmError::Signaled { signal: 9, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_binary_that_went_away() {
    let fake = Fake::new("");
    let (helm, _interrupter) = fake.open().await;
    std::fs::remove_file(fake.file("helm")).expect("the fake goes");
    let error = rollback(&helm).await.expect_err("nothing to run");
    assert!(matches!(error, HelmError::Missing { .. }), "{error:?}");
}

#[tokio::test]
async fn one_change_at_a_time() {
    let fake = Fake::new("mkdir $DIR/busy || exit 9; sleep 0.1; rmdir $DIR/busy; echo done >> $DIR/log");
    let (helm, _interrupter) = fake.open().await;
    let values = json!({});
    let (first, second, third) = tokio::join!(upgrade(&helm, &values), rollback(&helm), uninstall(&helm));
    assert!(
        first.is_ok() && second.is_ok() && third.is_ok(),
        "{first:?} {second:?} {third:?}"
    );
    assert_eq!(fake.text("log"), "done\n".repeat(3));
}
