use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;

fn config_map() -> ObjectRef {
    ObjectRef {
        kind: Kind::new("v1", "ConfigMap"),
        namespace: None,
        name: "conf".to_owned(),
    }
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
        "time": "2026-11-30T08:00:00Z", "fieldsV1": fields })
}

fn helms(fields: &Value) -> Value {
    entry("helm", "Apply", fields)
}

/// An object in two versions that differ in nothing yet.
fn object(content: &Value, managed_fields: &[Value]) -> Value {
    let mut object = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "conf", "resourceVersion": "7", "uid": "u", "managedFields": managed_fields } });
    for (key, value) in content.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

fn judged(live: &Value, applied: &Value) -> Option<Finding> {
    judge(&config_map(), live, applied, "helm")
}

#[test]
fn what_an_apply_would_not_change_is_as_wanted() {
    let fields = helms(&json!({ "f:data": { "f:a": {} } }));
    let live = object(&json!({ "data": { "a": "1" } }), &[fields]);
    let mut applied = live.clone();
    applied["metadata"]["resourceVersion"] = json!("8");
    applied["metadata"]["generation"] = json!(2);
    applied["metadata"]["managedFields"][0]["time"] = json!("2026-11-30T09:00:00Z");
    applied["status"] = json!({ "a": 1 });
    applied["metadata"]["annotations"] = json!({});
    assert_eq!(judged(&live, &applied), None);
}

#[test]
fn a_changed_field_is_named_with_who_changed_it() {
    let before = helms(&json!({ "f:data": { "f:b": {} } }));
    let kubectl = entry("kubectl-edit", "Update", &json!({ "f:data": { "f:a": {} } }));
    let live = object(&json!({ "data": { "a": "2", "b": "1" } }), &[before, kubectl]);
    let after = helms(&json!({ "f:data": { "f:a": {}, "f:b": {} } }));
    let applied = object(&json!({ "data": { "a": "1", "b": "1" } }), &[after]);
    let finding = judged(&live, &applied).unwrap();
    assert_eq!(finding.fields, ["data.a"]);
    assert_eq!(finding.managers, ["kubectl-edit"]);
    assert_eq!(finding.repair, Repair::Apply);
}

#[test]
fn a_removed_field_and_lost_ownership_marks_are_drift_of_nobody() {
    let live = object(
        &json!({ "data": { "b": "1" } }),
        &[helms(&json!({ "f:data": { "f:b": {} } }))],
    );
    let mut applied = object(
        &json!({ "data": { "a": "1", "b": "1" } }),
        &[helms(&json!({ "f:data": { "f:a": {}, "f:b": {} } }))],
    );
    applied["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "Helm" });
    let finding = judged(&live, &applied).unwrap();
    assert_eq!(finding.fields, ["data.a", "metadata.labels"]);
    assert!(finding.managers.is_empty());
}

#[test]
fn added_fields_are_found_in_managed_fields_and_moved_to_helm() {
    let helm = helms(&json!({ "f:data": { "f:a": {} } }));
    let kubectl = entry(
        "kubectl-edit",
        "Update",
        &json!({ "f:data": { "f:x": {} }, "f:metadata": { "f:labels": { "f:mine": {} } } }),
    );
    let status = json!({ "manager": "c", "operation": "Update", "subresource": "status",
        "fieldsV1": { "f:data": { "f:y": {} } } });
    let live = object(
        &json!({ "data": { "a": "1", "x": "2" } }),
        &[helm, kubectl, status.clone()],
    );
    let finding = judged(&live, &live).unwrap();
    assert_eq!(finding.fields, ["data.x"]);
    assert_eq!(finding.managers, ["kubectl-edit"]);
    let Repair::Disown {
        resource_version,
        managed_fields,
    } = finding.repair
    else {
        panic!("{:?}", finding.repair)
    };
    assert_eq!(resource_version, "7");
    assert_eq!(
        managed_fields[0]["fieldsV1"],
        json!({ "f:data": { "f:a": {}, "f:x": {} } })
    );
    let left = json!({ "f:metadata": { "f:labels": { "f:mine": {} } } });
    assert_eq!(managed_fields[1]["fieldsV1"], left);
    assert_eq!(managed_fields[2], status);
}

#[test]
fn a_whole_item_that_was_added_is_one_path() {
    let own = json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": {
        "k:{\"name\":\"a\"}": { ".": {}, "f:image": {}, "f:name": {} } } } } } });
    let foreign = json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": {
        "k:{\"name\":\"sidecar\"}": { ".": {}, "f:image": {}, "f:name": {} } } } } } });
    let live = object(
        &json!({}),
        &[helms(&own), entry("kubectl-patch", "Update", &foreign)],
    );
    let finding = judged(&live, &live).unwrap();
    assert_eq!(finding.fields, ["spec.template.spec.containers[sidecar]"]);
    let Repair::Disown { managed_fields, .. } = finding.repair else {
        panic!("{:?}", finding.repair)
    };
    assert_eq!(
        managed_fields.as_array().unwrap().len(),
        1,
        "an entry without fields goes"
    );
}

