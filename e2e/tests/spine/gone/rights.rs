//! The operator loses rights in the middle of a removal, and gets them back.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, install_manifests};
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, State};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::killed::kill;
use crate::lab::{Lab, STEP, message};
use e2e::inventory::Inventory;

#[tokio::test(flavor = "multi_thread")]
async fn lost_in_the_middle_and_given_back() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.manager().await?;
    let before = Inventory::take(&lab.cluster.client()).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // Nodes may not be changed any more.
    let roles = Api::<ClusterRole>::all(lab.cluster.client());
    let complete = roles.get(MANAGER).await?;
    let mut role = complete.clone();
    for rule in role.rules.iter_mut().flatten() {
        if rule
            .resources
            .iter()
            .flatten()
            .any(|resource| resource == "nodes")
        {
            rule.verbs.retain(|verb| verb != "patch");
        }
    }
    roles.replace(MANAGER, &PostParams::default(), &role).await?;
    lab.cluster
        .kubectl(&["delete", "clusterrolebinding", "gpu-manager-release-cluster"])
        .await?;
    lab.begin_to_delete().await?;
    let status = lab
        .until_status("a removal that lacks a right", |status| {
            status.state == State::Error && status.description.contains("forbidden")
        })
        .await?;
    println!("{}", status.description);
    ensure!(
        !message(&status, ConditionType::Installed).is_empty(),
        "{status:?}"
    );

    // All of them, and another process begins without.
    lab.cluster
        .kubectl(&["delete", "clusterrolebinding", MANAGER])
        .await?;
    kill(manager).await?;
    let manager = lab.manager().await?;
    eventually("the operator to say what it lacks", STEP, async || {
        let log = manager.process.log();
        ensure!(log.contains("forbidden"), "{}", manager.process.log_tail());
        Ok(())
    })
    .await?;
    ensure!(lab.modules.get_opt("default").await?.is_some(), "it is gone");

    let given_back = Patch::Merge(json!({ "rules": complete.rules }));
    roles.patch(MANAGER, &PatchParams::default(), &given_back).await?;
    install_manifests(&lab.cluster).await?;
    lab.until_gone().await?;
    before
        .ensure_is_back_but_for(&lab.cluster.client(), |line| {
            // It was deleted and made again.
            line.starts_with("ClusterRoleBinding gpu-manager") && line.contains(".metadata.")
        })
        .await
        .with_context(|| lab.logs())
}
