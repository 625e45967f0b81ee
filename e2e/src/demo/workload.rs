//! GPU Pods in a namespace of a user.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod, PodCondition};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, Error};
use serde_json::json;

use crate::simulated::names::GPU_RESOURCE;
use crate::wait::eventually;

/// How long a namespace may take to go; a real kubelet gives its Pods thirty seconds.
const REMOVAL_DEADLINE: Duration = Duration::from_mins(5);

/// A namespace with GPU Pods, as a user makes it.
pub struct Workload {
    client: Client,
    namespace: String,
}

impl Workload {
    /// Creates the namespace. That it is not there yet makes sure that nobody else's is removed at the end.
    pub async fn create(client: Client, namespace: &str) -> Result<Self> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("cannot create the namespace {namespace}"))?;
        Ok(Self {
            client,
            namespace: namespace.to_owned(),
        })
    }

    /// Name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Pods of the namespace.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a Pod that asks for GPUs and runs `command` once.
    pub async fn start(&self, name: &str, image: &str, command: &[&str], gpus: u32) -> Result<()> {
        let pod = gpu_pod(name, image, command, gpus)?;
        // A new namespace gets its ServiceAccount from a controller, and no Pod can be created before.
        eventually("a Pod to be accepted", Duration::from_mins(1), async || {
            self.pods().create(&PostParams::default(), &pod).await?;
            Ok(())
        })
        .await
    }

    /// Waits until a Pod is in one of these phases.
    pub async fn until_phase(&self, name: &str, phases: &[&str], deadline: Duration) -> Result<Pod> {
        eventually(
            &format!("Pod {name} to be {}", phases.join(" or ")),
            deadline,
            async || {
                let pod = self.pods().get(name).await?;
                let status = pod.status.clone().unwrap_or_default();
                ensure!(
                    status
                        .phase
                        .as_deref()
                        .is_some_and(|phase| phases.contains(&phase)),
                    "{:?} {:?}",
                    status.phase,
                    unscheduled(&pod).and_then(|condition| condition.message)
                );
                Ok(pod)
            },
        )
        .await
    }

    /// Waits until the scheduler says why it places a Pod nowhere.
    pub async fn until_unschedulable(&self, name: &str, deadline: Duration) -> Result<String> {
        eventually(&format!("Pod {name} to be unschedulable"), deadline, async || {
            let pod = self.pods().get(name).await?;
            let condition = unscheduled(&pod).context("the scheduler has not spoken")?;
            condition.message.context("the scheduler gives no reason")
        })
        .await
    }

    /// Deletes the Pods, then the namespace, and waits until both are gone.
    ///
    /// A namespace goes faster without Pods: otherwise its controller guesses how long to wait for them.
    pub async fn remove(&self) -> Result<()> {
        let all = ListParams::default();
        self.pods()
            .delete_collection(&DeleteParams::default(), &all)
            .await?;
        eventually("the Pods to be gone", REMOVAL_DEADLINE, async || {
            let pods = self.pods().list(&all).await?.items;
            ensure!(pods.is_empty(), "{} are left", pods.len());
            Ok(())
        })
        .await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let gone = |error: &Error| matches!(error, Error::Api(status) if status.code == 404);
        match namespaces.delete(&self.namespace, &DeleteParams::default()).await {
            Err(error) if !gone(&error) => return Err(error.into()),
            _ => {}
        }
        let what = format!("the namespace {} to be gone", self.namespace);
        eventually(&what, REMOVAL_DEADLINE, async || {
            let found = namespaces.get_opt(&self.namespace).await?;
            ensure!(
                found.is_none(),
                "{:?}",
                found.and_then(|namespace| namespace.status)
            );
            Ok(())
        })
        .await
    }
}

fn gpu_pod(name: &str, image: &str, command: &[&str], gpus: u32) -> Result<Pod> {
    let gpus = json!({ (GPU_RESOURCE): gpus.to_string() });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "gpu",
                "image": image,
                "command": command,
                "resources": { "limits": gpus },
            }],
        },
    }))?)
}

/// The scheduler's refusal, where there is one.
fn unscheduled(pod: &Pod) -> Option<PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let refusal = |condition: &&PodCondition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    };
    conditions.iter().find(refusal).cloned()
}
