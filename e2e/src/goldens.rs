//! The specs with which every typed field is tried: one list for the operator's goldens and for the tests on real charts and a
//! real API server.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

/// A spec per field, by the field's name.
pub fn fields() -> Result<BTreeMap<String, Value>> {
    Ok(serde_saphyr::from_str(include_str!(
        "../../src/desired/tests/fields.yaml"
    ))?)
}

/// The specs of all fields merged.
pub fn every_field() -> Result<Value> {
    let mut spec = json!({});
    for field in fields()?.values() {
        json_patch::merge(&mut spec, field);
    }
    // A ServiceMonitor needs the exporter, and each of the two has a spec of its own.
    spec["monitoring"]["dcgmExporter"] = true.into();
    Ok(spec)
}
