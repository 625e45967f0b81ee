//! What `spec.values` may not do.

use serde_json::{Map, Value};

use super::{Refusal, path};

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
