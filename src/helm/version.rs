//! Reads what `helm version` says about itself.

use semver::Version;

/// The oldest major version that is used: flags and defaults of Helm 3 differ, and its fixes ended in 2026.
pub(super) const MINIMUM_MAJOR: u64 = 4;

/// Reads a version as helm prints it: with a `v` in front, and with two parts only (`v4.3`) when helm was built as a
/// Go module without its release flags.
pub(super) fn parse(text: &str) -> Option<Version> {
    let text = text.trim();
    let bare = text.strip_prefix('v').unwrap_or(text);
    let end_of_core = bare.find(['-', '+']).unwrap_or(bare.len());
    let (core, suffix) = bare.split_at(end_of_core);
    let padding = match core.split('.').count() {
        2 => ".0",
        3 => "",
        _ => return None,
    };
    Version::parse(&format!("{core}{padding}{suffix}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_helm_prints_them() {
        for (text, expected) in [
            ("v4.3.1", Some("4.3.1")),
            ("v4.3", Some("4.3.0")),
            ("v4.3\n", Some("4.3.0")),
            ("4.3.1", Some("4.3.1")),
            ("v3.22.0", Some("3.22.0")),
            ("v4.4.0-rc.1", Some("4.4.0-rc.1")),
            ("v4.3+unreleased", Some("4.3.0+unreleased")),
            ("v4", None),
            ("", None),
            ("main", None),
            ("v4.x", None),
            ("v4.3.1.2", None),
        ] {
            assert_eq!(
                parse(text).map(|v| v.to_string()).as_deref(),
                expected,
                "{text:?}"
            );
        }
    }
}
