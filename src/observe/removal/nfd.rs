//! Objects of Node Feature Discovery's kinds.

use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};

/// The group of its kinds.
pub(super) const GROUP: &str = "nfd.k8s-sigs.io";

/// NodeFeatureRule, by which the release tells Node Feature Discovery what else to label.
pub(super) fn rules() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1alpha1", "NodeFeatureRule");
    ApiResource::from_gvk_with_plural(&kind, "nodefeaturerules")
}

/// The programs of the stack that write NodeFeatures, by the names under which client-go sends them: those of their binaries (Node Feature
/// Discovery v0.18 and v0.19, k8s-device-plugin v0.17 and later).
const WRITERS: [&str; 2] = ["gpu-feature-discovery", "nfd-worker"];

/// True for what the workers of Node Feature Discovery, and GPU Feature Discovery, have found out about a node, and nobody has written
/// since. They write into their own namespace, so in that of the release the stack's have written it.
pub(super) fn is_feature_of_stack(kind: &ApiResource, object: &PartialObjectMeta<DynamicObject>) -> bool {
    let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let is_theirs = |manager: Option<&str>| manager.is_some_and(|manager| WRITERS.contains(&manager));
    kind.group == GROUP
        && kind.kind == "NodeFeature"
        && object.namespace().as_deref() == Some(crate::api::RELEASE_NAMESPACE)
        && !entries.is_empty()
        && entries.iter().all(|entry| is_theirs(entry.manager.as_deref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_of_stack(group: &str, namespace: &str, managers: &[&str]) -> bool {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", "NodeFeature"));
        let entries: Vec<_> = managers
            .iter()
            .map(|manager| json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {} }))
            .collect();
        let object = json!({ "metadata": { "name": "a", "namespace": namespace, "managedFields": entries } });
        is_feature_of_stack(&kind, &serde_json::from_value(object).unwrap())
    }

    #[test]
    fn features_that_a_person_has_written_are_not_the_stacks() {
        assert!(is_of_stack(GROUP, "gpu-operator", &["nfd-worker"]));
        assert!(is_of_stack(GROUP, "gpu-operator", &["gpu-feature-discovery"]));
        assert!(!is_of_stack(GROUP, "gpu-operator", &["kubectl-create"]));
        assert!(!is_of_stack(
            GROUP,
            "gpu-operator",
            &["nfd-worker", "kubectl-edit"]
        ));
        assert!(!is_of_stack(GROUP, "gpu-operator", &[]));
        assert!(!is_of_stack(GROUP, "default", &["nfd-worker"]));
        assert!(!is_of_stack("rent.test", "gpu-operator", &["nfd-worker"]));
    }
}
