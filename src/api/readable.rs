//! What can be read of a GpuModule that this version cannot read as a whole, for example after a downgrade of the module.
//!
//! A removal needs no more of it: what the status has recorded, and what the user wishes of the removal. Each part is taken by itself,
//! so that one that is unknown here takes no other with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DeletionSpec, GpuModule, GpuModuleSpec, GpuModuleStatus, GpuNodesStatus, State};

impl GpuModule {
    /// Metadata, `spec.deletion` and `status` of that object, as far as they can be read.
    pub fn readable(metadata: ObjectMeta, object: &Value) -> Self {
        let deletion = &object["spec"]["deletion"];
        let deletion = DeletionSpec {
            workloads: Option::deserialize(&deletion["workloads"]).unwrap_or_default(),
            crds: Option::deserialize(&deletion["crds"]).unwrap_or_default(),
        };
        Self {
            metadata,
            spec: GpuModuleSpec {
                deletion: Some(deletion),
                ..GpuModuleSpec::default()
            },
            status: GpuModuleStatus::readable(&object["status"]),
        }
    }
}

impl GpuModuleStatus {
    /// A status that says nothing.
    pub fn blank() -> Self {
        Self {
            state: State::Warning,
            description: String::new(),
            observed_generation: 0,
            conditions: Vec::new(),
            release: None,
            adoption: None,
            driver: None,
            node_feature_discovery: None,
            gpu_nodes: GpuNodesStatus::new(0, 0),
            worker_pools: Vec::new(),
            more_worker_pools: 0,
            history: Vec::new(),
            next_attempt: None,
            last_handled_reconcile_at: None,
        }
    }

    /// The fields that can be read, and of lists the entries; `None` where there is no status.
    fn readable(status: &Value) -> Option<Self> {
        let mut kept = json!(Self::blank());
        for (field, said) in status.as_object()? {
            let fits = |said: &Value| {
                let mut with = kept.clone();
                with[field] = said.clone();
                Self::deserialize(&with).is_ok()
            };
            if fits(said) {
                kept[field] = said.clone();
            } else if let Some(entries) = said.as_array() {
                let entries = entries.iter().filter(|entry| fits(&json!([entry])));
                kept[field] = entries.cloned().collect();
            }
        }
        Self::deserialize(kept).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{DeletionCrds, DeletionWorkloads, OperationKind};

    #[test]
    fn each_part_is_read_by_itself() {
        let done = |operation| json!({ "time": "2026-01-01T00:00:00Z", "operation": operation, "outcome": "Succeeded", "message": "" });
        let release = json!({ "name": "gpu-operator", "namespace": "gpu-operator", "chartVersion": "26.7.0",
            "appVersion": "v26.7.0", "revision": 4, "valuesDigest": "d" });
        let mut object = json!({
            "spec": { "driver": { "mode": "Later" }, "deletion": { "workloads": "Ignore", "crds": "Later" } },
            "status": { "state": "Later", "release": release, "gpuNodes": 2, "history": [done("Later"), done("Upgrade")] },
        });
        let module = GpuModule::readable(ObjectMeta::default(), &object);
        assert_eq!(module.spec.deletion_workloads(), DeletionWorkloads::Ignore);
        assert_eq!(module.spec.deletion_crds(), DeletionCrds::Keep);
        let status = module.status.unwrap();
        assert_eq!(status.release.unwrap().revision, 4);
        assert_eq!((status.state, status.gpu_nodes.total), (State::Warning, 0));
        let history: Vec<_> = status.history.iter().map(|entry| entry.operation).collect();
        assert_eq!(history, [OperationKind::Upgrade]);

        object["spec"]["deletion"] = json!({ "workloads": "Later", "crds": "Delete" });
        object["status"] = Value::Null;
        let module = GpuModule::readable(ObjectMeta::default(), &object);
        assert_eq!(module.spec.deletion_workloads(), DeletionWorkloads::Block);
        assert_eq!(module.spec.deletion_crds(), DeletionCrds::Delete);
        assert_eq!(module.status, None);
    }
}
