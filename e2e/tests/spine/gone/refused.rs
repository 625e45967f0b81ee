//! What cannot be taken away for ever, or is somebody else's, stays and is named; the deletion ends.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::MANAGER;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, RELEASE_NAMESPACE, RELEASE_ROLE, State};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Namespace, Node, PodTemplate};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{from_value, json};

use crate::gone::crds::farewell;
use crate::lab::{Lab, STEP, message};

/// Forbids the operator to do this with objects of the core API.
pub async fn forbid(lab: &Lab, operation: &str, resource: &str) -> Result<()> {
    let client = lab.cluster.client();
    let name = format!("hands-off-{resource}");
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource],
            }]},
            "validations": [{
                "expression": format!("request.userInfo.username != 'system:serviceaccount:{MANAGER}:{MANAGER}'"),
                "message": format!("hands off the {resource}"),
            }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    let params = PostParams::default();
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    policies.create(&params, &from_value(policy)?).await?;
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client);
    bindings.create(&params, &from_value(binding)?).await?;
    Ok(())
}

/// Takes back what [`forbid`] did.
pub async fn allow(lab: &Lab, resource: &str) -> Result<()> {
    let name = format!("hands-off-{resource}");
    let params = DeleteParams::default();
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(lab.cluster.client());
    bindings.delete(&name, &params).await?;
    let policies = Api::<ValidatingAdmissionPolicy>::all(lab.cluster.client());
    policies.delete(&name, &params).await?;
    Ok(())
}

/// Forbids the operator to change nodes, from when the API server has taken it up.
async fn forbid_changes_of_nodes(lab: &Lab) -> Result<()> {
    forbid(lab, "UPDATE", "nodes").await?;
    let kubeconfig = lab
        .cluster
        .kubeconfig_for_service_account(MANAGER, MANAGER)
        .await?;
    let nodes = Api::<Node>::all(e2e::cluster::client_for(&kubeconfig).await?);
    eventually("the policy to count", STEP, async || {
        let patch = json!({ "metadata": { "annotations": { "of-a-test": "a" } } });
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let tried = nodes.patch("gpu-0", &params, &Patch::Merge(&patch)).await;
        ensure!(tried.is_err(), "the change was accepted");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_is_named_and_the_rights_are_given_back() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let client = lab.cluster.client();
    // Of a kind that hardly anybody has.
    let templates = Api::<PodTemplate>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let template = json!({
        "metadata": { "name": "of-a-team" },
        "template": { "spec": { "containers": [{ "name": "a", "image": "b" }] } },
    });
    templates
        .create(&PostParams::default(), &from_value(template)?)
        .await?;
    forbid_changes_of_nodes(&lab).await?;

    lab.begin_to_delete().await?;
    let told = eventually("the refusal in the status", STEP, async || {
        let module = lab.module().await?;
        let status = module.status.context("no status")?;
        let text = message(&status, ConditionType::Deleted).to_owned();
        let words = ["step 7 of 8", "left: Node ", "hands off the nodes"];
        ensure!(words.iter().all(|words| text.contains(words)), "{text}");
        ensure!(status.state == State::Deleting, "{:?}", status.state);
        Ok(())
    });
    told.await?;
    lab.until_gone().await?;

    let told = farewell(&lab).await?;
    for words in [
        "labels and annotations of nodes (Node ",
        "hands off the nodes",
        "namespace gpu-operator, which holds PodTemplate of-a-team of somebody else's",
    ] {
        ensure!(told.contains(words), "{told}");
    }
    let node = Api::<Node>::all(client.clone()).get("gpu-0").await?;
    ensure!(node.labels().contains_key("nvidia.com/gpu.present"));
    Api::<Namespace>::all(client.clone())
        .get(RELEASE_NAMESPACE)
        .await?;
    let bindings = Api::<RoleBinding>::namespaced(client, RELEASE_NAMESPACE);
    ensure!(
        bindings.get_opt(RELEASE_ROLE).await?.is_none(),
        "the operator keeps its rights"
    );
    Ok(())
}
