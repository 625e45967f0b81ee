//! Puts the module's finalizer onto the GpuModule and takes it off.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::api::{FIELD_MANAGER, FINALIZER, GpuModule};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

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
    let name = module.name_any();
    // The resourceVersion keeps a finalizer that somebody else has just added or removed from being undone.
    let patch = json!({ "metadata": {
        "resourceVersion": module.metadata.resource_version,
        "finalizers": finalizers,
    }});
    let modules = Api::<GpuModule>::all(client.clone());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let call = modules.patch_metadata(&name, &params, &patch);
    deadline(API_DEADLINE, format!("{verb} GpuModule {name}"), call)
        .await
        .map(|_| ())
}
