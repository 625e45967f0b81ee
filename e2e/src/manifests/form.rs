//! The chart versions that the dashboard's form offers: `hack/deploy/base/busola/form.yaml`, from the catalogue.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use gpu_manager::catalogue::Catalogue;

/// The file, relative to the repository.
pub const FORM_FILE: &str = "hack/deploy/base/busola/form.yaml";

/// The text of the form with the versions that can be installed, newest first.
pub fn with_versions(form: &str, catalogue: &Catalogue) -> Result<String> {
    let lines: Vec<_> = form.split_inclusive('\n').collect();
    let is = |line: &str, words: &str| line.trim() == words;
    let field = lines.iter().position(|line| is(line, "- path: chartVersion"));
    let field = field.context("the form has no field chartVersion")?;
    let list = lines.iter().skip(field).position(|line| is(line, "enum:"));
    let start = field + list.context("chartVersion has no enum")? + 1;
    // An entry is further in than its list's name, which itself is as far in as the next entry of a field's.
    let depth = |line: &str| line.len() - line.trim_start().len();
    let inner = depth(lines[start - 1]);
    let entries = lines.iter().skip(start).take_while(|line| depth(line) > inner);
    let end = start + entries.count();
    let mut text = lines[..start].concat();
    for version in catalogue.installable() {
        writeln!(text, "{:width$}- {version}", "", width = inner + 2)?;
    }
    text.push_str(&lines[end..].concat());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_alone_change() {
        let form = "\
- path: spec
  children:
    - path: chartVersion
      enum:
        - 1.0.0
        - 9.9.9
    - path: driver
      enum:
        - x
";
        let catalogue = Catalogue::compiled_in().unwrap();
        let versions: Vec<_> = catalogue.installable().iter().map(ToString::to_string).collect();
        let written = with_versions(form, &catalogue).unwrap();
        for version in &versions {
            assert!(written.contains(&format!("        - {version}\n")), "{written}");
        }
        assert_eq!(written.lines().count(), form.lines().count() - 2 + versions.len());
        assert!(
            !written.contains("9.9.9") && written.ends_with("    - path: driver\n      enum:\n        - x\n")
        );
        assert_eq!(with_versions(&written, &catalogue).unwrap(), written);
        assert!(with_versions("- path: driver\n", &catalogue).is_err());
    }
}
