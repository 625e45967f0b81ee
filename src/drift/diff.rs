//! Where two versions of an object differ.

use std::collections::BTreeSet;

use serde_json::Value;

/// Metadata that the API server keeps itself.
const KEPT_BY_SERVER: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
];

/// Paths at which the objects differ, status and what the API server keeps aside; for a person to read.
pub fn differences(live: &Value, applied: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for key in keys(live, applied) {
        let (live, applied) = (&live[key], &applied[key]);
        match key {
            "status" => {}
            "metadata" => {
                let keys = keys(live, applied).into_iter();
                for key in keys.filter(|key| !KEPT_BY_SERVER.contains(key)) {
                    walk(&live[key], &applied[key], &format!("metadata.{key}"), &mut found);
                }
            }
            _ => walk(live, applied, key, &mut found),
        }
    }
    found
}

fn keys<'a>(a: &'a Value, b: &'a Value) -> BTreeSet<&'a str> {
    let keys = |value: &'a Value| value.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys(a).chain(keys(b)).map(String::as_str).collect()
}

fn walk(a: &Value, b: &Value, path: &str, found: &mut Vec<String>) {
    if a == b || (is_nothing(a) && is_nothing(b)) {
        return;
    }
    match (a, b) {
        (Value::Object(_), Value::Object(_)) => {
            for key in keys(a, b) {
                walk(&a[key], &b[key], &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (a, b)) in left.iter().zip(right).enumerate() {
                let item = b["name"]
                    .as_str()
                    .map_or_else(|| index.to_string(), ToOwned::to_owned);
                walk(a, b, &format!("{path}[{item}]"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// The API server leaves out what is empty, in one version of an object and not in another.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
