//! Everything in a cluster, to be compared with what was there before.
//!
//! All that can be listed is taken, with all that is in it but for its status and what the API server counts. What may differ all the
//! same is written down in [`allowed`], each with its reason.

mod allowed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::wait::eventually;

/// How long Kubernetes may take to remove what belonged to something that is gone.
const SETTLED: Duration = Duration::from_secs(20);

/// Every object of a cluster by kind, namespace and name, with its content.
#[derive(Debug)]
pub struct Inventory(BTreeMap<String, Value>);

impl Inventory {
    /// Reads everything that can be listed.
    pub async fn take(client: &Client) -> Result<Self> {
        let discovery = Discovery::new(client.clone()).run().await?;
        let kinds = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources);
        let lists = kinds
            .filter(|(_, capabilities)| capabilities.supports_operation(verbs::LIST))
            .map(async |(kind, _)| list(client, &kind).await);
        let lists = try_join_all(lists).await?;
        Ok(Self(lists.into_iter().flatten().collect()))
    }

    /// What is other than before, one line each.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let gone = self.0.keys().filter(|key| !now.0.contains_key(*key));
        let mut found: Vec<_> = gone.map(|key| format!("{key} is gone")).collect();
        for (key, value) in &now.0 {
            match self.0.get(key) {
                None => found.push(format!("{key} is new")),
                Some(before) => {
                    let below = differences(value, before, "").into_iter();
                    found.extend(below.map(|difference| format!("{key}: {difference}")));
                }
            }
        }
        found
    }

    /// Waits until everything is as it was; fails with what is not.
    pub async fn ensure_is_back(&self, client: &Client) -> Result<()> {
        self.ensure_is_back_but_for(client, |_| false).await
    }

    /// The same, where somebody has changed what `expected` knows: it is given each line.
    pub async fn ensure_is_back_but_for(
        &self,
        client: &Client,
        expected: impl Fn(&str) -> bool,
    ) -> Result<()> {
        eventually("the cluster to be as it was", SETTLED, async || {
            let mut found = self.differences(&Self::take(client).await?);
            found.retain(|line| !expected(line));
            ensure!(found.is_empty(), "{found:#?}");
            Ok(())
        })
        .await
    }
}

/// The objects of one kind. A kind that has just gone has none.
async fn list(client: &Client, kind: &ApiResource) -> Result<Vec<(String, Value)>> {
    let api = Api::<DynamicObject>::all_with(client.clone(), kind);
    let objects = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut taken = Vec::new();
    for object in objects {
        let namespace = object.namespace().map(|name| name + "/").unwrap_or_default();
        let name = format!("{namespace}{}", object.name_any());
        if allowed::object(&kind.kind, &name).is_none() {
            let key = format!("{} {name}", kind.kind);
            taken.push((key, essence(&kind.kind, object)?));
        }
    }
    Ok(taken)
}

/// What must be as before.
fn essence(kind: &str, object: DynamicObject) -> Result<Value> {
    let mut essence = serde_json::to_value(object)?;
    essence["status"] = Value::Null;
    let metadata = &mut essence["metadata"];
    for counted in ["generation", "managedFields", "resourceVersion"] {
        metadata[counted] = Value::Null;
    }
    for place in ["annotations", "labels"] {
        if let Some(keys) = metadata[place].as_object_mut() {
            keys.retain(|key, _| allowed::key(kind, key).is_none());
        }
    }
    let taints = essence.pointer_mut("/spec/taints").and_then(Value::as_array_mut);
    for taint in taints.filter(|_| kind == "Node").into_iter().flatten() {
        // Kubernetes takes the taint of a cordon off and sets it again.
        taint["timeAdded"] = Value::Null;
    }
    Ok(essence)
}

/// Where an object differs from what it should be, one line each; `path` is where both are.
pub fn differences(live: &Value, wanted: &Value, path: &str) -> Vec<String> {
    match (live, wanted) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            let below = keys.into_iter();
            below
                .flat_map(|key| differences(&live[key], &wanted[key], &format!("{path}.{key}")))
                .collect()
        }
        _ if live == wanted => Vec::new(),
        _ => vec![format!("{path} is {live} instead of {wanted}")],
    }
}
