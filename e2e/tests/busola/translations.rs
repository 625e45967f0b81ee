//! Every text has its translation, and every translation its text.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::extension::Extension;

/// Parameters whose value is a translation key.
const KEYS: [&str; 4] = ["name", "placeholder", "inputInfo", "title"];

/// All keys of the English texts.
fn there(tree: &Value, path: &str, keys: &mut BTreeSet<String>) {
    for (name, below) in tree.as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        match below {
            Value::String(text) => {
                assert!(!text.trim().is_empty(), "{path} is empty");
                keys.insert(path);
            }
            below => there(below, &path, keys),
        }
    }
}

/// All keys that the pages name.
fn used(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| used(item, keys)),
        Value::Object(fields) => {
            // The CRD's schema in the form has names of its own.
            for (name, field) in fields.iter().filter(|(name, _)| *name != "properties") {
                match field.as_str() {
                    // The name of a link's target is an expression.
                    Some(text) if KEYS.contains(&name.as_str()) && !text.starts_with('$') => {
                        keys.insert(text.to_owned());
                    }
                    // An expression may give a key: a text in quotes that looks like one.
                    Some(text) => keys.extend(quoted(text)),
                    None => used(field, keys),
                }
            }
        }
        _ => {}
    }
}

fn quoted(expression: &str) -> impl Iterator<Item = String> + '_ {
    let texts = expression.split('\'').skip(1).step_by(2);
    let is_key = |text: &&str| {
        text.contains('.')
            && text
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '.')
    };
    texts.filter(is_key).map(ToOwned::to_owned)
}

#[test]
fn translations_and_texts_are_the_same() -> Result<()> {
    let extension = Extension::read()?;
    // The title of the pages, which the dashboard looks for itself.
    let mut used = BTreeSet::from(["name".to_owned()]);
    for page in ["list", "details", "form"] {
        self::used(extension.key(page), &mut used);
    }
    for pointer in ["/general/description", "/presets/0/name"] {
        let (key, rest) = pointer[1..].split_once('/').unwrap();
        let found = extension
            .key(key)
            .pointer(&format!("/{rest}"))
            .and_then(Value::as_str);
        used.extend(found.map(ToOwned::to_owned));
    }
    let mut there = BTreeSet::new();
    self::there(&extension.key("translations")["en"], "", &mut there);
    let missing: Vec<_> = used.difference(&there).collect();
    ensure!(missing.is_empty(), "no English text for {missing:?}");
    let idle: Vec<_> = there.difference(&used).collect();
    ensure!(idle.is_empty(), "nothing shows {idle:?}");
    Ok(())
}
