//! Puts the module's finalizer onto the GpuModule and takes it off.

use kube::{Client, ResourceExt};
use serde_json::json;

use crate::api::{FINALIZER, GpuModule};
use crate::kube_api::{ApiError, found};

pub async fn add(client: &Client, module: &GpuModule) -> Result<(), ApiError> {
    let mut finalizers = module.finalizers().to_vec();
    finalizers.push(FINALIZER.to_owned());
    set(client, module, finalizers, "add the finalizer to").await
}

pub async fn remove(client: &Client, module: &GpuModule) -> Result<(), ApiError> {
    let finalizers = module
        .finalizers()
        .iter()
        .filter(|name| *name != FINALIZER)
        .cloned()
        .collect();
    // Gone is what was wanted.
    found(set(client, module, finalizers, "remove the finalizer from").await).map(|_| ())
}

async fn set(
    client: &Client,
    module: &GpuModule,
    finalizers: Vec<String>,
    verb: &str,
) -> Result<(), ApiError> {
    // The resourceVersion keeps a finalizer that somebody else has just added or removed from being undone.
    let patch = json!({ "metadata": {
        "resourceVersion": module.metadata.resource_version,
        "finalizers": finalizers,
    }});
    super::module::patch(client, module, &patch, verb).await
}
