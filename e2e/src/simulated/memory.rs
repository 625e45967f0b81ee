//! A cluster in memory, on which the simulated operator can be tested without a server.
//!
//! It stands in for the API server, the DaemonSet controller, the scheduler and KWOK, as far as the
//! operator sees them: DaemonSets get Pods, revisions and counts, Pods without the hold annotation are
//! ready at once. Nothing takes time; [`Memory::settle`] goes on until nothing changes any more.

mod daemon_sets;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Change, Faults, Kind, Moment, View, plan};

/// Rounds after which [`Memory::settle`] gives up.
const ROUNDS: usize = 60;

/// The cluster.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What the operator sees.
    pub view: View,
    /// Objects that the operator applied, other than DaemonSets, by kind and name.
    pub objects: BTreeMap<(Kind, String), Value>,
    /// All changes made so far, in order.
    pub log: Vec<Change>,
    serial: u32,
}

impl Memory {
    /// Plans and applies until the plan is empty, with the upgrade controller looking each time.
    ///
    /// # Errors
    /// If the cluster never comes to rest, or a change does not fit an object.
    pub fn settle(&mut self, faults: &Faults) -> Result<()> {
        self.settle_with(faults, true)
    }

    /// The same, with a say in whether the upgrade controller looks at the driver Pods.
    ///
    /// # Errors
    /// If the cluster never comes to rest, or a change does not fit an object.
    pub fn settle_with(&mut self, faults: &Faults, tick: bool) -> Result<()> {
        for _ in 0..ROUNDS {
            if !self.round(faults, tick)? {
                return Ok(());
            }
        }
        bail!(
            "The simulated cluster still changed after {ROUNDS} rounds; last: {:?}",
            self.log.last()
        )
    }

    /// One plan, its changes and what the cluster makes of them; says whether anything changed.
    ///
    /// # Errors
    /// If a change does not fit an object.
    pub fn round(&mut self, faults: &Faults, tick: bool) -> Result<bool> {
        self.run_daemon_sets()?;
        let moment = Moment {
            now: Timestamp::UNIX_EPOCH,
            tick,
            prune: false,
        };
        let known = &self.objects;
        let changes: Vec<Change> = plan(&self.view, faults, moment)
            .into_iter()
            .filter(|change| match change {
                Change::Apply { kind, object } => known.get(&(*kind, name_in(object))) != Some(object),
                _ => true,
            })
            .collect();
        for change in &changes {
            self.apply(change)
                .with_context(|| format!("The change does not fit: {change:?}"))?;
        }
        let any = !changes.is_empty();
        self.log.extend(changes);
        self.run_daemon_sets()?;
        Ok(any)
    }

    fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Apply {
                kind: Kind::DaemonSet,
                object,
            } => self.apply_daemon_set(object)?,
            Change::Apply { kind, object } => {
                self.objects.insert((*kind, name_in(object)), object.clone());
            }
            Change::Delete { name, orphan, .. } => {
                let Some(gone) = self.view.daemon_set(name).and_then(ResourceExt::uid) else {
                    return Ok(());
                };
                self.view
                    .daemon_sets
                    .retain(|daemon_set| daemon_set.uid().as_ref() != Some(&gone));
                if *orphan {
                    let owned = self
                        .view
                        .pods
                        .iter_mut()
                        .filter(|pod| owner_uid(pod) == Some(&gone));
                    owned.for_each(|pod| pod.metadata.owner_references = None);
                } else {
                    self.view.pods.retain(|pod| owner_uid(pod) != Some(&gone));
                }
            }
            Change::DeletePod { name } => self.view.pods.retain(|pod| &pod.name_any() != name),
            Change::Node { name, patch } | Change::NodeStatus { name, patch } => {
                merge_into(&mut self.view.nodes, name, patch)?;
            }
            Change::PodStatus { name, patch } => merge_into(&mut self.view.pods, name, patch)?,
            Change::Status {
                kind: Kind::ClusterPolicy,
                name,
                patch,
            } => {
                merge_into(&mut self.view.cluster_policies, name, patch)?;
            }
            Change::Status { name, patch, .. } => merge_into(&mut self.view.nvidia_drivers, name, patch)?,
        }
        Ok(())
    }

    fn apply_daemon_set(&mut self, object: &Value) -> Result<()> {
        let mut wanted: DaemonSet = serde_json::from_value(object.clone())?;
        let name = wanted.name_any();
        if let Some(found) = self
            .view
            .daemon_sets
            .iter_mut()
            .find(|found| found.name_any() == name)
        {
            let generation = found.metadata.generation.unwrap_or_default();
            let changed = i64::from(found.spec != wanted.spec);
            wanted.metadata.uid = found.uid();
            wanted.metadata.generation = Some(generation + changed);
            wanted.status = found.status.take();
            *found = wanted;
        } else {
            wanted.metadata.uid = Some(self.next("daemon-set"));
            wanted.metadata.generation = Some(1);
            self.view.daemon_sets.push(wanted);
            self.view.daemon_sets.sort_by_key(ResourceExt::name_any);
        }
        Ok(())
    }

    fn next(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}-{}", self.serial)
    }
}

fn owner_uid(pod: &Pod) -> Option<&String> {
    pod.metadata
        .owner_references
        .as_ref()?
        .first()
        .map(|owner| &owner.uid)
}

fn name_in(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn merge_into<K>(objects: &mut [K], name: &str, patch: &Value) -> Result<()>
where
    K: kube::Resource + Serialize + DeserializeOwned,
{
    let object = objects
        .iter_mut()
        .find(|object| object.meta().name.as_deref() == Some(name))
        .with_context(|| format!("There is no {name} in the simulated cluster."))?;
    let mut value = serde_json::to_value(&*object)?;
    json_patch::merge(&mut value, patch);
    *object = serde_json::from_value(value)?;
    Ok(())
}
