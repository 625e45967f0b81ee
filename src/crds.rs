//! Renders the CRD that `crds/` holds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::api::GpuModule;

/// The CRD of [`GpuModule`].
pub fn crd() -> CustomResourceDefinition {
    let mut crd = GpuModule::crd();
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| {
        let schema = version.schema.as_mut()?;
        schema.open_api_v3_schema.as_mut()
    });
    schemas.for_each(let_spec_be_absent);
    crd
}

/// A spec that is absent or null becomes the empty one, which chooses nothing and so freezes no choice.
///
/// Server-side apply needs it: where a manager takes back the last fields of the spec by applying `spec: {}`, the API
/// server makes it null, and would then refuse its own result.
fn let_spec_be_absent(schema: &mut JSONSchemaProps) {
    let properties = schema.properties.iter_mut().flatten();
    for (_, spec) in properties.filter(|(name, _)| *name == "spec") {
        spec.default = Some(JSON(json!({})));
    }
    schema.required = None;
}

/// The CRD as YAML.
pub fn render() -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(&crd())
}
