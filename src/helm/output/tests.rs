//! Output as helm v4.3.1 and v3.22.0 printed it.

use serde_json::json;

use super::*;

#[test]
fn metadata_of_helm_4() {
    let recorded = r#"{"name":"t","chart":"tiny","version":"1.0.0","appVersion":"1","labels":{"modifiedAt":"1796034136","name":"t","owner":"helm","status":"deployed","version":"2","x.io/by":"a"},"namespace":"r","revision":2,"status":"deployed","deployedAt":"2026-11-30T10:22:16Z","applyMethod":"ssa"}
"#;
    let metadata = metadata(recorded).expect("metadata");
    assert_eq!((metadata.name.as_str(), metadata.namespace.as_str()), ("t", "r"));
    assert_eq!(
        (metadata.chart.as_str(), metadata.version.as_str()),
        ("tiny", "1.0.0")
    );
    assert_eq!(metadata.app_version, "1");
    assert_eq!(
        (metadata.revision, metadata.status),
        (2, RevisionStatus::Deployed)
    );
    assert_eq!(metadata.deployed_at, "2026-11-30T10:22:16Z".parse().ok());
    assert_eq!(metadata.apply_method.as_deref(), Some("ssa"));
    assert_eq!(metadata.labels.get("x.io/by").map(String::as_str), Some("a"));
}

/// Helm 3 knows neither labels nor an apply method here; both helms print a zero time for a revision that never ended.
#[test]
fn metadata_of_helm_3() {
    let recorded = r#"{"name":"pending","chart":"gpu-operator","version":"v26.7.0","appVersion":"v26.7.0","namespace":"gpu-operator","revision":1,"status":"pending-install","deployedAt":"0001-01-01T00:00:00Z"}"#;
    let metadata = metadata(recorded).expect("metadata");
    assert_eq!(metadata.status, RevisionStatus::PendingInstall);
    assert_eq!((metadata.deployed_at, metadata.apply_method), (None, None));
    assert!(metadata.labels.is_empty());
}

#[test]
fn metadata_that_is_none() {
    assert!(metadata("").is_err());
    assert!(metadata("Pulled: x\n{}").is_err());
    assert!(metadata("{}").is_err());
}

#[test]
fn statuses_as_labels() {
    for (label, status, pending) in [
        ("deployed", RevisionStatus::Deployed, false),
        ("superseded", RevisionStatus::Superseded, false),
        ("failed", RevisionStatus::Failed, false),
        ("uninstalling", RevisionStatus::Uninstalling, false),
        ("uninstalled", RevisionStatus::Uninstalled, false),
        ("pending-install", RevisionStatus::PendingInstall, true),
        ("pending-upgrade", RevisionStatus::PendingUpgrade, true),
        ("pending-rollback", RevisionStatus::PendingRollback, true),
        ("unknown", RevisionStatus::Unknown, false),
        ("something-new", RevisionStatus::Unknown, false),
    ] {
        assert_eq!(RevisionStatus::from_label(label), status);
        assert_eq!(status.is_pending(), pending, "{label}");
    }
}

#[test]
fn values_are_an_object() {
    assert_eq!(values("null\n"), Ok(json!({})));
    assert_eq!(
        values("{\"n\":3,\"text\":\"aéb\"}\n"),
        Ok(json!({"n": 3, "text": "aéb"}))
    );
    assert!(values("[1]").is_err());
    let error = values("{\"password\": secret}").expect_err("no JSON");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn last_error_of_recorded_outputs() {
    for (stderr, message) in [
        ("Error: release: not found\n", "release: not found"),
        (
            "level=WARN msg=\"upgrade failed\" name=t error=\"context canceled\"\nError: UPGRADE FAILED: context canceled\n",
            "UPGRADE FAILED: context canceled",
        ),
        (
            "Error: UPGRADE FAILED: values don't meet the specifications of the schema(s) in the following chart(s):\ntiny:\n- at '/n': got number, want string\n- at '/text': got string, want integer\n\n",
            "UPGRADE FAILED: values don't meet the specifications of the schema(s) in the following chart(s): tiny: - at '/n': got number, want string - at '/text': got string, want integer",
        ),
        (
            "level=WARN msg=\"upgrade failed\" name=t error=\"pre-upgrade hooks failed: resource Job/r/h not ready. status: InProgress, message: Job in progress\\ncontext deadline exceeded\"\nError: UPGRADE FAILED: pre-upgrade hooks failed: resource Job/r/h not ready. status: InProgress, message: Job in progress\ncontext deadline exceeded\n",
            "UPGRADE FAILED: pre-upgrade hooks failed: resource Job/r/h not ready. status: InProgress, message: Job in progress context deadline exceeded",
        ),
        (
            "Error: create: failed to create: namespaces \"nons\" not found\n",
            "create: failed to create: namespaces \"nons\" not found",
        ),
    ] {
        assert_eq!(error_message(stderr), message);
    }
}

#[test]
fn errors_that_helm_does_not_mark() {
    assert_eq!(error_message(""), "helm gave no reason");
    assert_eq!(error_message(" \n\n"), "helm gave no reason");
    assert_eq!(error_message("Error: \n"), "helm gave no reason");
    assert_eq!(error_message("panic: oh\n\n  goroutine\t1 \n"), "goroutine 1");
    // Only a line that begins so is helm's error.
    assert_eq!(error_message("Error: first\nw Error: x\n"), "first w Error: x");
    assert_eq!(error_message("Error: a\nError: b\u{1b}[0m\u{0}c\n"), "b [0m c");
}

#[test]
fn long_errors_keep_both_ends() {
    let stderr = format!("Error: UPGRADE FAILED: {}: the cause", "é".repeat(2000));
    let message = error_message(&stderr);
    assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS);
    assert!(
        message.starts_with("UPGRADE FAILED: é") && message.ends_with("é: the cause"),
        "{message}"
    );
    assert!(message.contains("é ... é"), "{message}");

    let fitting = "x".repeat(MAX_MESSAGE_CHARS);
    assert_eq!(error_message(&format!("Error: {fitting}")), fitting);
}

#[test]
fn kinds_of_errors() {
    assert!(is_not_found("release: not found"));
    assert!(is_not_found(
        "uninstall: Release not loaded: none: release: not found"
    ));
    assert!(!is_not_found(
        "create: failed to create: namespaces \"nons\" not found"
    ));
    assert!(!is_not_found(
        "uninstall: Release not loaded: t: query: failed to query with labels: Unauthorized"
    ));
    assert!(is_in_progress(
        "UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress"
    ));
    assert!(is_in_progress("UPGRADE FAILED: release: already exists"));
    assert!(!is_in_progress("UPGRADE FAILED: configmaps \"x\" already exists"));
    assert!(is_unreachable(
        "kubernetes cluster unreachable: Get \"https://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused"
    ));
    assert!(is_unreachable(
        "kubernetes cluster unreachable: the server has asked for the client to provide credentials"
    ));
    assert!(!is_unreachable("UPGRADE FAILED: context canceled"));
}
