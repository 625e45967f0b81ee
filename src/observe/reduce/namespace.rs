//! The namespace of the release: whose it is, and why it is still there once it goes.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use crate::api::{LABEL_MANAGED_BY, MANAGER};
use crate::facts::{Departure, HoldCause, NamespaceHold, SurroundingNamespace};

/// The finalizer that Kubernetes itself takes off last.
const KUBERNETES: &str = "kubernetes";

/// Conditions of a namespace by what they tell (`status_condition_utils.go` of its controller).
const CONDITIONS: [(&str, HoldCause); 5] = [
    ("NamespaceDeletionDiscoveryFailure", HoldCause::ApiUnlisted),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        HoldCause::ApiUnlisted,
    ),
    ("NamespaceDeletionContentFailure", HoldCause::DeletionFailed),
    ("NamespaceFinalizersRemaining", HoldCause::Finalizers),
    ("NamespaceContentRemaining", HoldCause::Objects),
];

/// Whose the namespace is.
pub fn surrounding(namespace: Option<&Namespace>) -> SurroundingNamespace {
    let Some(namespace) = namespace else {
        return SurroundingNamespace::Absent;
    };
    let label = namespace.labels().get(LABEL_MANAGED_BY);
    if namespace.metadata.deletion_timestamp.is_some() {
        SurroundingNamespace::Terminating
    } else if label.is_some_and(|by| by == MANAGER) {
        SurroundingNamespace::Ours
    } else {
        SurroundingNamespace::Foreign
    }
}

/// Since when it goes, and why it is still there; `None` where it stays.
pub fn departure(namespace: &Namespace) -> Option<Departure> {
    let since = namespace.metadata.deletion_timestamp.as_ref()?.0;
    let status = namespace.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let told = conditions.into_iter().flatten().filter_map(|condition| {
        let mut known = CONDITIONS.iter();
        let (_, cause) = known.find(|(name, _)| condition.type_ == *name && condition.status == "True")?;
        Some(NamespaceHold {
            cause: *cause,
            message: condition.message.clone().unwrap_or_default(),
        })
    });
    // No condition tells of these: Kubernetes has done its part when it waits for them.
    let spec = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    let own = namespace.finalizers().iter().chain(spec.into_iter().flatten());
    let own = own
        .filter(|finalizer| *finalizer != KUBERNETES)
        .map(|finalizer| NamespaceHold {
            cause: HoldCause::Finalizers,
            message: format!("finalizer {finalizer} is on the namespace itself"),
        });
    let mut held_by: Vec<_> = told.chain(own).collect();
    held_by.sort_by_key(|hold| hold.cause);
    Some(Departure { since, held_by })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_keeps_a_namespace_is_read_from_its_conditions_and_finalizers() {
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "message": kind });
        let namespace = json!({
            "metadata": { "name": "gpu-operator", "deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["a/b"] },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "conditions": [
                condition("NamespaceContentRemaining", "True"),
                condition("NamespaceFinalizersRemaining", "False"),
                condition("NamespaceDeletionDiscoveryFailure", "True"),
                condition("SomethingNew", "True"),
            ] },
        });
        let mut namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let held_by = departure(&namespace).unwrap().held_by;
        let told: Vec<_> = held_by
            .iter()
            .map(|hold| (hold.cause, hold.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                (HoldCause::ApiUnlisted, "NamespaceDeletionDiscoveryFailure"),
                (HoldCause::Finalizers, "finalizer a/b is on the namespace itself"),
                (HoldCause::Objects, "NamespaceContentRemaining"),
            ]
        );
        assert_eq!(surrounding(Some(&namespace)), SurroundingNamespace::Terminating);
        namespace.metadata.deletion_timestamp = None;
        assert_eq!(departure(&namespace), None);
        assert_eq!(surrounding(Some(&namespace)), SurroundingNamespace::Foreign);
        assert_eq!(surrounding(None), SurroundingNamespace::Absent);
    }
}
