//! What the admission policy takes from the manager although its roles give it, and what it leaves.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{Cluster, Options};
use e2e::wait::eventually;
use gpu_manager::api::RELEASE_NAMESPACE;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, Status};
use serde_json::{Value, json};

use crate::manager::{Manager, SOON};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The API of an object's kind, in its namespace.
fn api(client: &kube::Client, object: &Value) -> Result<Api<DynamicObject>> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let (group, version) = text("/apiVersion")
        .and_then(|version| version.split_once('/'))
        .context("no group")?;
    let kind = text("/kind").context("no kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Ok(match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    })
}

/// The answer to an apply.
async fn apply(client: &kube::Client, object: &Value) -> Result<Result<DynamicObject, kube::Error>> {
    let name = object["metadata"]["name"].as_str().context("no name")?;
    let params = PatchParams::apply("gpu-manager").force();
    Ok(api(client, object)?
        .patch(name, &params, &Patch::Apply(object))
        .await)
}

/// The refusal in an answer, for its text tells who refused.
fn refusal<T: std::fmt::Debug>(what: &str, answer: Result<T, kube::Error>) -> Result<Status> {
    match answer {
        Err(kube::Error::Api(status)) => Ok(*status),
        other => anyhow::bail!("{what}: {other:?}"),
    }
}

/// A role with a right that the manager holds itself, or the API server would refuse it anyway.
fn role(kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({ "apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules })
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, role: &str, subjects: &str) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": "gpu-manager", "namespace": subjects }],
    })
}

/// What its roles allow and the policy refuses, each with a part of the message.
fn refused() -> Result<Vec<(Value, &'static str)>> {
    let mut crd = serde_json::to_value(gpu_manager::crds::crd())?;
    crd["metadata"]["annotations"] = json!({ "changed": "yes" });
    let (here, names, subjects) = (
        "only in the namespace gpu-operator",
        "only the ClusterRoles and ClusterRoleBindings that NVIDIA's charts make",
        "only to ServiceAccounts of the namespace gpu-operator",
    );
    let release = "gpu-manager-release";
    Ok(vec![
        (
            binding(
                "RoleBinding",
                release,
                Some("kube-system"),
                release,
                "gpu-manager",
            ),
            here,
        ),
        (role("ClusterRole", "mine", None), names),
        (
            binding("ClusterRoleBinding", "mine", None, release, RELEASE_NAMESPACE),
            names,
        ),
        (
            binding(
                "ClusterRoleBinding",
                "gpu-operator",
                None,
                release,
                RELEASE_NAMESPACE,
            ),
            subjects,
        ),
        (
            binding(
                "ClusterRoleBinding",
                "gpu-operator",
                None,
                "gpu-operator",
                "gpu-manager",
            ),
            subjects,
        ),
        (
            crd,
            "only the CustomResourceDefinitions that NVIDIA's charts bring",
        ),
    ])
}

#[tokio::test]
async fn the_policy_keeps_the_manager_to_what_the_charts_make() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    let manager = Manager::install(&cluster).await?;
    let release = "gpu-manager-release";
    eventually("the manager's rights in its namespace", SOON, async || {
        manager.apply_namespace(RELEASE_NAMESPACE).await?;
        manager.apply_binding(release, release).await?;
        Ok(())
    })
    .await?;
    // The API server compiles a new policy with a short delay; nothing is changed meanwhile.
    let probe = role("ClusterRole", "probe", None);
    eventually("the policy to be in force", SOON, async || {
        let params = PatchParams::apply("gpu-manager").force().dry_run();
        let answer = api(&manager.client, &probe)?
            .patch("probe", &params, &Patch::Apply(&probe))
            .await;
        let answer = refusal("a dry run", answer)?;
        ensure!(answer.message.contains("ValidatingAdmissionPolicy"), "{answer:?}");
        Ok(())
    })
    .await?;

    let bound = role("ClusterRole", "gpu-operator", None);
    apply(&manager.client, &bound).await??;
    for (object, message) in refused()? {
        let answer = refusal(&object.to_string(), apply(&manager.client, &object).await?)?;
        ensure!(
            answer.code == 403 && answer.message.contains(message),
            "{object}: {answer:?}"
        );
        // The same from an administrator: the policy is about the manager alone.
        if object["kind"] != "CustomResourceDefinition" {
            apply(&cluster.client(), &object).await??;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            api(&cluster.client(), &object)?
                .delete(name, &DeleteParams::default())
                .await?;
        }
    }
    let admins: Api<DynamicObject> = api(&manager.client, &role("ClusterRole", "admin", None))?;
    let deleted = admins.delete("admin", &DeleteParams::default()).await;
    let answer = refusal("deleting the ClusterRole admin", deleted)?;
    ensure!(
        answer.code == 403 && answer.message.contains("that NVIDIA's charts make"),
        "{answer:?}"
    );

    for object in [
        role("Role", "any", Some(RELEASE_NAMESPACE)),
        binding(
            "ClusterRoleBinding",
            "gpu-operator",
            None,
            "gpu-operator",
            RELEASE_NAMESPACE,
        ),
        binding(
            "RoleBinding",
            release,
            Some(RELEASE_NAMESPACE),
            release,
            "gpu-manager",
        ),
    ] {
        let answer = apply(&manager.client, &object).await?;
        answer.with_context(|| object.to_string())?;
    }
    Ok(())
}

/// A Namespace of another ServiceAccount of the same name: the policy is about the manager's own alone.
#[tokio::test]
async fn who_only_has_the_managers_name_is_not_bound() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    Manager::install(&cluster).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let other = serde_json::from_value(json!({ "metadata": { "name": "other" } }))?;
    namespaces.create(&PostParams::default(), &other).await?;
    cluster
        .kubectl(&["-n", "other", "create", "serviceaccount", "gpu-manager"])
        .await?;
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "other",
            "--clusterrole=cluster-admin",
            "--serviceaccount=other:gpu-manager",
        ])
        .await?;
    let kubeconfig = cluster
        .kubeconfig_for_service_account("other", "gpu-manager")
        .await?;
    let client = e2e::cluster::client_for(&kubeconfig).await?;
    eventually("another account's rights", SOON, async || {
        apply(&client, &role("ClusterRole", "theirs", None)).await??;
        Ok(())
    })
    .await
}
