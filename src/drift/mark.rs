//! By what a watch sees that an object may have drifted, without its content.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::fields;
use crate::desired::digest;

/// Equal marks: nobody wrote the object, its status aside. Status updates and heartbeats leave it equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    uid: String,
    generation: Option<i64>,
    digest: String,
}

impl Mark {
    /// Reduces metadata. Kinds without a generation (ConfigMaps, roles) show a write in `managedFields` alone.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let writes: Vec<_> = metadata
            .managed_fields
            .iter()
            .flatten()
            .filter(|entry| fields::counts(entry.subresource.as_deref()))
            .collect();
        let rest = json!([
            metadata.labels,
            metadata.annotations,
            metadata.deletion_timestamp,
            writes
        ]);
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation,
            digest: digest([rest.to_string().as_bytes()]),
        }
    }
}