#[test]
fn labels_and_annotations_of_people_are_left_alone() {
    let own =
        helms(&json!({ "f:spec": { "f:template": { "f:metadata": { "f:labels": { "f:app": {} } } } } }));
    for foreign in [
        json!({ "f:metadata": { "f:annotations": { ".": {}, "f:x": {} }, "f:finalizers": { ".": {} } } }),
        json!({ "f:spec": { "f:template": { "f:metadata": { "f:annotations": {
            ".": {}, "f:kubectl.kubernetes.io/restartedAt": {} } } } } }),
        json!({ "f:spec": { "f:template": { "f:metadata": { "f:labels": { "f:team": {} } } } } }),
        json!({ "f:status": { "f:x": {} } }),
        // Parents of what Helm has are no fields of their own.
        json!({ "f:spec": { ".": {}, "f:template": { ".": {}, "f:metadata": { ".": {} } } } }),
    ] {
        let live = object(&json!({}), &[own.clone(), entry("kubectl", "Update", &foreign)]);
        assert_eq!(judged(&live, &live), None, "{foreign}");
    }
}

#[test]
fn what_helm_3_updated_and_helm_4_would_apply_is_no_addition() {
    let fields = json!({ "f:data": { ".": {}, "f:a": {} } });
    let live = object(
        &json!({ "data": { "a": "1" } }),
        &[entry("helm", "Update", &fields)],
    );
    let both = [
        entry("helm", "Update", &fields),
        helms(&json!({ "f:data": { "f:a": {} } })),
    ];
    let applied = object(&json!({ "data": { "a": "1" } }), &both);
    assert_eq!(judged(&live, &applied), None);
}

#[test]
fn credentials_of_a_service_account_are_left_alone() {
    let mut account = config_map();
    account.kind.kind = "ServiceAccount".to_owned();
    let foreign = json!({ "f:imagePullSecrets": { ".": {} }, "f:secrets": { ".": {} } });
    let live = object(
        &json!({}),
        &[helms(&json!({})), entry("patcher", "Update", &foreign)],
    );
    assert_eq!(judge(&account, &live, &live, "helm"), None);
    assert!(judged(&live, &live).is_some());
}

#[test]
fn scaling_is_a_write_of_the_object() {
    let helm = helms(&json!({ "f:data": {} }));
    let scale = json!({ "manager": "kubectl", "operation": "Update", "subresource": "scale",
        "fieldsV1": { "f:spec": { "f:replicas": {} } } });
    let live = object(&json!({}), &[helm, scale]);
    assert_eq!(judged(&live, &live).unwrap().fields, ["spec.replicas"]);
}

#[test]
fn what_is_being_deleted_is_waited_for() {
    let mut live = object(&json!({ "data": { "a": "2" } }), &[]);
    live["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
    let applied = object(&json!({ "data": { "a": "1" } }), &[]);
    assert_eq!(judged(&live, &applied), None);
}

fn meta(value: Value) -> ObjectMeta {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_mark_changes_with_writes_and_not_with_status() {
    let fields = json!({ "f:data": {} });
    let status = |time| {
        json!({ "manager": "c", "operation": "Update", "subresource": "status", "time": time,
            "fieldsV1": { "f:status": {} } })
    };
    let object = |generation, entries: &[Value]| {
        Mark::of(&meta(json!({ "name": "a", "uid": "u", "generation": generation,
            "resourceVersion": "1", "managedFields": entries })))
    };
    let own = helms(&fields);
    let before = object(1, &[own.clone(), status("2026-11-30T08:00:00Z")]);
    assert_eq!(before, object(1, &[own.clone(), status("2026-11-30T09:00:00Z")]));
    assert_ne!(before, object(2, std::slice::from_ref(&own)));
    assert_ne!(before, object(1, &[own, entry("kubectl", "Update", &fields)]));
}

const DOCUMENTS: &str = "---
# Source: a
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: gpu-operator, annotations: {a: b}}
data: {mode: '0644', answer: 'on'}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: conf, namespace: elsewhere}}
---
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec: {mode: 0644, on: yes, text: 'yes', version: 26.7}
";

#[test]
fn a_manifest_gets_what_helm_adds_and_is_read_as_helm_reads_it() {
    let manifest = Manifest::parse(3, "uid", DOCUMENTS).unwrap();
    let objects: Vec<_> = manifest.refs().map(ToString::to_string).collect();
    assert_eq!(
        objects,
        ["ClusterPolicy cluster-policy", "ConfigMap conf", "ConfigMap conf"]
    );
    let conf = manifest.object(&config_map()).unwrap();
    assert_eq!(
        conf["metadata"],
        json!({ "name": "conf", "namespace": "gpu-operator",
            "labels": { "app.kubernetes.io/managed-by": "Helm" },
            "annotations": { "a": "b", "meta.helm.sh/release-name": "gpu-operator",
                "meta.helm.sh/release-namespace": "gpu-operator" } })
    );
    assert_eq!(conf["data"], json!({ "mode": "0644", "answer": "on" }));
    let policy = manifest
        .refs()
        .find(|object| object.name == "cluster-policy")
        .unwrap();
    let spec = &manifest.object(policy).unwrap()["spec"];
    assert_eq!((&spec["mode"], &spec["text"]), (&json!(420), &json!("yes")));
    assert_eq!(
        spec.as_object()
            .unwrap()
            .values()
            .filter(|value| **value == json!(true))
            .count(),
        1
    );
    assert_eq!(
        manifest
            .kinds()
            .into_iter()
            .map(|(kind, namespace)| (kind.kind, namespace))
            .collect::<Vec<_>>(),
        [
            ("ClusterPolicy".to_owned(), None),
            ("ConfigMap".to_owned(), None),
            ("ConfigMap".to_owned(), Some("elsewhere".to_owned())),
        ]
    );
}

#[test]
fn a_manifest_that_cannot_be_read_says_why() {
    let read = |text| Manifest::parse(1, "uid", text).unwrap_err();
    assert!(read("kind: ConfigMap\nmetadata: {name: a}\n").contains("no apiVersion"));
    assert!(!read("a: [").is_empty());
}
