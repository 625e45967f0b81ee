//! A stack that somebody else runs is never touched, whatever it is called.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Mark;
use e2e::manager::MANAGER;
use e2e::wait::eventually;
use gpu_manager::api::{
    ANNOTATION_RECONCILE_AT, ConditionType, GPU_DRIVER_CRD, MODULE_NAME, OTHER_GPU_MODULE_CRD, State,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, message, reason};

/// How long a refused GpuModule may take to go: nobody has work with it.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Name and resourceVersion of every release Secret and of every CRD.
pub async fn records(lab: &Lab) -> Result<Vec<(String, String)>> {
    let secrets = Api::<Secret>::all(lab.cluster.client());
    let helm = ListParams::default().labels("owner=helm");
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    let (secrets, crds) = (
        secrets.list_metadata(&helm).await?.items,
        crds.list_metadata(&ListParams::default()).await?.items,
    );
    let version = |version: Option<String>| version.unwrap_or_default();
    let secrets = secrets
        .iter()
        .map(|secret| (secret.name_any(), version(secret.resource_version())));
    let crds = crds
        .iter()
        .map(|crd| (crd.name_any(), version(crd.resource_version())));
    Ok(secrets.chain(crds).collect())
}

/// Fails if the operator, or a helm of its, has written anything but its status, its Lease, Events and its own rights.
pub fn ensure_hands_off(lab: &Lab, since: Mark) -> Result<()> {
    let account = format!("system:serviceaccount:{MANAGER}:{MANAGER}");
    let writes: Vec<_> = lab
        .cluster
        .audit()
        .since(since)?
        .into_iter()
        .filter(|event| event.user.username == account)
        .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
        .map(|event| format!("{} {}", event.verb, event.request_uri))
        .filter(|write| {
            ![
                "/gpumodules/default/status",
                "/leases",
                "/events",
                "/rolebindings/gpu-manager-release",
            ]
            .iter()
            .any(|own| write.contains(own))
        })
        .collect();
    ensure!(writes.is_empty(), "{writes:#?}");
    Ok(())
}

/// The module is refused for that reason, with that text, and changes nothing; deleting it ends at once.
pub async fn refused(lab: &Lab, helm: &WrappedHelm, why: &str, text: &str) -> Result<()> {
    let start = lab.cluster.audit().mark()?;
    let (before, changes) = (records(lab).await?, helm.changes().len());
    lab.apply(json!({})).await?;
    let status = lab.until_reason(ConditionType::Configured, why).await?;
    ensure!(status.state == State::Warning, "{status:?}");
    ensure!(status.description.contains(text), "{}", status.description);
    ensure!(
        message(&status, ConditionType::Configured) == status.description,
        "{status:?}"
    );
    ensure!(status.release.is_none(), "{:?}", status.release);
    // A full comparison is refused too.
    lab.annotate(ANNOTATION_RECONCILE_AT, "now").await?;
    let status = lab
        .until_status("the annotation to be handled", |status| {
            status.last_handled_reconcile_at.is_some()
        })
        .await?;
    ensure!(reason(&status, ConditionType::Configured) == why, "{status:?}");

    let module = lab.module().await?;
    ensure!(module.finalizers().is_empty(), "{:?}", module.finalizers());
    lab.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
    eventually("the refused GpuModule to be gone", AT_ONCE, async || {
        ensure!(lab.modules.get_opt(MODULE_NAME).await?.is_none());
        Ok(())
    })
    .await?;
    ensure!(
        records(lab).await? == before,
        "{before:?} became {:?}",
        records(lab).await?
    );
    ensure!(helm.changes().len() == changes, "helm ran: {:?}", helm.changes());
    ensure_hands_off(lab, start)
}

#[tokio::test(flavor = "multi_thread")]
async fn other_stacks_and_the_other_module_are_left_alone() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let _manager = lab.manager_with(&helm).await?;

    // A release of another name in another namespace.
    let chart = lab.archive("26.7.0");
    lab.helm(&[
        "install",
        "my-gpus",
        &chart,
        "--namespace=nvidia",
        "--create-namespace",
    ])
    .await?;
    refused(&lab, &helm, "ForeignRelease", "Helm release nvidia/my-gpus").await?;
    lab.helm(&["uninstall", "my-gpus", "--namespace=nvidia"]).await?;

    // A ClusterPolicy that no Helm release made. The CRDs of the release before are still there.
    let policy = json!({
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": { "name": "by-hand" },
        "spec": {
            "operator": {}, "daemonsets": {}, "driver": { "enabled": false }, "toolkit": {}, "devicePlugin": {},
            "dcgm": {}, "dcgmExporter": {}, "gfd": {}, "nodeStatusExporter": {},
        },
    });
    let file = lab.values_file("policy.json", &policy)?;
    lab.cluster.kubectl(&["create", "-f", &file]).await?;
    refused(
        &lab,
        &helm,
        "UnmanagedStack",
        "ClusterPolicy by-hand belongs to no Helm release",
    )
    .await?;
    lab.cluster.kubectl(&["delete", "-f", &file]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_gpu_modules_are_left_alone() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    let _manager = lab.manager_with(&helm).await?;
    for (crd, kind, reason) in [
        (GPU_DRIVER_CRD, "GpuDriver", "GpuDriverModule"),
        (OTHER_GPU_MODULE_CRD, "Gpu", "OtherGpuModule"),
    ] {
        create_crd(&lab, crd, kind).await?;
        refused(&lab, &helm, reason, crd).await?;
    }
    // Gone, this module goes on by itself.
    lab.apply(json!({})).await?;
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    for (crd, reason) in [
        (OTHER_GPU_MODULE_CRD, "OtherGpuModule"),
        (GPU_DRIVER_CRD, "GpuDriverModule"),
    ] {
        lab.until_reason(ConditionType::Configured, reason).await?;
        crds.delete(crd, &DeleteParams::default()).await?;
    }
    lab.until(State::Ready).await?;
    Ok(())
}

/// A CRD of group `gpu.kyma-project.io`, once it is served.
async fn create_crd(lab: &Lab, name: &str, kind: &str) -> Result<()> {
    let (plural, group) = name.split_once('.').context("no group")?;
    let crd = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    }))?;
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    crds.create(&PostParams::default(), &crd).await?;
    eventually("the other module's API", AT_ONCE, async || {
        lab.cluster.kubectl(&["get", name]).await?;
        Ok(())
    })
    .await
}
