//! What a deleted GpuModule leaves in the cluster.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::RELEASE_NAMESPACE;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::nodes::{self, NodeRow};
use super::{Programs, Screen};

/// Suffixes of the CRDs that a release brings.
const CRD_GROUPS: [&str; 2] = [".nvidia.com", ".nfd.k8s-sigs.io"];

/// Everything that runs, or would start something that runs.
const WORKLOADS: &str = "deployments,daemonsets,jobs,pods";

/// What is left.
#[derive(Clone, Debug)]
pub struct Left {
    /// Releases in the module's namespace, in any state.
    pub releases: Vec<String>,
    /// Workloads in the module's namespace, as `kind/name`.
    pub workloads: Vec<String>,
    /// CRDs of NVIDIA's stack.
    pub crds: Vec<String>,
    /// Whether the module's namespace is there.
    pub namespace: bool,
    /// The nodes.
    pub nodes: Vec<NodeRow>,
}

impl Left {
    /// Looks at the cluster.
    pub async fn look(client: &Client, programs: &Programs) -> Result<Self> {
        // Helm 4 lists releases in every status.
        let listed = programs
            .helm(&["list", "--namespace", RELEASE_NAMESPACE, "--output", "json"])
            .await?;
        let releases: Vec<Value> = serde_json::from_str(&listed).context("helm list gave no JSON")?;
        let workloads = programs
            .kubectl(&["get", WORKLOADS, "-n", RELEASE_NAMESPACE, "-o", "name"])
            .await?;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let crds = crds.list_metadata(&ListParams::default()).await?;
        let of_stack = |name: &String| CRD_GROUPS.iter().any(|group| name.ends_with(group));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        Ok(Self {
            releases: releases
                .iter()
                .filter_map(|release| release["name"].as_str())
                .map(str::to_owned)
                .collect(),
            workloads: workloads.lines().map(str::to_owned).collect(),
            crds: crds.iter().map(ResourceExt::name_any).filter(of_stack).collect(),
            namespace: namespaces.get_opt(RELEASE_NAMESPACE).await?.is_some(),
            nodes: nodes::list(client).await?,
        })
    }

    /// Fails where something is left that must be gone.
    pub fn check(&self) -> Result<()> {
        ensure!(self.releases.is_empty(), "releases are left: {:?}", self.releases);
        ensure!(
            self.workloads.is_empty(),
            "workloads are left: {:?}",
            self.workloads
        );
        let offering: Vec<_> = self.nodes.iter().filter(|node| node.gpus > 0).collect();
        ensure!(offering.is_empty(), "nodes still offer GPUs: {offering:?}");
        Ok(())
    }

    /// Shows it.
    pub fn show(&self, screen: &mut Screen<'_>) {
        screen.say(
            "Gone: the GpuModule, the release, everything that ran in its namespace, the GPUs on the nodes.",
        );
        let namespace = if self.namespace { "there, empty" } else { "gone" };
        screen.say(&format!("Namespace {RELEASE_NAMESPACE}: {namespace}"));
        screen.say(&format!(
            "CRDs of NVIDIA and NFD, kept since deleting them would delete other objects of theirs: {}",
            self.crds.len()
        ));
        for crd in &self.crds {
            screen.say(&format!("  {crd}"));
        }
        let mut by_label: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in &self.nodes {
            for label in &node.labels {
                by_label.entry(label).or_default().push(&node.name);
            }
        }
        screen.say(&format!("Labels of NVIDIA and NFD on nodes: {}", by_label.len()));
        for (label, names) in by_label {
            screen.say(&format!("  {label}: {}", names.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_a_workload_or_a_gpu_must_not_be_left() {
        let node = NodeRow {
            name: "gpu-0".to_owned(),
            pool: None,
            os: String::new(),
            kernel: String::new(),
            gpus: 0,
            labels: std::collections::BTreeSet::new(),
        };
        let clean = Left {
            releases: vec![],
            workloads: vec![],
            crds: vec!["clusterpolicies.nvidia.com".to_owned()],
            namespace: true,
            nodes: vec![node.clone()],
        };
        assert!(clean.check().is_ok());
        let text = || vec!["pod/x".to_owned()];
        let unclean = [
            Left {
                releases: text(),
                ..clean.clone()
            },
            Left {
                workloads: text(),
                ..clean.clone()
            },
            Left {
                nodes: vec![NodeRow { gpus: 1, ..node }],
                ..clean
            },
        ];
        assert!(unclean.iter().all(|left| left.check().is_err()));
    }
}
