//! The DaemonSet controller, the scheduler and KWOK of a cluster in memory.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::json;

use super::{Memory, owner_uid};
use crate::simulated::view::{REVISION_HASH, annotation, is_ready, label};
use crate::simulated::{hash, names};

/// Pod annotation: the node that the DaemonSet controller made the Pod for.
const TARGET: &str = "memory/target";

impl Memory {
    /// Makes, replaces, binds and removes the Pods of all DaemonSets, and counts them.
    pub(super) fn run_daemon_sets(&mut self) -> Result<()> {
        for index in 0..self.view.daemon_sets.len() {
            let daemon_set = self.view.daemon_sets[index].clone();
            let uid = daemon_set.uid().unwrap_or_default();
            let revision = self.revision(&daemon_set, &uid);
            let nodes: Vec<String> = self
                .view
                .nodes
                .iter()
                .filter(|node| is_wanted_on(&daemon_set, node))
                .map(ResourceExt::name_any)
                .collect();
            let on_delete = strategy(&daemon_set) == Some("OnDelete");
            self.view.pods.retain(|pod| {
                owner_uid(pod) != Some(&uid)
                    || (annotation(pod, TARGET).is_some_and(|node| nodes.iter().any(|name| name == node))
                        && (on_delete || label(pod, REVISION_HASH) == Some(&revision)))
            });
            for node in &nodes {
                let is_there =
                    |pod: &Pod| owner_uid(pod) == Some(&uid) && annotation(pod, TARGET) == Some(node);
                if !self.view.pods.iter().any(is_there) {
                    let pod = self.new_pod(&daemon_set, &uid, &revision, node)?;
                    self.view.pods.push(pod);
                }
                if !self.is_kept_off(&daemon_set, node) {
                    let waiting = self.view.pods.iter_mut().filter(|pod| is_there(pod));
                    waiting.for_each(|pod| pod.spec.get_or_insert_default().node_name = Some(node.clone()));
                }
            }
            self.count(index, &uid, &revision, nodes.len())?;
        }
        Ok(())
    }

    /// A driver's Pod on the node keeps further ones off it, by anti-affinity.
    fn is_kept_off(&self, daemon_set: &DaemonSet, node: &str) -> bool {
        label(daemon_set, names::COMPONENT) == Some(names::DRIVER_COMPONENT)
            && self
                .view
                .pods_on(node, names::COMPONENT, names::DRIVER_COMPONENT)
                .next()
                .is_some()
    }

    fn revision(&mut self, daemon_set: &DaemonSet, uid: &str) -> String {
        let template = daemon_set
            .spec
            .as_ref()
            .map(|spec| json!(spec.template))
            .unwrap_or_default();
        let revision = hash::name_hash(&template.to_string());
        let owned =
            |found: &ControllerRevision| found.owner_references().iter().any(|owner| owner.uid == uid);
        let newest = self
            .view
            .revisions
            .iter()
            .filter(|found| owned(found))
            .max_by_key(|found| found.revision);
        if newest.is_none_or(|newest| label(newest, REVISION_HASH) != Some(&revision)) {
            let number = newest.map_or(0, |newest| newest.revision) + 1;
            let mut object = ControllerRevision {
                revision: number,
                ..ControllerRevision::default()
            };
            object.metadata.owner_references = Some(vec![owner(daemon_set, uid)]);
            object
                .labels_mut()
                .insert(REVISION_HASH.to_owned(), revision.clone());
            self.view.revisions.push(object);
        }
        revision
    }

    fn new_pod(&mut self, daemon_set: &DaemonSet, uid: &str, revision: &str, node: &str) -> Result<Pod> {
        let template = daemon_set
            .spec
            .as_ref()
            .map(|spec| spec.template.clone())
            .unwrap_or_default();
        let mut pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": template.spec }))?;
        pod.metadata = template.metadata.unwrap_or_default();
        pod.metadata.name = Some(self.next(&daemon_set.name_any()));
        pod.metadata.owner_references = Some(vec![owner(daemon_set, uid)]);
        pod.labels_mut()
            .insert(REVISION_HASH.to_owned(), revision.to_owned());
        pod.annotations_mut().insert(TARGET.to_owned(), node.to_owned());
        if annotation(&pod, names::HOLD).is_none() {
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"});
            pod.status = Some(serde_json::from_value(ready)?);
        }
        Ok(pod)
    }

    fn count(&mut self, index: usize, uid: &str, revision: &str, desired: usize) -> Result<()> {
        let pods: Vec<&Pod> = self
            .view
            .pods
            .iter()
            .filter(|pod| owner_uid(pod).is_some_and(|owner| owner == uid))
            .collect();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let updated = pods
            .iter()
            .filter(|pod| label(**pod, REVISION_HASH) == Some(revision))
            .count();
        let daemon_set = &mut self.view.daemon_sets[index];
        daemon_set.status = Some(serde_json::from_value(json!({
            "observedGeneration": daemon_set.metadata.generation,
            "currentNumberScheduled": pods.len(),
            "desiredNumberScheduled": desired,
            "updatedNumberScheduled": updated,
            "numberReady": ready,
            "numberAvailable": ready,
            "numberMisscheduled": 0,
        }))?);
        Ok(())
    }
}

fn strategy(daemon_set: &DaemonSet) -> Option<&str> {
    daemon_set
        .spec
        .as_ref()?
        .update_strategy
        .as_ref()?
        .type_
        .as_deref()
}

fn is_wanted_on(daemon_set: &DaemonSet, node: &Node) -> bool {
    let pod = daemon_set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let selector = pod.and_then(|pod| pod.node_selector.as_ref());
    selector
        .into_iter()
        .flatten()
        .all(|(key, value)| node.labels().get(key) == Some(value))
}

fn owner(daemon_set: &DaemonSet, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "DaemonSet".to_owned(),
        name: daemon_set.name_any(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
