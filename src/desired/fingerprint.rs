//! Digests by which a release is known again without starting Helm.

use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 over `parts`, each preceded by its length so that no two lists of parts are taken for each other.
/// In hexadecimal.
pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

/// Digest of values, the same for values as given to Helm and as read back from it.
///
/// Helm keeps every number as a 64-bit float: 1.0 comes back as 1, and an integer beyond 2^53 rounded. All else, `null`
/// and empty maps included, comes back as it was given.
pub fn values_digest(values: &Value) -> String {
    digest([as_kept_by_helm(values).to_string().as_bytes()])
}

/// True for values that Helm keeps alike.
pub fn same_values(one: &Value, other: &Value) -> bool {
    as_kept_by_helm(one) == as_kept_by_helm(other)
}

/// A value as it comes back from Helm.
pub(super) fn as_kept_by_helm(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(as_kept_by_helm).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, child)| (key.clone(), as_kept_by_helm(child)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// SHA-256 of the content of a file, in hexadecimal, as `sha256sum` prints it.
pub fn file_digest(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Identifies chart, values and flags of a release; kept as a label on its Secret, so 32 digits (63 are allowed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of what Helm is told.
    pub fn of(chart_sha256: &str, values_digest: &str, flags: &[&str]) -> Self {
        let parts = [chart_sha256, values_digest]
            .into_iter()
            .chain(flags.iter().copied());
        let mut text = digest(parts.map(str::as_bytes));
        text.truncate(32);
        Self(text)
    }

    /// As the label has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
