//! The namespace of the release: it goes where the module made it and nobody else has put anything into it.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::content::Content;
use super::gone;
use crate::api::{
    ANNOTATION_FORMER_LABELS, FIELD_MANAGER, LABEL_MANAGED_BY, MANAGER, RELEASE_NAMESPACE, RELEASE_ROLE,
};
use crate::drift::{Kind, ObjectRef};
use crate::facts::{Left, Leftover, Remedy, SurroundingNamespace, first_few};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe::reduce;

/// The namespace, where it goes, or who keeps it.
pub(super) async fn namespace(client: &Client, namespace: SurroundingNamespace) -> Result<Left, ApiError> {
    let kept = |why: String| Left {
        stays: vec![format!("namespace {RELEASE_NAMESPACE}, {why}")],
        ..Left::default()
    };
    if namespace == SurroundingNamespace::Foreign {
        return Ok(kept("which the module did not make".to_owned()));
    }
    let mut unclear = Vec::new();
    if namespace == SurroundingNamespace::Ours {
        let others = Content::read(client).await?.of_others();
        if !others.theirs.is_empty() {
            return Ok(kept(format!(
                "which holds {} of somebody else's and admits privileged Pods",
                first_few(others.theirs.iter())
            )));
        }
        unclear = others.unclear;
    }
    let read = read(client).await?;
    let mut left = Left {
        objects: read
            .iter()
            .map(|namespace| gone(namespace, Kind::new("v1", "Namespace")))
            .collect(),
        stays: Vec::new(),
    };
    if !unclear.is_empty() {
        let why = format!("it may hold what others need: {}", first_few(unclear.iter()));
        for namespace in &mut left.objects {
            namespace.remedy = Remedy::Blocked(why.clone());
        }
    }
    Ok(left)
}

/// What the operator has set up in a namespace that stays: the RoleBinding that gives it its rights, and its labels on one that it did not make.
pub(super) async fn rights(client: &Client, namespace: SurroundingNamespace) -> Result<Left, ApiError> {
    let api = Api::<RoleBinding>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let what = format!("read RoleBinding {RELEASE_NAMESPACE}/{RELEASE_ROLE}");
    let read = found(deadline(API_DEADLINE, what, api.get_metadata(RELEASE_ROLE)).await)?;
    let ours = read.filter(|binding| {
        binding
            .labels()
            .get(LABEL_MANAGED_BY)
            .is_some_and(|by| by == MANAGER)
    });
    let kind = Kind::new("rbac.authorization.k8s.io/v1", "RoleBinding");
    let mut left = Left {
        objects: ours.iter().map(|binding| gone(binding, kind.clone())).collect(),
        stays: Vec::new(),
    };
    if namespace == SurroundingNamespace::Foreign {
        let read = self::read(client).await?;
        left.objects.extend(read.as_ref().and_then(borrowed));
    }
    Ok(left)
}

async fn read(client: &Client) -> Result<Option<PartialObjectMeta<Namespace>>, ApiError> {
    let api = Api::<Namespace>::all(client.clone());
    let what = format!("read Namespace {RELEASE_NAMESPACE}");
    found(deadline(API_DEADLINE, what, api.get_metadata(RELEASE_NAMESPACE)).await)
}

/// The labels that the module has applied and nobody else wants: they become what they were, or go.
fn borrowed(namespace: &PartialObjectMeta<Namespace>) -> Option<Leftover> {
    let former = reduce::former_labels(&namespace.metadata);
    let labels: Map<_, _> = namespace
        .labels()
        .keys()
        .filter(|key| is_applied_by_us_alone(namespace, key))
        .map(|key| {
            (
                key.clone(),
                former.get(key).map_or(Value::Null, |value| value.as_str().into()),
            )
        })
        .collect();
    let noted = namespace.annotations().contains_key(ANNOTATION_FORMER_LABELS);
    (noted || !labels.is_empty()).then(|| Leftover {
        object: ObjectRef {
            kind: Kind::new("v1", "Namespace"),
            namespace: None,
            name: namespace.name_any(),
        },
        uid: namespace.uid().unwrap_or_default(),
        remedy: Remedy::Patch(json!({ "metadata": {
            "labels": labels, "annotations": { ANNOTATION_FORMER_LABELS: null },
        }})),
    })
}

/// What was restored is no apply of the module's, so it is not taken off the next time.
fn is_applied_by_us_alone(namespace: &PartialObjectMeta<Namespace>, label: &str) -> bool {
    let field = format!("f:{label}");
    let entries = namespace.metadata.managed_fields.iter().flatten();
    let mut owners = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:metadata"]["f:labels"][&field].is_null())
    });
    let is_apply = owners.next().is_some_and(|owner| {
        owner.manager.as_deref() == Some(FIELD_MANAGER) && owner.operation.as_deref() == Some("Apply")
    });
    is_apply && owners.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_borrowed_namespace_gets_back_what_it_had() {
        let entry = |manager: &str, operation: &str, label: &str| {
            json!({ "manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": { format!("f:{label}"): {} } } } })
        };
        let namespace = |entries: Value, note: Option<&str>| -> PartialObjectMeta<Namespace> {
            let annotations = note.map(|note| json!({ ANNOTATION_FORMER_LABELS: note }));
            let labels =
                json!({ "enforce": "privileged", "audit": "privileged", "warn": "privileged", "team": "a" });
            serde_json::from_value(json!({ "metadata": {
                "name": "gpu-operator", "uid": "u", "labels": labels, "annotations": annotations, "managedFields": entries,
            }}))
            .unwrap()
        };
        let ours = [
            entry(FIELD_MANAGER, "Apply", "enforce"),
            entry(FIELD_MANAGER, "Apply", "audit"),
            // Somebody else wants it, too.
            entry(FIELD_MANAGER, "Apply", "warn"),
            entry("kubectl", "Apply", "warn"),
            entry("kubectl", "Apply", "team"),
        ];
        let found = borrowed(&namespace(json!(ours), Some(r#"{"enforce":"restricted"}"#))).unwrap();
        let expected = json!({ "metadata": {
            "labels": { "enforce": "restricted", "audit": null }, "annotations": { ANNOTATION_FORMER_LABELS: null },
        }});
        assert_eq!(found.remedy, Remedy::Patch(expected));
        let restored = [
            entry(FIELD_MANAGER, "Update", "enforce"),
            entry("kubectl", "Apply", "warn"),
        ];
        assert_eq!(borrowed(&namespace(json!(restored), None)), None);
    }
}
