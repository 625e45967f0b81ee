//! `spec.images`: where images are pulled from.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::bounded::{object_names, registry_path};

/// Where images are pulled from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagesSpec {
    /// Registry, with or without a path, that takes the place of nvcr.io, registry.k8s.io and ghcr.io in every image of the stack;
    /// the rest of each name stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "registry_path")]
    pub registry: Option<String>,

    /// Names of Secrets in namespace gpu-operator with credentials for the registry, at most 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "object_names")]
    pub pull_secrets: Vec<String>,
}
