//! Renders the CRD that `crds/` holds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
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
    schemas.for_each(|schema| {
        let_spec_be_absent(schema);
        walk(schema, &mut leave_out_unknown_formats);
        if let Some(spec) = schema
            .properties
            .as_mut()
            .and_then(|properties| properties.get_mut("spec"))
        {
            walk(spec, &mut take_null_for_absent);
        }
    });
    crd
}

/// Changes a schema and all below it.
fn walk(schema: &mut JSONSchemaProps, change: &mut dyn FnMut(&mut JSONSchemaProps)) {
    change(schema);
    for child in schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
    {
        walk(child, change);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        walk(items, change);
    }
}

/// The API server does not know Rust's unsigned numbers, and warns everybody who applies the CRD. Their bounds are in `minimum`.
fn leave_out_unknown_formats(schema: &mut JSONSchemaProps) {
    schema.format.take_if(|format| format.starts_with("uint"));
}

/// Null in a field that holds no object is dropped by the API server then. A field that may be null would keep it, and be refused
/// where it has a closed set of values.
///
/// Objects stay nullable: server-side apply makes one null whose last field is taken back.
fn take_null_for_absent(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() != Some("object") {
        schema.nullable = None;
        if let Some(values) = &mut schema.enum_ {
            values.retain(|value| !value.0.is_null());
        }
    }
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
