//! A Node Feature Discovery that the cluster has: the release goes without its own, and back when it goes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait::eventually;
use gpu_manager::api::{
    ConditionType, FIELD_MANAGER, NFD_WORKER, NODE_FEATURE_RULE_CRD, NodeFeatureDiscovery, RELEASE_NAMESPACE,
    State,
};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::lab::Lab;

const RULE: &str = "gardenlinux-version";

impl Lab {
    /// Installs Node Feature Discovery's own chart, as it lies in NVIDIA's, in a namespace of its own.
    async fn install_nfd(&self) -> Result<()> {
        let folder = self.cluster.dir().join("charts");
        std::fs::create_dir_all(&folder)?;
        let archive = self.archive("26.7.0");
        let unpacked = tokio::process::Command::new("tar")
            .args(["-xzf", &archive, "-C"])
            .arg(&folder)
            .status()
            .await?;
        ensure!(unpacked.success(), "{archive} cannot be unpacked");
        let chart = folder.join("gpu-operator/charts/node-feature-discovery");
        let chart = chart.display().to_string();
        self.helm(&["install", "nfd", &chart, "--namespace=nfd", "--create-namespace"])
            .await?;
        let sets = Api::<DaemonSet>::namespaced(self.cluster.client(), "nfd");
        eventually(
            "the cluster's NFD to run on all nodes",
            Duration::from_mins(1),
            async || {
                let sets = sets.list(&ListParams::default()).await?.items;
                let ready: i32 = sets
                    .iter()
                    .filter_map(|set| set.status.as_ref())
                    .map(|status| status.number_ready)
                    .sum();
                ensure!(ready == 3, "{ready} workers");
                Ok(())
            },
        )
        .await
    }

    /// Its prune Job would take the labels from all nodes.
    async fn uninstall_nfd(&self) -> Result<()> {
        self.helm(&["uninstall", "nfd", "--namespace=nfd", "--no-hooks"])
            .await?;
        Ok(())
    }

    /// Name, generation and managers of NFD's CRDs.
    async fn nfd_crds(&self) -> Result<Vec<(String, Option<i64>, Vec<String>)>> {
        let crds = Api::<CustomResourceDefinition>::all(self.cluster.client());
        let all = crds.list_metadata(&ListParams::default()).await?.items;
        let of_nfd = all
            .iter()
            .filter(|crd| crd.name_any().ends_with(".nfd.k8s-sigs.io"));
        let managers = of_nfd.map(|crd| {
            let managers = crd
                .managed_fields()
                .iter()
                .filter_map(|entry| entry.manager.clone());
            (crd.name_any(), crd.metadata.generation, managers.collect())
        });
        Ok(managers.collect())
    }

    async fn until_labelled_by(&self, whose: NodeFeatureDiscovery) -> Result<()> {
        let status = self
            .until_status(&format!("{whose:?} to label the nodes"), |status| {
                status.state == State::Ready && status.node_feature_discovery == Some(whose)
            })
            .await?;
        ensure!(status.gpu_nodes.summary == "2/2", "{status:?}");
        let ours = whose == NodeFeatureDiscovery::Module;
        let rules = self
            .cluster
            .kubectl(&["get", "nodefeaturerules", "--output=name"])
            .await?;
        ensure!(rules.contains(RULE) != ours, "{rules}");
        let sets = Api::<DaemonSet>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        ensure!(sets.get_opt(NFD_WORKER).await?.is_some() == ours, "{whose:?}");
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clusters_own_is_used_while_it_is_there() -> Result<()> {
    let lab = Lab::start().await?;
    lab.install_nfd().await?;
    let before = lab.nfd_crds().await?;
    ensure!(!before.is_empty());

    let _manager = lab.ready().await?;
    lab.until_labelled_by(NodeFeatureDiscovery::Cluster).await?;
    ensure!(lab.nfd_crds().await? == before, "{:?}", lab.nfd_crds().await?);
    let policy = lab.cluster_policy().await?["metadata"]["uid"].clone();

    // It goes: after a while the module's comes, and NFD's CRDs are of use to nobody else.
    lab.uninstall_nfd().await?;
    lab.until_revision(2).await?;
    lab.until_labelled_by(NodeFeatureDiscovery::Module).await?;
    let crds = lab.nfd_crds().await?;
    let applied = |(_, _, managers): &(_, _, Vec<String>)| managers.iter().any(|name| name == FIELD_MANAGER);
    ensure!(crds.iter().all(applied), "{crds:?}");

    // It comes again: after a while the module's goes.
    lab.install_nfd().await?;
    lab.until_revision(3).await?;
    lab.until_labelled_by(NodeFeatureDiscovery::Cluster).await?;
    ensure!(lab.cluster_policy().await?["metadata"]["uid"] == policy);
    ensure!(lab.history().await?.len() == 3);

    lab.delete().await?;
    let rules = lab
        .cluster
        .kubectl(&["get", "nodefeaturerules", "--output=name"])
        .await?;
    ensure!(!rules.contains(RULE), "{rules}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_knows_no_rules_is_named() -> Result<()> {
    let lab = Lab::start().await?;
    lab.install_nfd().await?;
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    crds.delete(NODE_FEATURE_RULE_CRD, &DeleteParams::default())
        .await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({})).await?;
    let status = lab
        .until_reason(ConditionType::Configured, "NodeFeatureRulesMissing")
        .await?;
    ensure!(status.state == State::Warning, "{status:?}");
    ensure!(
        status
            .description
            .contains("DaemonSet nfd/nfd-node-feature-discovery-worker"),
        "{}",
        status.description
    );
    lab.uninstall_nfd().await?;
    let status = lab.until(State::Ready).await?;
    let whose = status.node_feature_discovery.context("nobody labels the nodes")?;
    ensure!(whose == NodeFeatureDiscovery::Module);
    Ok(())
}
