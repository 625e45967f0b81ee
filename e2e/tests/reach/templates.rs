//! What a chart's templates read of the values, whether its `values.yaml` declares it or not.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// An unpacked chart.
pub struct Chart {
    folder: TempDir,
}

impl Chart {
    /// Unpacks an archive.
    pub fn unpack(archive: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let output = Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .arg("-C")
            .arg(folder.path())
            .output()?;
        ensure!(
            output.status.success(),
            "tar: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Self { folder })
    }

    /// The chart's values, those of its subcharts included.
    pub fn values(&self) -> Result<Value> {
        let chart = self.folder.path().join("gpu-operator");
        let mut all = values_of(&chart)?;
        for subchart in subcharts(&chart)? {
            let mut values = values_of(&chart.join("charts").join(&subchart))?;
            json_patch::merge(&mut values, &all[&subchart]);
            all[&subchart] = values;
        }
        Ok(all)
    }

    /// The dotted paths that templates read, those of subcharts below the subchart's name.
    pub fn read(&self) -> Result<BTreeSet<String>> {
        let chart = self.folder.path().join("gpu-operator");
        let mut paths = read_in(&chart)?;
        for subchart in subcharts(&chart)? {
            let below = read_in(&chart.join("charts").join(&subchart))?;
            paths.extend(below.into_iter().map(|path| format!("{subchart}.{path}")));
        }
        Ok(paths)
    }
}

fn values_of(chart: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(chart.join("values.yaml"))?;
    // Node Feature Discovery's has more comments in a row than the parser keeps.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let values: Map<String, Value> = serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(Value::Object(values))
}

fn subcharts(chart: &Path) -> Result<BTreeSet<String>> {
    let charts = std::fs::read_dir(chart.join("charts"))?;
    charts
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

fn read_in(chart: &Path) -> Result<BTreeSet<String>> {
    let mut paths = BTreeSet::new();
    for entry in std::fs::read_dir(chart.join("templates"))? {
        let path = entry?.path();
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("{} is no file", path.display()))?;
        let read = read_by(&text).with_context(|| path.display().to_string())?;
        paths.extend(read);
    }
    Ok(paths)
}

/// The paths that a template reads. One that it reads in a way that is not seen here is an error.
fn read_by(template: &str) -> Result<BTreeSet<String>> {
    let actions = template.split("{{").skip(1);
    let actions = actions.filter_map(|rest| Some(rest.split_once("}}")?.0.trim_matches('-').trim()));
    let mut paths = BTreeSet::new();
    for action in actions.filter(|action| !action.starts_with("/*")) {
        // What is between quotes is text.
        let code: Vec<&str> = action.split('"').step_by(2).collect();
        let code = code.join(" \"\" ");
        let words = code.split(|c: char| c.is_whitespace() || "()|,".contains(c));
        for word in words {
            let path = word.trim_start_matches('$');
            if let Some(path) = path.strip_prefix(".Values") {
                let path = path
                    .strip_prefix('.')
                    .with_context(|| format!("'{action}' reads all values at once"))?;
                paths.insert(path.to_owned());
                continue;
            }
            let of_variable = word.starts_with('$') && word.contains('.');
            let of_context = word
                .strip_prefix('.')
                .is_some_and(|key| key.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'));
            let of_helm = [".Capabilities.", ".Chart.", ".Release.", ".Template."];
            ensure!(
                !of_context && (!of_variable || of_helm.iter().any(|known| path.starts_with(known))),
                "'{action}' reads a key of something else than the values, where this test does not follow"
            );
        }
    }
    Ok(paths)
}

#[test]
fn what_a_template_reads_is_seen() {
    let read = |template: &str| read_by(template).map(|paths| paths.into_iter().collect::<Vec<_>>());
    let template = r#"a: {{ .Values.one.image }}:{{- $.Values.one.tag | default .Chart.AppVersion }}
{{/* .Values.comment */}}
{{- with (.Values.two) }}{{ toYaml . | nindent 4 }}{{ end }}
{{ include "x.name" . }} {{ "with .text" }} {{ range $key, $value := .Values.three }}{{ $key }}{{ end }}"#;
    assert_eq!(read(template).unwrap(), ["one.image", "one.tag", "three", "two"]);
    for unseen in [
        "{{ toYaml .Values }}",
        "{{ index .Values \"a-b\" }}",
        "{{ with .Values.a }}{{ .containers }}{{ end }}",
        "{{ $a := .Values.a }}{{ $a.containers }}",
    ] {
        assert!(read(unseen).is_err(), "{unseen}");
    }
}
