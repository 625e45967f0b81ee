//! The namespace of the release, and the operator's rights in it.
//!
//! Both are sent by server-side apply only: an apply carries the object's name, so the operator's right to create them can be
//! limited to that name.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{
    ANNOTATION_FORMER_LABELS, KYMA_MODULE, LABEL_KYMA_MODULE, LABEL_MANAGED_BY, MANAGER, RELEASE_NAMESPACE,
    RELEASE_ROLE,
};
use crate::kube_api::{self, API_DEADLINE, ApiError, deadline};
use crate::observe;

/// How long a new RoleBinding may take to count: the API server's authorizer learns of it through a watch.
const RIGHTS_LIMIT: Duration = Duration::from_secs(10);

/// Makes the namespace, marked as made by the module.
pub async fn make(client: &Client) -> Result<(), ApiError> {
    let mut labels = labels();
    labels.insert(LABEL_MANAGED_BY, MANAGER);
    apply(client, &json!({ "name": RELEASE_NAMESPACE, "labels": labels })).await
}

/// Gives somebody else's namespace what NVIDIA's Pods need, and notes there what it had instead.
pub async fn borrow(client: &Client) -> Result<(), ApiError> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let what = format!("read Namespace {RELEASE_NAMESPACE}");
    let read = deadline(API_DEADLINE, what, namespaces.get_metadata(RELEASE_NAMESPACE)).await?;
    let former = former_labels(&read.metadata, &labels());
    let mut metadata = json!({ "name": RELEASE_NAMESPACE, "labels": labels() });
    if !former.is_empty() {
        metadata["annotations"] = json!({ ANNOTATION_FORMER_LABELS: json!(former).to_string() });
    }
    apply(client, &metadata).await
}

/// NVIDIA's Pods are privileged, and their init containers must reach the API server without an Istio sidecar.
fn labels() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("pod-security.kubernetes.io/enforce", "privileged"),
        ("pod-security.kubernetes.io/audit", "privileged"),
        ("pod-security.kubernetes.io/warn", "privileged"),
        ("istio-injection", "disabled"),
        (LABEL_KYMA_MODULE, KYMA_MODULE),
    ])
}

/// What others have set where the module sets something else: now, or before it did so for the first time.
fn former_labels(found: &ObjectMeta, wanted: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
    let mut former = observe::former_labels(found);
    let labels = found.labels.iter().flatten();
    let others = labels.filter(|(key, value)| wanted.get(key.as_str()).is_some_and(|wanted| wanted != value));
    former.extend(others.map(|(key, value)| (key.clone(), value.clone())));
    former
}

async fn apply(client: &Client, metadata: &Value) -> Result<(), ApiError> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let namespaces = Api::<Namespace>::all(client.clone());
    kube_api::apply(&namespaces, RELEASE_NAMESPACE, &namespace)
        .await
        .map(|_| ())
}

/// Gives the operator its rights in the namespace.
pub async fn bind_role(client: &Client, own_namespace: &str) -> Result<(), ApiError> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": RELEASE_ROLE,
            "namespace": RELEASE_NAMESPACE,
            "labels": { LABEL_KYMA_MODULE: KYMA_MODULE, LABEL_MANAGED_BY: MANAGER },
        },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RELEASE_ROLE },
        "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": own_namespace }],
    });
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), RELEASE_NAMESPACE);
    kube_api::apply(&bindings, RELEASE_ROLE, &binding)
        .await
        .map(|_| ())
}

/// Waits until the rights count. What is still forbidden at the limit is an error: the ClusterRole is not what it should be.
pub async fn await_rights(client: &Client) -> Result<(), ApiError> {
    let limit = Instant::now() + RIGHTS_LIMIT;
    let mut pause = Duration::from_millis(10);
    loop {
        match observe::may_read_history(client).await {
            Err(error) if error.is_forbidden() && Instant::now() < limit => {}
            outcome => return outcome,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_namespace_had_before_is_noted_once() {
        let metadata = |value: Value| serde_json::from_value::<ObjectMeta>(value).unwrap();
        let enforce = "pod-security.kubernetes.io/enforce";
        let team = metadata(
            json!({ "labels": { enforce: "restricted", "team": "a", "istio-injection": "disabled" } }),
        );
        let former = former_labels(&team, &labels());
        assert_eq!(
            former,
            BTreeMap::from([(enforce.to_owned(), "restricted".to_owned())])
        );
        let note = json!(former).to_string();
        let ours = metadata(json!({
            "labels": { enforce: "privileged" }, "annotations": { ANNOTATION_FORMER_LABELS: note },
        }));
        assert_eq!(former_labels(&ours, &labels()), former);
        let by_hand = metadata(json!({ "annotations": { ANNOTATION_FORMER_LABELS: "no JSON" } }));
        assert!(former_labels(&by_hand, &labels()).is_empty());
    }
}
