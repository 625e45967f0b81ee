//! Notes on the GpuModule that its removal has begun, and what has to be known later.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::api::{ANNOTATION_REMOVAL, FIELD_MANAGER, GpuModule};
use crate::facts::Removal;
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Writes the annotation. The UID keeps it off another GpuModule of the same name.
pub async fn begin(client: &Client, module: &GpuModule, removal: &Removal) -> Result<(), ApiError> {
    let name = module.name_any();
    let note = serde_json::to_string(removal).unwrap_or_default();
    let patch = json!({ "metadata": {
        "uid": module.uid(),
        "annotations": { ANNOTATION_REMOVAL: note },
    }});
    let modules = Api::<GpuModule>::all(client.clone());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(&patch);
    let call = modules.patch_metadata(&name, &params, &patch);
    let written = deadline(
        API_DEADLINE,
        format!("note the removal on GpuModule {name}"),
        call,
    )
    .await;
    // Gone meanwhile: nothing keeps it from that then.
    found(written).map(|_| ())
}
