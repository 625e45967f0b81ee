//! Proposes what NVIDIA and the Garden Linux NVIDIA installer have published since: the workflow *Update*.
//!
//! What they publish is somebody else's text. Each part of it is read as what it must be (a version, a digest, a number)
//! before it reaches a file, and what is not that is an error. A person decides about what a draft copies.

pub mod chart;
pub mod installer;

#[cfg(test)]
mod tests;

use anyhow::{Context as _, Result, ensure};
use semver::Version;

/// A released version, with or without a leading `v`.
fn released(text: &str) -> Result<Version> {
    let version = Version::parse(text.strip_prefix('v').unwrap_or(text))
        .with_context(|| format!("{text:?} is no version like 1.2.3"))?;
    ensure!(
        version.pre.is_empty() && version.build.is_empty(),
        "{text:?} is no released version"
    );
    Ok(version)
}

/// What stands behind the first line that begins with `key`.
fn field<'a>(text: &'a str, key: &str) -> Result<&'a str> {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(key));
    found.with_context(|| format!("no line begins with {key:?}"))
}

/// The text with other words behind each line's `key`.
fn with_fields(text: &str, fields: &[(&str, String)]) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        match fields.iter().find(|(key, _)| line.starts_with(key)) {
            Some((key, value)) => lines.extend([*key, value.as_str()]),
            None => lines.push_str(line),
        }
        lines.push('\n');
    }
    lines
}
