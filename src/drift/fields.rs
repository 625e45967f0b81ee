//! Sets of fields in the form of `managedFields` (`fieldsV1`): a tree whose keys are `f:<field>`, `k:<keys of a list's item>`,
//! `v:<value>` or `i:<index>`; a node without children, or with the key `.`, is itself in the set.

use serde_json::{Map, Value};

/// Whether what is written through a subresource counts as a write of the object. Scaling does: it changes the spec.
pub fn counts(subresource: Option<&str>) -> bool {
    matches!(subresource, None | Some("" | "scale"))
}

/// What is in `set` and not in `other`. A node that both have is compared by its children.
pub fn without(set: &Value, other: &Value) -> Value {
    let children = set.as_object().into_iter().flatten();
    let left = children.filter_map(|(key, child)| match other.get(key) {
        None => Some((key.clone(), child.clone())),
        // Who owns the whole owns what is below.
        Some(Value::Object(below)) if below.is_empty() => None,
        Some(below) => {
            let left = without(child, below);
            (!is_empty(&left)).then(|| (key.clone(), left))
        }
    });
    // The parent is there anyway: both have it.
    Value::Object(left.filter(|(key, _)| key != ".").collect())
}

/// What is in either.
pub fn union(set: &Value, other: &Value) -> Value {
    let mut union = set.as_object().cloned().unwrap_or_default();
    for (key, child) in other.as_object().into_iter().flatten() {
        let merged = match union.get(key) {
            Some(own) => self::union(own, child),
            None => child.clone(),
        };
        union.insert(key.clone(), merged);
    }
    Value::Object(union)
}

/// `set` without every member of `other`; a node goes with its last member.
pub fn remove(set: &Value, other: &Value) -> Value {
    let mut left = Map::new();
    for (key, child) in set.as_object().into_iter().flatten() {
        match other.get(key) {
            None => {
                left.insert(key.clone(), child.clone());
            }
            Some(gone) => {
                let child = remove(child, gone);
                if !is_empty(&child) {
                    left.insert(key.clone(), child);
                }
            }
        }
    }
    Value::Object(left)
}

/// Without the parts that are not the release's business.
pub fn of_interest(set: &Value, kind: &str) -> Value {
    let mut set = set.as_object().cloned().unwrap_or_default();
    set.retain(|key, _| match key.as_str() {
        "f:metadata" | "f:status" | "f:apiVersion" | "f:kind" => false,
        // Written by controllers that hand out credentials for registries, and needed where they run.
        "f:secrets" | "f:imagePullSecrets" => kind != "ServiceAccount",
        _ => true,
    });
    if let Some(spec) = set.get_mut("f:spec") {
        strip_template(spec);
        if is_empty(spec) {
            set.remove("f:spec");
        }
    }
    Value::Object(set)
}

/// Takes labels and annotations of a Pod template out.
fn strip_template(spec: &mut Value) {
    let Some(template) = spec.get_mut("f:template") else {
        return;
    };
    if let Some(metadata) = template.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.remove("f:labels");
        metadata.remove("f:annotations");
        metadata.remove(".");
    }
    prune(template, "f:metadata");
    prune(spec, "f:template");
}

fn prune(parent: &mut Value, key: &str) {
    if parent.get(key).is_some_and(is_empty)
        && let Some(parent) = parent.as_object_mut()
    {
        parent.remove(key);
    }
}

/// What both have, by paths.
pub fn common(set: &Value, other: &Value) -> Value {
    let children = set.as_object().into_iter().flatten();
    let common = children.filter_map(|(key, child)| {
        let both = other.get(key)?;
        if is_empty(child) || is_empty(both) {
            return Some((key.clone(), Value::Object(Map::new())));
        }
        let below = common(child, both);
        (!is_empty(&below)).then(|| (key.clone(), below))
    });
    Value::Object(common.filter(|(key, _)| key != ".").collect())
}

/// True for a set without members.
pub fn is_empty(set: &Value) -> bool {
    set.as_object().is_none_or(Map::is_empty)
}

/// The topmost members as paths for a person to read.
pub fn paths(set: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(set, "", &mut found);
    found
}

fn walk(node: &Value, path: &str, found: &mut Vec<String>) {
    let children = node.as_object().into_iter().flatten();
    for (key, child) in children.filter(|(key, _)| *key != ".") {
        let path = join(path, key);
        if is_empty(child) || child.get(".").is_some() {
            found.push(path);
        } else {
            walk(child, &path, found);
        }
    }
}

fn join(path: &str, key: &str) -> String {
    match key.split_once(':') {
        Some(("f", field)) if path.is_empty() => field.to_owned(),
        Some(("f", field)) => format!("{path}.{field}"),
        Some(("k", item)) => {
            let keys: Map<String, Value> = serde_json::from_str(item).unwrap_or_default();
            let word = |value: &Value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), ToOwned::to_owned)
            };
            let words: Vec<_> = keys.values().map(word).collect();
            format!("{path}[{}]", words.join(","))
        }
        Some((_, item)) => format!("{path}[{item}]"),
        None => path.to_owned(),
    }
}
