//! States in which Helm itself is stuck, each made for real, and how the release comes out of them.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Options;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, Operation, OperationKind, Outcome, RELEASE_NAMESPACE, State};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::killed::{kill, until_pending};
use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, STEP};

const SELECTOR: &str = "owner=helm,name=gpu-operator";

fn secrets(lab: &Lab) -> Api<Secret> {
    Api::namespaced(lab.cluster.client(), RELEASE_NAMESPACE)
}

/// Makes the Secret of a revision undecodable.
async fn corrupt(lab: &Lab, revision: u32) -> Result<()> {
    let name = format!("sh.helm.release.v1.gpu-operator.v{revision}");
    let patch = json!({ "data": { "release": "Z2FyYmFnZQ==" } });
    secrets(lab)
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

/// UIDs of what must not be made anew.
async fn identities(lab: &Lab) -> Result<Vec<String>> {
    let deployments = Api::<Deployment>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let mut found: Vec<_> = deployments
        .list(&ListParams::default())
        .await?
        .iter()
        .map(|deployment| {
            format!(
                "{} {}",
                deployment.name_any(),
                deployment.uid().unwrap_or_default()
            )
        })
        .collect();
    for object in [lab.cluster_policy().await?, lab.nvidia_driver().await?] {
        found.push(format!("{} {}", object["kind"], object["metadata"]["uid"]));
    }
    Ok(found)
}

/// What the status tells of operations, newest first.
fn told(history: &[Operation]) -> Vec<(OperationKind, Outcome)> {
    history
        .iter()
        .map(|operation| (operation.operation, operation.outcome))
        .collect()
}

/// A foreign operation is left alone for so many seconds in these tests.
fn impatient(lab: &Lab, helm: &WrappedHelm) -> Options {
    Options {
        foreign_operation_limit: 3,
        ..lab.options().with_helm(&helm.binary())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_was_killed_with_its_operator_is_freed_at_once() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    helm.slow_down()?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    until_pending(&lab, "pending-upgrade").await?;
    kill(manager).await?;
    helm.kill()?;
    let manager = lab.manager_with(&helm).await?;
    until_pending(&lab, "pending-rollback").await?;
    kill(manager).await?;
    helm.kill()?;
    helm.let_go();

    // The foreign limit is ten minutes here, so only the status can have told.
    let _manager = lab.manager_with(&helm).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let expected = [
        (OperationKind::Upgrade, Outcome::Succeeded),
        (OperationKind::Rollback, Outcome::Succeeded),
        (OperationKind::Rollback, Outcome::Interrupted),
        (OperationKind::Upgrade, Outcome::Interrupted),
        (OperationKind::Install, Outcome::Succeeded),
    ];
    ensure!(told(&status.history) == expected, "{:#?}", status.history);
    helm.ensure_one_by_one()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstall_by_hand_that_was_killed_is_undone() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let _manager = e2e::manager::Manager::start(&lab.cluster, &impatient(&lab, &helm)).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    helm.slow_down()?;
    let mut uninstall = helm.by_hand(
        &lab,
        &[
            "uninstall",
            "gpu-operator",
            "--namespace",
            RELEASE_NAMESPACE,
            "--no-hooks",
        ],
    )?;
    until_pending(&lab, "uninstalling").await?;
    helm.kill()?;
    uninstall.wait().await?;
    helm.let_go();
    lab.until_revision(2).await?;
    let status = lab
        .until_status("all nodes", |status| {
            status.state == State::Ready && status.gpu_nodes.summary == "2/2"
        })
        .await?;
    let newest = status.history.first().context("no history")?;
    ensure!(
        newest.operation == OperationKind::Rollback && newest.message.contains("uninstalling"),
        "{:#?}",
        status.history
    );
    lab.delete().await?;
    ensure!(lab.history().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_secrets_cost_no_object() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    let before = identities(&lab).await?;

    secrets(&lab)
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels(SELECTOR))
        .await?;
    lab.until_revision(1).await?;
    let status = lab
        .until_status("Ready with revision 1", |status| {
            status.state == State::Ready
                && status
                    .release
                    .as_ref()
                    .is_some_and(|release| release.revision == 1)
        })
        .await?;
    ensure!(identities(&lab).await? == before, "objects were made anew");
    let newest = status.history.first().context("no history")?;
    ensure!(
        newest.message.contains("Secrets of the release were deleted"),
        "{newest:?}"
    );

    // Helm knows them all again.
    lab.delete().await?;
    ensure!(lab.history().await?.is_empty());
    let deployments = Api::<Deployment>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    ensure!(deployments.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_that_do_not_decode_are_got_past() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    lab.apply(json!({ "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until(State::Ready).await?;
    let before = identities(&lab).await?;

    // Noticed as soon as there is something to do.
    corrupt(&lab, 2).await?;
    lab.apply(json!({ "values": { "mig": { "strategy": "none" } } }))
        .await?;
    let strategy = eventually("the new value", STEP, async || {
        let strategy = lab.cluster_policy().await?["spec"]["mig"]["strategy"].clone();
        ensure!(strategy == "none", "{strategy}");
        Ok(())
    });
    strategy.await.with_context(|| lab.logs())?;
    let status = lab.until(State::Ready).await?;
    let discarded = status
        .history
        .iter()
        .find(|operation| operation.operation == OperationKind::Discard);
    let discarded = discarded.with_context(|| format!("{:#?}", status.history))?;
    ensure!(discarded.message.contains("revision 2"), "{discarded:?}");
    ensure!(identities(&lab).await? == before, "objects were made anew");

    // Every one of them, and a wanted removal.
    for (revision, _) in lab.history().await? {
        corrupt(&lab, revision).await?;
    }
    lab.delete().await?;
    let history = lab.history().await?;
    ensure!(history.is_empty(), "{history:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_upgrade_made_goes_with_the_next_that_works() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let maps = Api::<ConfigMap>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let made = "time-slicing";
    ensure!(maps.get_opt(made).await?.is_none());

    // The API server refuses the ClusterPolicy, which helm sends last.
    lab.apply(json!({ "values": {
        "devicePlugin": { "config": { "create": true, "name": made, "default": "any", "data": { "any": "version: v1" } } },
        "mig": { "strategy": "wrong" },
    } }))
    .await?;
    lab.until_reason(ConditionType::Installed, "UpgradeFailed")
        .await?;
    ensure!(maps.get_opt(made).await?.is_some(), "the upgrade made nothing");

    lab.apply(json!({})).await?;
    let status = lab.until(State::Ready).await?;
    ensure!(maps.get_opt(made).await?.is_none(), "it was left behind");
    let pruned = status
        .history
        .iter()
        .find(|operation| operation.operation == OperationKind::Prune);
    let pruned = pruned.with_context(|| format!("{:#?}", status.history))?;
    ensure!(pruned.message.contains(made), "{pruned:?}");
    Ok(())
}
