//! The reference of the GpuModule: one row for each field of the CRD, between two markers of a page that people write.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use gpu_manager::crds::crd;
use serde_json::Value;

use super::Generated;
use crate::tools::repository_root;

const PAGE: &str = "docs/user/resources/06-10-gpumodule-cr.md";
const START: &str = "<!-- TABLE-START -->";
const END: &str = "<!-- TABLE-END -->";

/// The page as it is, with tables that fit the CRD.
pub fn page() -> Result<Generated> {
    let text = fs::read_to_string(repository_root().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let (before, rest) = text
        .split_once(START)
        .with_context(|| format!("{PAGE} lacks {START}"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{PAGE} lacks {END}"))?;
    Ok(Generated {
        path: PAGE.into(),
        content: format!("{before}{START}\n\n{}\n{END}{after}", tables()?),
    })
}

fn tables() -> Result<String> {
    let crd = serde_json::to_value(crd())?;
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut text = String::new();
    for part in ["spec", "status"] {
        let mut rows = vec![];
        fields(&schema["properties"][part], part, &mut rows);
        write!(
            text,
            "**{}**\n\n| field | type | meaning |\n| --- | --- | --- |\n",
            capital(part)
        )?;
        for row in rows {
            writeln!(text, "{row}")?;
        }
        text.push('\n');
    }
    let mut rules = vec![];
    refusals(schema, &mut rules);
    text.push_str("**What the API server refuses**\n\n");
    for rule in rules {
        writeln!(text, "- {}", escaped(&rule))?;
    }
    Ok(text)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A row for each field that holds no further ones. Conditions are Kubernetes' own and have pages of their own.
fn fields(schema: &Value, path: &str, rows: &mut Vec<String>) {
    let (below, path) = match schema["items"]["properties"].as_object() {
        Some(items) if path != "status.conditions" => (Some(items), format!("{path}[]")),
        _ => (schema["properties"].as_object(), path.to_owned()),
    };
    match below.filter(|below| !below.is_empty()) {
        Some(below) => {
            for (name, schema) in below {
                fields(schema, &format!("{path}.{name}"), rows);
            }
        }
        None => rows.push(format!("| `{path}` | {} | {} |", kind(schema), meaning(schema))),
    }
}

fn meaning(schema: &Value) -> String {
    escaped(schema["description"].as_str().unwrap_or_default())
}

/// Text of the source as text of a table.
fn escaped(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|").replace('<', "\\<")
}

/// What the field holds, with its bounds.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter(|value| !value.is_null());
        let words: Vec<_> = values
            .map(|value| {
                format!(
                    "`{}`",
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), ToOwned::to_owned)
                )
            })
            .collect();
        return words.join(", ");
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    match schema["type"].as_str() {
        Some("integer") => format!("number{}", bounds(schema)),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("array") => match schema["maxItems"].as_u64() {
            Some(most) => format!("list, at most {most}"),
            None => "list".to_owned(),
        },
        Some("object") => "object".to_owned(),
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        _ => "text".to_owned(),
    }
}

fn bounds(schema: &Value) -> String {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        _ => String::new(),
    }
}

/// The messages of all rules, those of the outer objects first.
fn refusals(schema: &Value, found: &mut Vec<String>) {
    let rules = schema["x-kubernetes-validations"].as_array();
    for message in rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["message"].as_str())
    {
        if !found.iter().any(|known| known == message) {
            found.push(message.to_owned());
        }
    }
    let below = schema["properties"].as_object();
    for schema in below.into_iter().flatten().map(|(_, schema)| schema) {
        refusals(schema, found);
    }
    if schema["items"].is_object() {
        refusals(&schema["items"], found);
    }
}
