//! A namespace and somebody who works there with Kubernetes' own role `edit`, and no right beyond it.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::demo::Workload;
use e2e::wait::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::path;
use crate::lab::{Lab, STEP};

/// The user's ServiceAccount.
const USER: &str = "scientist";

pub struct Team<'a> {
    lab: &'a Lab,
    pub work: Workload,
    kubeconfig: PathBuf,
}

impl<'a> Team<'a> {
    /// Makes the namespace and the user.
    pub async fn create(lab: &'a Lab, namespace: &str) -> Result<Self> {
        let work = Workload::create(lab.cluster.client(), namespace).await?;
        let kubectl = async |args: &[&str]| lab.cluster.kubectl(&[&["-n", namespace], args].concat()).await;
        kubectl(&["create", "serviceaccount", USER]).await?;
        let account = format!("--serviceaccount={namespace}:{USER}");
        kubectl(&["create", "rolebinding", USER, "--clusterrole=edit", &account]).await?;
        let kubeconfig = lab
            .cluster
            .kubeconfig_for_service_account(namespace, USER)
            .await?;
        Ok(Self {
            lab,
            work,
            kubeconfig,
        })
    }

    /// Applies a sample as the user.
    pub async fn apply(&self, sample: &str) -> Result<()> {
        let path = path(sample);
        // The namespace is new, so its ServiceAccount and the user's rights may come a moment later.
        eventually(&format!("{sample} to be accepted"), STEP, async || {
            self.kubectl(&path).await
        })
        .await
    }

    /// Applies a sample as an administrator of the cluster, who alone may set limits.
    pub async fn limit(&self, sample: &str) -> Result<()> {
        self.administer(&path(sample)).await
    }

    /// The same with an object that is no sample.
    pub async fn limit_own(&self, object: &Value) -> Result<()> {
        self.administer(&self.file(object)?).await
    }

    async fn administer(&self, file: &str) -> Result<()> {
        let namespace = ["-n", self.work.namespace()];
        let apply = ["apply", "--server-side", "-f", file];
        self.lab
            .cluster
            .kubectl(&[&namespace[..], &apply].concat())
            .await?;
        Ok(())
    }

    /// Applies an object of the user's own until it is refused with such words.
    pub async fn until_refused(&self, object: &Value, words: &str) -> Result<()> {
        let file = self.file(object)?;
        eventually("a refusal", STEP, async || match self.kubectl(&file).await {
            Ok(()) => bail!("it was accepted"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains(words), "{text}");
                Ok(())
            }
        })
        .await
    }

    /// Applies an object of the user's own.
    pub async fn apply_own(&self, object: &Value) -> Result<()> {
        self.kubectl(&self.file(object)?).await
    }

    fn file(&self, object: &Value) -> Result<String> {
        let name = object["metadata"]["name"].as_str().context("no name")?;
        let file = self.lab.cluster.dir().join(format!("{name}.json"));
        std::fs::write(&file, object.to_string())?;
        Ok(file.display().to_string())
    }

    async fn kubectl(&self, file: &str) -> Result<()> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let namespace = self.work.namespace();
        let args = ["--kubeconfig", &kubeconfig, "-n", namespace];
        let apply = ["apply", "--server-side", "-f", file];
        self.lab.cluster.kubectl(&[args, apply].concat()).await?;
        Ok(())
    }

    /// Waits until a Pod runs, and says where.
    pub async fn until_runs(&self, pod: &str) -> Result<String> {
        let pod = self
            .work
            .until_phase(pod, &["Running", "Succeeded"], STEP)
            .await?;
        node_of(&pod)
    }

    /// Waits until a Job is complete, and says where it ran.
    pub async fn until_complete(&self, job: &str) -> Result<Vec<String>> {
        let jobs: Api<Job> = Api::namespaced(self.lab.cluster.client(), self.work.namespace());
        eventually(&format!("Job {job} to be complete"), STEP, async || {
            let status = jobs.get(job).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            let complete = conditions.any(|found| found.type_ == "Complete" && found.status == "True");
            ensure!(complete, "{status:?}");
            Ok(())
        })
        .await?;
        self.nodes(&format!("job-name={job}")).await
    }

    /// Waits until all Pods of a Deployment are available, and says where they run.
    pub async fn until_available(&self, deployment: &str) -> Result<Vec<String>> {
        let deployments: Api<Deployment> = Api::namespaced(self.lab.cluster.client(), self.work.namespace());
        let what = format!("Deployment {deployment} to be available");
        eventually(&what, STEP, async || {
            let found = deployments.get(deployment).await?;
            let wanted = found.spec.as_ref().and_then(|spec| spec.replicas);
            let status = found.status.unwrap_or_default();
            ensure!(status.available_replicas == wanted, "{status:?}");
            Ok(())
        })
        .await?;
        self.nodes(&format!("app={deployment}")).await
    }

    async fn nodes(&self, labels: &str) -> Result<Vec<String>> {
        let pods = self
            .work
            .pods()
            .list(&ListParams::default().labels(labels))
            .await?;
        pods.iter().map(node_of).collect()
    }
}

fn node_of(pod: &Pod) -> Result<String> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    node.with_context(|| format!("on no node: {:?}", pod.status))
}
