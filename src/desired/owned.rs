//! What `spec.values` may not do.

use serde_json::{Map, Value};

use super::{Refusal, merge, path};

/// Refuses values that reach into a path that the module owns.
pub fn check<'a>(user: &Map<String, Value>, owned: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let mut touched = owned.filter_map(|owned| path::touched(user, owned));
    match touched.next() {
        Some(path) => Err(Refusal::OwnedValue {
            path: path.to_owned(),
        }),
        None => Ok(()),
    }
}

/// Refuses values that are neither at nor below one of the open paths. What is not named is locked, so a value that a later
/// chart brings is, too. Also a `null`, or anything else in place of a map, counts as a value: it would remove what is below.
pub fn check_open(user: &Map<String, Value>, open: &[String]) -> Result<(), Refusal> {
    match locked(user, open, "") {
        Some(path) => Err(Refusal::LockedValue {
            path,
            open: if open.is_empty() {
                "nothing".to_owned()
            } else {
                open.join(", ")
            },
        }),
        None => Ok(()),
    }
}

fn locked(values: &Map<String, Value>, open: &[String], at: &str) -> Option<String> {
    values.iter().find_map(|(key, value)| {
        let path = merge::below(at, key);
        let leads_to = |open: &String| open.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        match value {
            // No key of NVIDIA's charts has a dot; one that has could only pretend to lie below an open path.
            _ if key.contains('.') => Some(path),
            _ if open.contains(&path) => None,
            Value::Object(below) if open.iter().any(leads_to) => locked(below, open, &path),
            _ => Some(path),
        }
    })
}

/// Refuses template text in an object of `extraObjects`.
///
/// The chart runs `tpl` over those objects, so text in them is code that runs with the operator's rights: a
/// `{{ lookup }}` returned the content of a Secret when tried.
pub fn refuse_template_text(object: &Value) -> Result<(), Refusal> {
    match find_template_text(object, "NVIDIADriver") {
        Some(path) => Err(Refusal::TemplateText { path }),
        None => Ok(()),
    }
}

fn find_template_text(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains("{{").then(|| path.to_owned()),
        Value::Array(items) => items.iter().find_map(|item| find_template_text(item, path)),
        Value::Object(map) => map.iter().find_map(|(key, child)| {
            let below = format!("{path}.{}", key.replace("{{", "…"));
            if key.contains("{{") {
                Some(below)
            } else {
                find_template_text(child, &below)
            }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_open_may_be_set() {
        let check = |values: Value, open: &[&str]| {
            let open: Vec<_> = open.iter().map(ToString::to_string).collect();
            let checked = check_open(values.as_object().unwrap(), &open);
            checked.map_err(|refusal| refusal.to_string())
        };
        let paths = ["operator.logging", "mig"];
        for values in [
            json!({}),
            json!({ "mig": { "strategy": "mixed" } }),
            json!({ "mig": null, "operator": { "logging": { "level": "debug" } } }),
            json!({ "operator": {} }),
        ] {
            assert_eq!(check(values.clone(), &paths), Ok(()), "{values}");
        }
        for (values, path) in [
            (json!({ "migManager": {} }), "migManager"),
            (json!({ "operator": null }), "operator"),
            (json!({ "operator": "all" }), "operator"),
            (
                json!({ "operator": { "image": "x", "logging": {} } }),
                "operator.image",
            ),
            (json!({ "operator": { "loggings": {} } }), "operator.loggings"),
            (json!({ "operator.logging": {} }), "operator.logging"),
            (
                json!({ "operator": { "logging.level": 1 } }),
                "operator.logging.level",
            ),
        ] {
            assert_eq!(
                check(values, &paths).unwrap_err(),
                format!(
                    "spec.values.{path} is locked by the operator, which leaves operator.logging, mig open, remove it from \
                     spec.values"
                )
            );
        }
        let refused = check(json!({ "mig": {} }), &[]).unwrap_err();
        assert!(refused.contains("leaves nothing open"), "{refused}");
    }
}
