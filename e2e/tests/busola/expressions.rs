//! Every JSONata expression parses, names fields that there are, and gives something for some GpuModule.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use bumpalo::Bump;
use jsonata_rs::JsonAta;
use serde_json::Value;

use crate::extension::Extension;
use crate::jsonata::Scope;
use crate::samples::samples;
use crate::schema::{full, names, schema};

/// Parameters that are expressions.
const EXPRESSIONS: [&str; 7] = [
    "alert",
    "source",
    "visibility",
    "filter",
    "collapsibleTitle",
    "language",
    "link",
];

/// Words of the language.
const WORDS: [&str; 6] = ["and", "or", "in", "true", "false", "null"];

/// Names that are no fields of the GpuModule: of Events, and of objects that all have.
const OTHERS: [&str; 3] = ["metadata", "name", "kind"];

/// Functions and variables that the engine or the dashboard brings.
const KNOWN: [&str; 10] = [
    "root",
    "item",
    "value",
    "count",
    "exists",
    "join",
    "not",
    "sum",
    "matchEvents",
    "readableTimestampWithTime",
];

/// Every expression of the extension, with where it stands.
pub fn expressions(extension: &Extension) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for key in ["list", "details", "form"] {
        collect(extension.key(key), key, &mut found);
    }
    found
}

fn collect(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &format!("{path}/{at}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| *name != "properties") {
                let path = format!("{path}/{name}");
                match field {
                    Value::String(text) if is_expression(name, &path) => found.push((path, text.clone())),
                    Value::String(_) => {}
                    below => collect(below, &path, found),
                }
            }
        }
        _ => {}
    }
}

/// Rules of highlights and parts of a resource are expressions, too.
fn is_expression(name: &str, path: &str) -> bool {
    let is_rule = path.contains("/highlights/") && name != "type";
    EXPRESSIONS.contains(&name)
        || is_rule
        || path.contains("/resource/")
        || path.starts_with("list/") && name == "description"
}

/// An expression without its texts in quotes.
fn bare(expression: &str) -> String {
    expression.split('\'').step_by(2).collect::<Vec<_>>().join("''")
}

/// Names in an expression, with the sign before each.
fn tokens(expression: &str) -> Vec<(char, String)> {
    let mut tokens = Vec::new();
    let (mut before, mut name) = (' ', String::new());
    for letter in bare(expression).chars().chain([' ']) {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            name.push(letter);
            continue;
        }
        if !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) {
            tokens.push((before, std::mem::take(&mut name)));
        }
        name.clear();
        before = letter;
    }
    tokens
}

#[test]
fn every_expression_parses() -> Result<()> {
    let extension = Extension::read()?;
    let all = expressions(&extension);
    ensure!(all.len() > 100, "only {} expressions", all.len());
    for (path, expression) in all {
        let arena = Bump::new();
        let parsed = JsonAta::new(&expression, &arena);
        ensure!(parsed.is_ok(), "{path}: {expression}: {:?}", parsed.err());
        // The dashboard takes a-b for one name.
        let text = bare(&expression);
        let signs: Vec<_> = text.chars().collect();
        let is_name = |sign: char| sign.is_ascii_alphanumeric();
        let joined = signs
            .windows(3)
            .any(|three| three[1] == '-' && is_name(three[0]) && is_name(three[2]));
        ensure!(!joined, "{path}: spaces around the minus: {expression}");
        for sign in ['%', '@', '#', '~', '/', '^', '*', '`', '"'] {
            ensure!(
                !text.contains(sign),
                "{path}: {sign} is not the same in both engines: {expression}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_name_is_a_field_or_a_function() -> Result<()> {
    let extension = Extension::read()?;
    let mut fields = names(&schema()?);
    fields.extend(OTHERS.map(ToOwned::to_owned));
    for (path, expression) in expressions(&extension) {
        // What an expression defines itself: variables, and fields of objects that it makes.
        let made = expression.split('\'').skip(1).step_by(2);
        let made: BTreeSet<_> = made.map(ToOwned::to_owned).collect();
        for (sign, name) in tokens(&expression) {
            if sign == '$' {
                let is_defined = expression.contains(&format!("${name} :="));
                ensure!(
                    is_defined || KNOWN.contains(&name.as_str()),
                    "{path}: ${name} in {expression}"
                );
            } else {
                let is_known =
                    fields.contains(&name) || made.contains(&name) || WORDS.contains(&name.as_str());
                ensure!(is_known || name == "pool", "{path}: {name} in {expression}");
            }
        }
    }
    Ok(())
}

/// Paths from the top are followed in an object that has every field, so that a field in the wrong place is seen.
#[test]
fn every_path_from_the_top_leads_somewhere() -> Result<()> {
    let module = full(&schema()?);
    let scope = Scope::page(&module);
    let mut checked = 0;
    for (place, expression) in expressions(&Extension::read()?) {
        let text = bare(&expression).replace("$root.", "");
        let is_part = |sign: char| sign.is_ascii_alphanumeric() || sign == '.';
        for path in text.split(|sign| !is_part(sign)) {
            if path.starts_with("status.") || path.starts_with("spec.") {
                let path = path.trim_end_matches('.');
                ensure!(scope.evaluate(path)?.is_some(), "{place}: {path} in {expression}");
                checked += 1;
            }
        }
    }
    ensure!(checked > 60, "only {checked} paths");
    Ok(())
}

/// What is shown only sometimes is shown for some sample, and hidden for another.
#[test]
fn every_visibility_is_sometimes_true_and_sometimes_false() -> Result<()> {
    let samples = samples()?;
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, expression) in expressions(&Extension::read()?) {
        let is_about_the_module = path.starts_with("details/") && !expression.contains("$value");
        if !path.ends_with("/visibility") || !is_about_the_module {
            continue;
        }
        for (_, sample) in &samples {
            let found = Scope::page(sample).evaluate(&expression)?;
            seen.entry(expression.clone())
                .or_default()
                .insert(format!("{found:?}"));
        }
    }
    for (expression, found) in seen {
        // More worker pools than a status can name are in no sample.
        ensure!(
            found.len() == 2 || expression.contains("moreWorkerPools"),
            "{expression} is always {found:?}"
        );
    }
    Ok(())
}
