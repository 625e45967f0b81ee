//! Line breaks in `spec.values`.
//!
//! NVIDIA's charts write most texts into their templates as they are, without quotes. The lines after the first one are then
//! YAML of their own: `---` and an object below it made a privileged Pod out of `mig.strategy` when tried. So a text has one
//! line, but for the configuration files of the catalogue's `multilineValues`, which the charts indent or quote.

use serde_json::{Map, Value};

use super::{Refusal, merge};

/// What YAML takes for the end of a line.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// Refuses line breaks in texts and keys. At and below `multiline` a line feed may stand, by which charts indent.
pub fn check(user: &Map<String, Value>, multiline: &[String]) -> Result<(), Refusal> {
    match in_map(user, multiline, "", false) {
        Some(path) => Err(Refusal::LineBreak { path }),
        None => Ok(()),
    }
}

/// The path at or below which there is a line break.
fn in_map(values: &Map<String, Value>, multiline: &[String], at: &str, in_file: bool) -> Option<String> {
    values.iter().find_map(|(key, value)| {
        if breaks(key, in_file) {
            return Some(at.to_owned());
        }
        let path = merge::below(at, key);
        // A key with a dot could only pretend to lie at the path of a configuration file.
        let in_file = in_file || (!key.contains('.') && multiline.contains(&path));
        in_value(value, multiline, &path, in_file)
    })
}

fn in_value(value: &Value, multiline: &[String], at: &str, in_file: bool) -> Option<String> {
    match value {
        Value::String(text) => breaks(text, in_file).then(|| at.to_owned()),
        Value::Array(items) => items
            .iter()
            .find_map(|item| in_value(item, multiline, at, in_file)),
        Value::Object(map) => in_map(map, multiline, at, in_file),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn breaks(text: &str, in_file: bool) -> bool {
    text.contains(|c| BREAKS.contains(&c) && !(in_file && c == '\n'))
}
