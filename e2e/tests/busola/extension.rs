//! The ConfigMap as the dashboard reads it: one YAML text per key.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::tools::repository_root;
use serde_json::{Map, Value};

/// The keys of an extension of version 0.5 that are read as YAML
/// (kyma-project/busola, `src/state/navigation/extensionsAtom.ts`).
const KEYS: [&str; 8] = [
    "general",
    "list",
    "details",
    "form",
    "presets",
    "dataSources",
    "injections",
    "translations",
];

/// The extension.
pub struct Extension {
    keys: Map<String, Value>,
}

impl Extension {
    /// Reads the folder as kustomize does.
    pub fn read() -> Result<Self> {
        let mut keys = Map::new();
        for (key, text) in texts()? {
            let value = serde_saphyr::from_str(&text).with_context(|| format!("key {key}"))?;
            keys.insert(key, value);
        }
        Ok(Self { keys })
    }

    /// One key.
    pub fn key(&self, key: &str) -> &Value {
        &self.keys[key]
    }

    /// The columns of the list.
    pub fn list(&self) -> &[Value] {
        array(self.key("list"))
    }

    /// A list of widgets of the details.
    pub fn details(&self, pointer: &str) -> &[Value] {
        self.key("details").pointer(pointer).map_or(&[], array)
    }

    /// The fields of the form.
    pub fn form(&self) -> &[Value] {
        array(self.key("form"))
    }

    /// The text of a translation key; `None`: there is none.
    pub fn translation(&self, key: &str) -> Option<&str> {
        let pointer = format!("/en/{}", key.replace('.', "/"));
        self.key("translations").pointer(&pointer)?.as_str()
    }

    /// What the dashboard shows of a text that may be a translation key.
    pub fn translated<'a>(&'a self, text: &'a str) -> &'a str {
        self.translation(text).unwrap_or(text)
    }
}

/// Members of an array; none of anything else.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A member that is a text.
pub fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn folder() -> PathBuf {
    repository_root().join("hack/deploy/base/busola")
}

fn kustomization() -> Result<Value> {
    let path = folder().join("kustomization.yaml");
    Ok(serde_saphyr::from_str(&fs::read_to_string(&path)?)?)
}

/// Each key and its text.
fn texts() -> Result<Vec<(String, String)>> {
    let kustomization = kustomization()?;
    let files = kustomization.pointer("/configMapGenerator/0/files");
    let files = array(files.context("no files")?).iter().filter_map(Value::as_str);
    let read = files.map(|entry| {
        let (key, file) = entry.split_once('=').context("key=file")?;
        Ok((key.to_owned(), fs::read_to_string(folder().join(file))?))
    });
    read.collect()
}

#[test]
fn every_key_is_one_that_the_dashboard_reads() -> Result<()> {
    for (key, text) in texts()? {
        ensure!(KEYS.contains(&key.as_str()), "{key}");
        // The Kyma CLI splits manifests at every three hyphens.
        ensure!(!text.contains("---"), "three hyphens in {key}");
        ensure!(!text.contains('\t'), "a tab in {key}");
    }
    Ok(())
}

#[test]
fn every_file_is_in_the_config_map() -> Result<()> {
    let mut listed: Vec<_> = texts()?
        .into_iter()
        .map(|(key, _)| format!("{key}.yaml"))
        .collect();
    listed.push("kustomization.yaml".to_owned());
    listed.sort();
    let mut there: Vec<_> = fs::read_dir(folder())?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    there.sort();
    ensure!(listed == there, "{listed:?}, but there are {there:?}");
    Ok(())
}

#[test]
fn the_dashboard_finds_the_config_map() -> Result<()> {
    let kustomization = kustomization()?;
    let at = |pointer: &str| kustomization.pointer(pointer).and_then(Value::as_str);
    for (label, value) in [
        ("busola.io~1extension", "resource"),
        ("busola.io~1extension-version", "0.5"),
        ("kyma-project.io~1module", "gpu"),
    ] {
        let found = at(&format!("/generatorOptions/labels/{label}"));
        ensure!(found == Some(value), "{label}: {found:?}");
    }
    let hashed = kustomization.pointer("/generatorOptions/disableNameSuffixHash");
    ensure!(
        hashed == Some(&Value::Bool(true)),
        "the name changes with the content"
    );
    Ok(())
}

#[test]
fn the_extension_is_of_the_gpu_module() -> Result<()> {
    let extension = Extension::read()?;
    let crd = gpu_manager::crds::crd();
    let general = extension.key("general");
    let version = &crd.spec.versions[0].name;
    for (field, value) in [
        ("/resource/kind", &crd.spec.names.kind),
        ("/resource/group", &crd.spec.group),
        ("/resource/version", version),
        ("/scope", &crd.spec.scope.to_lowercase()),
        // The dashboard asks for the plural of the lower-case kind.
        ("/urlPath", &crd.spec.names.plural),
    ] {
        let found = general.pointer(field).and_then(Value::as_str);
        ensure!(found == Some(value), "{field}: {found:?}");
    }
    let name = extension.key("presets").pointer("/0/value/metadata/name");
    ensure!(name.and_then(Value::as_str) == Some(gpu_manager::api::MODULE_NAME));
    Ok(())
}
