//! The CRD: which fields there are, and an object that has all of them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::extension::array;

/// Schema of the GpuModule.
pub fn schema() -> Result<Value> {
    let crd = serde_json::to_value(gpu_manager::crds::crd())?;
    let schema = crd.pointer("/spec/versions/0/schema/openAPIV3Schema");
    schema.cloned().context("no schema")
}

/// The schema of a field; `[]` goes into a list.
pub fn field(schema: &Value, path: &str) -> Option<Value> {
    let spaced = path.replace("[]", ".[]");
    let mut steps = spaced.split('.').filter(|step| !step.is_empty());
    let found = steps.try_fold(schema, |schema, step| match step {
        "[]" => schema.get("items"),
        name => schema.get("properties")?.get(name),
    });
    found.cloned()
}

/// Names of all fields in it.
pub fn names(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(schema, &mut names);
    names
}

fn collect(schema: &Value, names: &mut BTreeSet<String>) {
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        names.insert(name.clone());
        collect(field, names);
    }
    if let Some(items) = schema.get("items") {
        collect(items, names);
    }
}

/// Paths of all fields that are no objects with fields of their own, as [`field`] takes them.
pub fn leaves(schema: &Value, path: &str) -> Vec<String> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let below = properties.iter().flat_map(|(name, field)| {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            leaves(field, &path)
        });
        return below.collect();
    }
    match schema.get("items") {
        Some(items) => leaves(items, &format!("{path}[]")),
        None => vec![path.to_owned()],
    }
}

/// An object with every field that the schema has.
pub fn full(schema: &Value) -> Value {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let fields = properties.iter().map(|(name, field)| (name.clone(), full(field)));
        return Value::Object(fields.collect::<Map<_, _>>());
    }
    if let Some(items) = schema.get("items") {
        return json!([full(items)]);
    }
    if let Some(one) = array(&schema["enum"]).first() {
        return one.clone();
    }
    match schema["type"].as_str() {
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        _ => json!("text"),
    }
}

/// What a value has that the schema does not allow, as far as types, lists of words, required fields and names tell.
pub fn faults(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let words = array(&schema["enum"]);
    if !words.is_empty() && !words.contains(value) {
        return vec![format!("{path}: {value} is none of {words:?}")];
    }
    let is_of_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !is_of_type {
        return vec![format!("{path}: {value} is not of type {}", schema["type"])];
    }
    match value {
        Value::Object(fields) => in_object(schema, fields, path),
        Value::Array(items) => {
            let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
            let many = (items.len() as u64 > most).then(|| format!("{path}: more than {most}"));
            let items = items
                .iter()
                .flat_map(|item| faults(&schema["items"], item, &format!("{path}[]")));
            items.chain(many).collect()
        }
        Value::String(text) => {
            let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
            let long = text.chars().count() as u64 > most;
            long.then(|| format!("{path}: longer than {most}"))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

fn in_object(schema: &Value, fields: &Map<String, Value>, path: &str) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required = array(&schema["required"]).iter().filter_map(Value::as_str);
    let missing = required.filter(|name| !fields.contains_key(*name));
    let mut faults: Vec<_> = missing.map(|name| format!("{path}.{name} is missing")).collect();
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match properties.get(name) {
            Some(schema) => faults.extend(self::faults(schema, value, &path)),
            None => faults.push(format!("{path} is unknown")),
        }
    }
    faults
}
