//! What is done to a cluster around a removal.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::HOLD;
use e2e::simulated::Where;
use e2e::wait::eventually;
use futures::StreamExt as _;
use gpu_manager::api::{ConditionType, MODULE_NAME, RELEASE_NAMESPACE, condition};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::lab::{Lab, STEP};

/// A key of NVIDIA's that a user has set on a node, and its value.
const OF_USER: (&str, &str) = ("nvidia.com/device-plugin.config", "team-a");

/// Name of the policy that keeps Pods of hooks from starting.
const HELD_HOOKS: &str = "hooks-never-start";

/// Kinds of NVIDIA's whose objects are in the release, with version and plural.
const OF_NVIDIA: [(&str, &str, &str); 2] = [
    ("v1", "ClusterPolicy", "clusterpolicies"),
    ("v1alpha1", "NVIDIADriver", "nvidiadrivers"),
];

impl Lab {
    /// Sets a user's label on a node.
    pub async fn label_as_user(&self, node: &str) -> Result<()> {
        let label = format!("{}={}", OF_USER.0, OF_USER.1);
        self.cluster.kubectl(&["label", "node", node, &label]).await?;
        Ok(())
    }

    /// The Lease that NVIDIA's operator leaves.
    pub async fn leave_lease(&self) -> Result<()> {
        let leases = Api::<Lease>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let lease = json!({ "metadata": { "name": "53822513.nvidia.com" } });
        leases
            .create(&PostParams::default(), &serde_json::from_value(lease)?)
            .await?;
        Ok(())
    }

