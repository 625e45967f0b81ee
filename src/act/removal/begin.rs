//! Notes on the GpuModule that its removal has begun, and what has to be known later.

use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::act::module;
use crate::api::{ANNOTATION_REMOVAL, GpuModule};
use crate::facts::Removal;
use crate::kube_api::{ApiError, found};

/// Writes the annotation. The UID keeps it off another GpuModule of the same name.
pub async fn begin(client: &Client, gpu_module: &GpuModule, removal: &Removal) -> Result<(), ApiError> {
    let note = serde_json::to_string(removal).unwrap_or_default();
    let patch = json!({ "metadata": {
        "uid": gpu_module.uid(),
        "annotations": { ANNOTATION_REMOVAL: note },
    }});
    let written = module::patch(client, gpu_module, &patch, "note the removal on").await;
    // Gone meanwhile: nothing keeps it from that then.
    found(written).map(|_| ())
}
