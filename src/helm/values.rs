//! Values as the JSON that helm reads with its YAML parser.
//!
//! JSON is YAML except for a few characters: helm 4.3 loses U+0085 between quotes, a line end in YAML, and refuses a
//! file with DEL, another C1 control, U+FFFE or U+FFFF in it. Those are written as `\u` escapes, which both languages
//! read alike, so that the values which helm stores are those that were given.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// The JSON text.
pub(super) fn to_json(values: &serde_json::Value) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    values.serialize(&mut Serializer::with_formatter(&mut json, YamlSafe))?;
    Ok(json)
}

struct YamlSafe;

impl Formatter for YamlSafe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for part in fragment.split_inclusive(differs_in_yaml) {
            match part.chars().next_back().filter(|last| differs_in_yaml(*last)) {
                Some(last) => {
                    writer.write_all(part.trim_end_matches(last).as_bytes())?;
                    write!(writer, "\\u{:04x}", u32::from(last))?;
                }
                None => writer.write_all(part.as_bytes())?,
            }
        }
        Ok(())
    }
}

fn differs_in_yaml(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_yaml_reads_otherwise_is_escaped() {
        let values = json!({ "k\u{85}": "a\u{7f}\u{7f}b\u{ffff}", "plain": "ä \"on\" \n \u{a0}😀" });
        let text = String::from_utf8(to_json(&values).expect("JSON")).expect("UTF-8");
        assert_eq!(
            text,
            "{\"k\\u0085\":\"a\\u007f\\u007fb\\uffff\",\"plain\":\"ä \\\"on\\\" \\n \u{a0}😀\"}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON"),
            values
        );
    }
}
