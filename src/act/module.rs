//! Changes the metadata of the GpuModule itself.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::api::{FIELD_MANAGER, GpuModule};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};

/// Applies a merge patch to its metadata; `verb` says what for, as in "add the finalizer to".
pub(super) async fn patch(
    client: &Client,
    module: &GpuModule,
    patch: &Value,
    verb: &str,
) -> Result<(), ApiError> {
    let name = module.name_any();
    let modules = Api::<GpuModule>::all(client.clone());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let call = modules.patch_metadata(&name, &params, &patch);
    deadline(API_DEADLINE, format!("{verb} GpuModule {name}"), call)
        .await
        .map(|_| ())
}