    /// Asks for the deletion of the GpuModule.
    pub async fn begin_to_delete(&self) -> Result<()> {
        self.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes the GpuModule and waits until it is gone: after how many seconds, and what condition `Deleted` has told until then, each
    /// with the second in which it did so first.
    pub async fn delete_and_watch(&self) -> Result<(f64, Vec<(f64, String)>)> {
        let seen = watcher(self.modules.clone(), watcher::Config::default()).default_backoff();
        let mut seen = std::pin::pin!(seen);
        let begin = Instant::now();
        self.begin_to_delete().await?;
        let mut told: Vec<(f64, String)> = Vec::new();
        loop {
            let next = timeout(STEP, seen.next()).await;
            let next = next.with_context(|| format!("nothing more after {told:?}\n{}", self.logs()))?;
            let seconds = begin.elapsed().as_secs_f64();
            match next.context("the watch has ended")?? {
                watcher::Event::Delete(_) => return Ok((seconds, told)),
                watcher::Event::Apply(module) | watcher::Event::InitApply(module) => {
                    let status = module.status.as_ref();
                    let deleted = status.and_then(|status| condition(status, ConditionType::Deleted));
                    let message = deleted.map(|deleted| &deleted.message);
                    if let Some(message) = message
                        && told.last().is_none_or(|(_, last)| last != message)
                    {
                        told.push((seconds, message.clone()));
                    }
                }
                watcher::Event::Init | watcher::Event::InitDone => {}
            }
        }
    }

    /// Waits until condition `Deleted` says that of the removal.
    pub async fn until_removal_tells(&self, words: &str) -> Result<()> {
        let what = format!("a removal that tells: {words}");
        let told = eventually(&what, STEP, async || {
            let module = self.module().await?;
            let status = module.status.context("no status")?;
            let deleted = condition(&status, ConditionType::Deleted).context("no condition Deleted")?;
            let text = format!("{} {}", deleted.message, status.description);
            ensure!(text.contains(words), "{text}");
            Ok(())
        });
        told.await.with_context(|| self.logs())
    }

    /// Another driver is wanted, which does not start, on both GPU nodes at once. Waits until each is cordoned, by whomever.
    pub async fn begin_driver_upgrade(&self, mut spec: Value) -> Result<()> {
        self.nvidia
            .set_faults(|faults| faults.driver_crash_loop = Where::Everywhere);
        spec["driver"] = json!({ "branch": 590, "upgrade": { "maxParallel": 2, "maxUnavailable": "100%" } });
        self.apply(spec).await?;
        let nodes = Api::<Node>::all(self.cluster.client());
        let begun = eventually("both nodes to be in a driver upgrade", STEP, async || {
            for name in ["gpu-0", "gpu-1"] {
                let node = nodes.get(name).await?;
                let state = node.labels().get("nvidia.com/gpu-driver-upgrade-state");
                let state = state.map_or("", String::as_str);
                ensure!(
                    is_cordoned(&node) && ["pod-restart-required", "upgrade-failed"].contains(&state),
                    "{name}: {state:?}, {:?}",
                    node.spec
                );
            }
            Ok(())
        });
        begun.await.with_context(|| self.logs())
    }

    /// Fails unless the node is cordoned, or is not.
    pub async fn ensure_cordoned(&self, node: &str, cordoned: bool) -> Result<()> {
        let nodes = Api::<Node>::all(self.cluster.client());
        let found = nodes.get(node).await?;
        ensure!(is_cordoned(&found) == cordoned, "{node}: {:?}", found.spec);
        Ok(())
    }

    /// Deletes the Secrets of the release.
    pub async fn delete_secrets(&self) -> Result<()> {
        let secrets = Api::<Secret>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let of_release = ListParams::default().labels("owner=helm,name=gpu-operator");
        secrets
            .delete_collection(&DeleteParams::default(), &of_release)
            .await?;
        Ok(())
    }

    /// Adds a finalizer to NVIDIA's objects of the release.
    pub async fn add_finalizers(&self, finalizer: &str) -> Result<()> {
        let patch = json!({ "metadata": { "finalizers": [finalizer] } });
        for (version, kind, plural) in OF_NVIDIA {
            let kind = GroupVersionKind::gvk("nvidia.com", version, kind);
            let kind = ApiResource::from_gvk_with_plural(&kind, plural);
            let objects = Api::<DynamicObject>::all_with(self.cluster.client(), &kind);
            for object in objects.list(&ListParams::default()).await? {
                let params = PatchParams::default();
                objects
                    .patch(&object.name_any(), &params, &Patch::Merge(&patch))
                    .await?;
            }
        }
        Ok(())
    }

    /// From now on Pods of Jobs never start, as with an image that cannot be pulled.
    pub async fn hold_hooks(&self) -> Result<()> {
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicy",
            "metadata": { "name": HELD_HOOKS },
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": { "resourceRules": [
                    { "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] },
                ] },
                "matchConditions": [{
                    "name": "of-a-job",
                    "expression": "has(object.metadata.labels) && 'batch.kubernetes.io/job-name' in object.metadata.labels",
                }],
                "mutations": [{
                    "patchType": "JSONPatch",
                    "jsonPatch": { "expression": format!(
                        "[JSONPatch{{op: \"add\", path: \"/metadata/annotations\", value: {{\"{HOLD}\": \"image\"}}}}]"
                    ) },
                }],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": { "name": HELD_HOOKS },
            "spec": { "policyName": HELD_HOOKS },
        });
        for object in [policy, binding] {
            let object: DynamicObject = serde_json::from_value(object)?;
            self.admission(&object.types.as_ref().context("no kind")?.kind)
                .create(&PostParams::default(), &object)
                .await?;
        }
        // It counts once the API server has taken it up.
        let pods = Api::<Pod>::default_namespaced(self.cluster.client());
        let probe = json!({
            "metadata": { "name": "probe", "labels": { "batch.kubernetes.io/job-name": "probe" } },
            "spec": { "containers": [{ "name": "main", "image": "probe" }] },
        });
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("Pods of Jobs to be held", STEP, async || {
            let pod = pods
                .create(&dry_run, &serde_json::from_value(probe.clone())?)
                .await?;
            ensure!(pod.annotations().contains_key(HOLD), "{:?}", pod.annotations());
            Ok(())
        })
        .await
    }

    /// Takes back what [`Self::hold_hooks`] did.
    pub async fn let_hooks_run(&self) -> Result<()> {
        for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
            self.admission(kind)
                .delete(HELD_HOOKS, &DeleteParams::default())
                .await?;
        }
        Ok(())
    }

    fn admission(&self, kind: &str) -> Api<DynamicObject> {
        let plural = kind.to_lowercase().replace("policybinding", "policybindings");
        let plural = if plural.ends_with('s') {
            plural
        } else {
            plural.replace("policy", "policies")
        };
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let kind = ApiResource::from_gvk_with_plural(&kind, &plural);
        Api::all_with(self.cluster.client(), &kind)
    }

    /// Waits until the Pod of a hook is there, which helm waits for.
    pub async fn until_hook_pod(&self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.cluster.client(), RELEASE_NAMESPACE);
        let params = ListParams::default().labels("batch.kubernetes.io/job-name");
        let seen = eventually("the Pod of a hook", STEP, async || {
            let pods = pods.list(&params).await?.items;
            let held = pods.iter().any(|pod| pod.annotations().contains_key(HOLD));
            ensure!(held, "{} Pods of Jobs", pods.len());
            Ok(())
        });
        seen.await.with_context(|| self.logs())
    }
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}
