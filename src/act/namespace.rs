//! The namespace of the release, and the operator's rights in it.
//!
//! Both are sent by server-side apply only: an apply carries the object's name, so the operator's right to create them can be
//! limited to that name.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use crate::api::{
    KYMA_MODULE, LABEL_KYMA_MODULE, LABEL_MANAGED_BY, MANAGER, RELEASE_NAMESPACE, RELEASE_ROLE,
};
use crate::kube_api::{self, ApiError};
use crate::observe;

/// How long a new RoleBinding may take to count: the API server's authorizer learns of it through a watch.
const RIGHTS_LIMIT: Duration = Duration::from_secs(10);

/// Makes the namespace, or gives an existing one what NVIDIA's Pods need: they are privileged, and their init containers
/// must reach the API server without an Istio sidecar. `ours` marks it as made by the module.
pub async fn apply(client: &Client, ours: bool) -> Result<(), ApiError> {
    let mut labels = json!({
        "pod-security.kubernetes.io/enforce": "privileged",
        "pod-security.kubernetes.io/audit": "privileged",
        "pod-security.kubernetes.io/warn": "privileged",
        "istio-injection": "disabled",
        LABEL_KYMA_MODULE: KYMA_MODULE,
    });
    if ours {
        labels[LABEL_MANAGED_BY] = MANAGER.into();
    }
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": RELEASE_NAMESPACE, "labels": labels },
    });
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
