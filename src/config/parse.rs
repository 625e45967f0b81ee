//! How single values of flags and variables are read.

/// A registry as `--allowed-registries` takes it. A slash at its end would allow nothing.
pub(super) fn registry(text: &str) -> Result<String, String> {
    let name = text.trim().trim_end_matches('/');
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:/".contains(c);
    if name.is_empty() || !name.chars().all(allowed) || name.contains("://") {
        return Err("expected a registry like registry.example/path, without scheme and tag".to_owned());
    }
    Ok(name.to_owned())
}

/// A path as `--open-values` takes it. One with an empty part would open nothing.
pub(super) fn value_path(text: &str) -> Result<String, String> {
    let path = text.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(allowed);
    if !path.split('.').all(is_part) {
        return Err("expected a dotted path like operator.logging".to_owned());
    }
    Ok(path.to_owned())
}

/// Makes a text a Kubernetes label value: at most 63 characters, the last ones kept as they tell processes apart.
pub(super) fn label_value(text: &str) -> String {
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let clean: String = text.chars().map(allowed).collect();
    let tail = &clean[clean.len().saturating_sub(63)..];
    tail.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_label_values() {
        assert_eq!(label_value("gpu-manager-7d9f-x2b"), "gpu-manager-7d9f-x2b");
        assert_eq!(label_value("höst name!"), "h-st-name");
        let long = label_value(&format!("{}-42", "x".repeat(80)));
        assert!(long.len() <= 63 && long.ends_with("-42"), "{long}");
    }
}
