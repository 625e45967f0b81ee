//! Everything in a cluster, to be compared with what was there before.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait::eventually;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// How long Kubernetes may take to remove what its garbage collector finds.
const SETTLED: Duration = Duration::from_secs(30);

/// Kinds that come and go by themselves: heartbeats, Events, and what Kubernetes derives from other objects.
const BY_THEMSELVES: [&str; 6] = [
    "ControllerRevision",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "IPAddress",
    "Lease",
];

/// What stays on purpose, and why.
fn stays(kind: &str, name: &str) -> bool {
    // Objects of theirs, also other people's, would go with them.
    let crd = kind == "CustomResourceDefinition"
        && [".nvidia.com", ".nfd.k8s-sigs.io"]
            .iter()
            .any(|group| name.ends_with(group));
    // One for each group of such a CRD.
    let service = kind == "APIService" && (name.contains("nvidia.com") || name.contains("nfd.k8s-sigs.io"));
    crd || service
}

/// Every object of a cluster by kind, namespace and name. Of a node also what is on it.
#[derive(Debug, PartialEq)]
pub struct Inventory(BTreeMap<String, Value>);

impl Inventory {
    /// Reads everything that can be listed.
    pub async fn take(client: &Client) -> Result<Self> {
        let mut all = BTreeMap::new();
        let discovery = Discovery::new(client.clone()).run().await?;
        for group in discovery.groups() {
            for (kind, capabilities) in group.recommended_resources() {
                if !capabilities.supports_operation(verbs::LIST)
                    || BY_THEMSELVES.contains(&kind.kind.as_str())
                {
                    continue;
                }
                let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
                for object in api.list(&ListParams::default()).await? {
                    let name = object.name_any();
                    if stays(&kind.kind, &name) {
                        continue;
                    }
                    let place = match capabilities.scope {
                        Scope::Namespaced => format!("{}/", object.namespace().unwrap_or_default()),
                        Scope::Cluster => String::new(),
                    };
                    all.insert(
                        format!("{} {place}{name}", kind.kind),
                        essence(&kind.kind, &object),
                    );
                }
            }
        }
        Ok(Self(all))
    }

    /// Fails unless everything is as it was.
    pub async fn ensure_is_back(&self, client: &Client) -> Result<()> {
        eventually("the cluster to be as it was", SETTLED, async || {
            let now = Self::take(client).await?;
            let gone = self.0.iter().filter(|(key, _)| !now.0.contains_key(*key));
            let others = now
                .0
                .iter()
                .filter(|(key, value)| self.0.get(*key) != Some(*value));
            let differences: Vec<_> = gone.chain(others).collect();
            ensure!(differences.is_empty(), "{differences:#?}");
            Ok(())
        })
        .await
    }
}

/// What must be as before: of a node all that was put onto it, of anything else that it is there.
fn essence(kind: &str, object: &DynamicObject) -> Value {
    if kind != "Node" {
        return Value::Null;
    }
    let mut annotations = object.annotations().clone();
    // The attach controller and the simulated kubelet write these.
    annotations.retain(|key, _| {
        !key.starts_with("node.alpha.kubernetes.io/") && !key.starts_with("volumes.kubernetes.io/")
    });
    json!({
        "labels": object.labels(),
        "annotations": annotations,
        "taints": object.data["spec"]["taints"],
        "unschedulable": object.data["spec"]["unschedulable"],
    })
}
