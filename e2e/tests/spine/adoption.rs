//! A release of the module's name that somebody else made: listed, left alone, and taken over when the user asks for it.

use anyhow::{Context as _, Result, ensure};
use e2e::tools::Tool;
use gpu_manager::api::{
    ConditionType, GpuModuleStatus, LABEL_MANAGED_BY, OperationKind, RELEASE_NAMESPACE, State,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::foreign::{ensure_hands_off, records, refused};
use crate::lab::wrapper::WrappedHelm;
use crate::lab::{Lab, reason};

/// The values file of the Garden Linux NVIDIA installer 1.17.0, as its guide tells to use it.
fn guide() -> Value {
    json!({
        "cdi": { "enabled": true, "default": true },
        "toolkit": { "installDir": "/opt/nvidia" },
        "driver": {
            "imagePullPolicy": "Always",
            "usePrecompiled": true,
            "version": "590",
            "repository": "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0",
        },
        "node-feature-discovery": { "worker": { "config": { "sources": { "custom": [{
            "name": "gardenlinux-version",
            "labelsTemplate": "{{ range .system.osrelease }}feature.node.kubernetes.io/system-os_release.VERSION_ID=0\n{{ end }}",
            "matchFeatures": [{
                "feature": "system.osrelease",
                "matchExpressions": { "GARDENLINUX_VERSION": { "op": "Exists" } },
            }],
        }] } } } },
    })
}

impl Lab {
    /// Installs the release as the guide says, and waits until its drivers run.
    async fn install_by_guide(&self, helm: Tool, chart: &str, extra: &[&str]) -> Result<()> {
        let values = self.values_file("guide.json", &guide())?;
        let archive = self.archive(chart);
        let mut args = vec![archive.as_str(), "--create-namespace", "--values", &values];
        args.extend(extra);
        self.helm_release_with(helm, &["install"], &args).await?;
        self.until_drivers_run(|pod| pod.image.contains(":590-")).await
    }

    /// Waits until the release is listed for that reason.
    async fn until_listed(&self, why: &str) -> Result<GpuModuleStatus> {
        let status = self.until_reason(ConditionType::Configured, why).await?;
        ensure!(status.state == State::Warning, "{status:?}");
        ensure!(status.release.is_none(), "{status:?}");
        Ok(status)
    }
}

fn dropped(status: &GpuModuleStatus) -> Result<&[String]> {
    Ok(&status
        .adoption
        .as_ref()
        .context("nothing is listed")?
        .dropped_values)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_the_garden_linux_guide_is_taken_over_up_the_lines() -> Result<()> {
    let lab = Lab::start().await?;
    lab.install_by_guide(Tool::Helm3, "26.3.3", &["--set=mig.strategy=mixed"])
        .await?;
    let drivers = lab.running_drivers().await?;

    let helm = WrappedHelm::new(&lab)?;
    let (start, before) = (lab.cluster.audit().mark()?, records(&lab).await?);
    let _manager = lab.manager_with(&helm).await?;
    lab.apply(json!({})).await?;
    let status = lab.until_listed("ReleaseNotAdopted").await?;
    ensure!(
        dropped(&status)? == ["driver.version", "mig.strategy"],
        "{:?}",
        status.adoption
    );
    ensure!(
        status.description.contains("drops 2 of its values"),
        "{}",
        status.description
    );
    ensure_hands_off(&lab, start)?;
    ensure!(records(&lab).await? == before && helm.changes().is_empty());

    // One value is kept, the other one is given up.
    let spec = json!({ "adoptExistingRelease": true, "values": { "mig": { "strategy": "mixed" } } });
    lab.apply(spec).await?;
    for revision in 2..=4 {
        lab.until_revision(revision).await?;
    }
    lab.until_drivers_run(|pod| pod.image.contains(":580-")).await?;
    let status = lab
        .until_status("Ready with chart 26.7.0", |status| {
            let release = status.release.as_ref();
            status.state == State::Ready && release.is_some_and(|release| release.chart_version == "26.7.0")
        })
        .await?;
    lab.ensure_drivers_outlived(&drivers, 4)?;
    ensure!(status.adoption.is_none(), "{:?}", status.adoption);
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let first = status.history.last().context("no history")?;
    ensure!(
        first.operation == OperationKind::Upgrade
            && first.from.as_deref() == Some("26.3.3")
            && first.message.contains("adopt"),
        "{first:?}"
    );
    let history = lab.helm_release(&["history"], &["--output=json"]).await?;
    ensure!(history.contains("adopt the existing release"), "{history}");
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    let namespace = namespaces.get(RELEASE_NAMESPACE).await?;
    ensure!(
        !namespace.labels().contains_key(LABEL_MANAGED_BY),
        "{:?}",
        namespace.labels()
    );

    // From here on it is a release like any other.
    lab.apply(json!({})).await?;
    lab.until_revision(5).await?;
    lab.until(State::Ready).await?;
    lab.delete().await?;
    ensure!(lab.history().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_that_was_asked_for_before_the_list_waits_for_a_second_yes() -> Result<()> {
    let lab = Lab::start().await?;
    let helm = WrappedHelm::new(&lab)?;
    lab.install_by_guide(Tool::Helm, "26.7.0", &[]).await?;
    let drivers = lab.running_drivers().await?;
    let _manager = lab.manager_with(&helm).await?;

    // Not asked for at all: refused, and let go at once.
    refused(
        &lab,
        &helm,
        "ReleaseNotAdopted",
        "Helm release gpu-operator/gpu-operator",
    )
    .await?;

    let start = lab.cluster.audit().mark()?;
    lab.apply(json!({ "adoptExistingRelease": true })).await?;
    let status = lab.until_listed("AdoptionNotConfirmed").await?;
    ensure!(dropped(&status)? == ["driver.version"], "{:?}", status.adoption);
    // Another change of the spec confirms nothing.
    let values = json!({ "dcgmExporter": { "enabled": false } });
    lab.apply(json!({ "adoptExistingRelease": true, "values": values }))
        .await?;
    let status = lab.until_status("the change to be seen", |_| true).await?;
    ensure!(
        reason(&status, ConditionType::Configured) == "AdoptionNotConfirmed",
        "{status:?}"
    );
    lab.apply(json!({ "adoptExistingRelease": false })).await?;
    lab.until_listed("ReleaseNotAdopted").await?;
    ensure_hands_off(&lab, start)?;

    lab.apply(json!({ "adoptExistingRelease": true })).await?;
    // The driver moves into its object, and then rolls.
    for revision in 2..=3 {
        lab.until_revision(revision).await?;
    }
    lab.until_drivers_run(|pod| pod.image.contains(":580-")).await?;
    lab.until(State::Ready).await?;
    lab.ensure_drivers_outlived(&drivers, 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nothing_to_lose_one_yes_is_enough_also_where_the_secrets_are_gone() -> Result<()> {
    let lab = Lab::start().await?;
    lab.install_by_guide(Tool::Helm3, "26.3.3", &[]).await?;
    let secrets = Api::<Secret>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let of_helm = ListParams::default().labels("owner=helm");
    secrets
        .delete_collection(&DeleteParams::default(), &of_helm)
        .await?;
    let policy = lab.cluster_policy().await?["metadata"]["uid"].clone();
    let drivers = lab.running_drivers_at(0).await?;

    let _manager = lab.manager().await?;
    let branch = json!({ "branch": 590 });
    lab.apply(json!({ "driver": branch })).await?;
    lab.until_reason(ConditionType::Configured, "ReleaseUnrecorded")
        .await?;
    lab.apply(json!({ "driver": branch, "adoptExistingRelease": true }))
        .await?;
    for revision in 1..=4 {
        lab.until_revision(revision).await?;
    }
    lab.until_drivers_run(|pod| pod.app.starts_with("nvidia-gpu-driver-"))
        .await?;
    lab.until(State::Ready).await?;
    ensure!(
        lab.cluster_policy().await?["metadata"]["uid"] == policy,
        "it was made anew"
    );
    lab.ensure_drivers_outlived(&drivers, 4)
}
