//! What Kyma's Lifecycle Manager does with a managed module, in order and form of its requests.

use anyhow::{Context as _, Result, bail, ensure};
use e2e::manifests::objects;
use e2e::wait::eventually;
use futures::future::join_all;
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::files::title;
use crate::lab::{STEP, everywhere, name, place};

/// Whose the objects of the manifest become.
pub const APPLIER: &str = "declarative.kyma-project.io/applier";

/// Whose the default CR becomes.
const CREATOR: &str = "resource.kyma-project.io/finalizer";

/// Namespace of an object that names none.
const FALLBACK: &str = "default";

/// Registry that a landscape takes images from.
pub const LOCAL_REGISTRY: &str = "registry.local/kyma";

/// Kinds that go last, since the operator may need them for its own cleanup.
const LAST: [&str; 9] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Deployment",
    "Namespace",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
];

/// One module of one cluster.
pub struct LifecycleManager {
    client: Client,
    /// As Lifecycle Manager sends them.
    target: Vec<Value>,
    /// With the namespace that every default CR gets, whatever its scope.
    default_cr: Value,
}

impl LifecycleManager {
    pub fn new(client: Client, manifest: &str, default_cr: &Value) -> Result<Self> {
        let mut target = objects(manifest)?;
        target.iter_mut().for_each(rewrite);
        let mut default_cr = default_cr.clone();
        default_cr["metadata"]["namespace"] = json!("kyma-system");
        Ok(Self {
            client,
            target,
            default_cr,
        })
    }

    /// The namespace that Lifecycle Manager makes on every cluster.
    pub async fn prepare(&self) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": "kyma-system",
                "labels": { "istio-injection": "enabled", "operator.kyma-project.io/managed-by": "kyma" },
            },
        });
        self.apply(&namespace).await
    }

    /// Brings all objects, then the default CR, until both worked.
    pub async fn install(&self) -> Result<()> {
        eventually("all objects to be applied", STEP, async || self.sync().await).await?;
        eventually("the default CR to be created", STEP, async || {
            self.create_default_cr().await
        })
        .await
    }

    /// Applies all objects at once, whatever needs which.
    async fn sync(&self) -> Result<()> {
        let answers = join_all(self.target.iter().map(|object| self.apply(object))).await;
        answers.into_iter().collect()
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let params = PatchParams::apply(APPLIER).force();
        let api = place(&self.client, object, FALLBACK).await?;
        api.patch(name(object), &params, &Patch::Apply(object))
            .await
            .with_context(|| title(object))?;
        Ok(())
    }

    /// Creates it once, and leaves one alone that is there.
    async fn create_default_cr(&self) -> Result<()> {
        let api = place(&self.client, &self.default_cr, FALLBACK).await?;
        if api.get_opt(name(&self.default_cr)).await?.is_some() {
            return Ok(());
        }
        let params = PostParams {
            field_manager: Some(CREATOR.to_owned()),
            ..PostParams::default()
        };
        let object = serde_json::from_value(self.default_cr.clone())?;
        api.create(&params, &object).await?;
        Ok(())
    }

    /// One round of a removal; whether all is gone. While a CR of the module's kind is there, nothing is pruned.
    pub async fn remove(&self) -> Result<bool> {
        let all = everywhere(&self.client, &self.default_cr).await;
        let crs = match all {
            Ok(api) => api.list(&ListParams::default()).await?.items,
            // The CRD has been pruned.
            Err(_) => vec![],
        };
        let (default, others): (Vec<_>, Vec<_>) = crs
            .iter()
            .partition(|cr| cr.metadata.name.as_deref() == Some(name(&self.default_cr)));
        if !others.is_empty() {
            bail!("waiting for the deletion of module CRs");
        }
        if default.is_empty() {
            return self.prune().await;
        }
        let api = place(&self.client, &self.default_cr, FALLBACK).await?;
        api.delete(name(&self.default_cr), &DeleteParams::background())
            .await?;
        // It goes on to bring the objects as long as the CR is there.
        self.sync().await?;
        Ok(false)
    }

    /// Deletes all objects, those that the operator may need last; whether none is left.
    async fn prune(&self) -> Result<bool> {
        let is_last = |object: &&Value| LAST.iter().any(|kind| object["kind"] == *kind);
        let (last, first): (Vec<_>, Vec<_>) = self.target.iter().partition(is_last);
        for objects in [first, last] {
            let answers = join_all(objects.into_iter().map(|object| self.delete(object))).await;
            let gone = answers.into_iter().collect::<Result<Vec<_>>>()?;
            if !gone.into_iter().all(|gone| gone) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the object was gone before.
    async fn delete(&self, object: &Value) -> Result<bool> {
        let api = place(&self.client, object, FALLBACK).await?;
        match api.delete(name(object), &DeleteParams::background()).await {
            Ok(_) => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
            Err(error) => Err(error).with_context(|| title(object)),
        }
    }

    /// Objects of the manifest that are in the cluster and not about to go.
    pub async fn present(&self) -> Result<Vec<String>> {
        let mut found = vec![];
        for object in &self.target {
            let api = place(&self.client, object, FALLBACK).await?;
            let there = api.get_opt(name(object)).await?;
            if there.is_some_and(|there| there.metadata.deletion_timestamp.is_none()) {
                found.push(title(object));
            }
        }
        Ok(found)
    }

    /// How many objects the manifest has.
    pub fn count(&self) -> usize {
        self.target.len()
    }

    pub fn default_cr(&self) -> &Value {
        &self.default_cr
    }
}

/// What every object gets, on its own metadata alone, and images from the landscape's registry.
fn rewrite(object: &mut Value) {
    let metadata = &mut object["metadata"];
    metadata["labels"]["operator.kyma-project.io/managed-by"] = json!("kyma");
    metadata["labels"]["app.kubernetes.io/component"] = json!("kyma-gpu-1234567890");
    metadata["labels"]["app.kubernetes.io/part-of"] = json!("Kyma");
    metadata["annotations"]["operator.kyma-project.io/managed-by-reconciler-disclaimer"] =
        json!("DO NOT EDIT");
    metadata["annotations"]["deprecated-operator.kyma-project.io/owned-by"] =
        json!("kcp-system/kyma-gpu-1234567890");
    if object["kind"] == "Deployment" {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array_mut();
        for container in containers.into_iter().flatten() {
            localise(&mut container["image"]);
            let variables = container["env"].as_array_mut().into_iter().flatten();
            variables
                .filter_map(|variable| variable.get_mut("value"))
                .for_each(localise);
        }
    }
}

/// Another registry in front of the last part of an image's name; of a variable only where it is an image.
fn localise(reference: &mut Value) {
    let local = reference.as_str().and_then(|text| {
        let (_, last) = text.rsplit_once('/')?;
        last.contains(':').then(|| format!("{LOCAL_REGISTRY}/{last}"))
    });
    if let Some(local) = local {
        *reference = json!(local);
    }
}

/// Fails unless nothing of the module is about to be removed.
pub async fn ensure_all_present(lifecycle_manager: &LifecycleManager) -> Result<()> {
    let present = lifecycle_manager.present().await?;
    ensure!(present.len() == lifecycle_manager.count(), "only {present:?}");
    Ok(())
}
