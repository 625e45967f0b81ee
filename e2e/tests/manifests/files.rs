//! The files of a release as texts, and changes to them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};
use e2e::manifests::{Bundle, DEFAULT_CR, Flavour, MODULE_CONFIG, RELEASE_META, Release, objects};
use e2e::tools::{Tool, Tools};
use serde_json::Value;

/// The two manifests.
pub const MANIFESTS: [Flavour; 2] = [Flavour::Managed, Flavour::Community];

/// All files of a release by their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    texts: BTreeMap<String, String>,
    template: String,
}

impl Files {
    /// Those of the version that the source has.
    pub fn of_the_source() -> Result<Self> {
        static BUILT: OnceLock<Result<Files, String>> = OnceLock::new();
        let built = BUILT.get_or_init(|| Self::built_again().map_err(|error| format!("{error:#}")));
        built.clone().map_err(|error| anyhow!(error))
    }

    /// The same, built anew.
    pub fn built_again() -> Result<Self> {
        let release = Release::current()?;
        let bundle = Bundle::build(&Tools::only(Tool::Kubectl)?, &release)?;
        let texts = bundle
            .files()
            .map(|(name, text)| (name.to_owned(), text.to_owned()));
        Ok(Self {
            texts: texts.into(),
            template: format!("{}.yaml", release.template_name()),
        })
    }

    /// Names of all files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().map(String::as_str)
    }

    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).expect("a file of a release")
    }

    pub fn manifest(&self, flavour: Flavour) -> &str {
        self.text(flavour.file())
    }

    pub fn objects(&self, flavour: Flavour) -> Vec<Value> {
        objects(self.manifest(flavour)).expect("a manifest")
    }

    /// The one object of a kind; the first one where there are several.
    pub fn object(&self, flavour: Flavour, kind: &str) -> Value {
        let mut all = self.objects(flavour).into_iter();
        all.find(|object| object["kind"] == kind).unwrap_or_default()
    }

    pub fn template(&self) -> Value {
        self.value(&self.template)
    }

    pub fn config(&self) -> Value {
        self.value(MODULE_CONFIG)
    }

    pub fn release_meta(&self) -> Value {
        self.value(RELEASE_META)
    }

    pub fn default_cr(&self) -> Value {
        self.value(DEFAULT_CR)
    }

    fn value(&self, name: &str) -> Value {
        serde_saphyr::from_str(self.text(name)).expect("YAML")
    }

    /// Replaces the text of a file.
    pub fn rewrite(&mut self, name: &str, change: impl FnOnce(&str) -> String) {
        let text = change(self.text(name));
        self.texts.insert(name.to_owned(), text);
    }

    /// Changes the list of objects of a manifest.
    pub fn edit(&mut self, flavour: Flavour, change: impl FnOnce(&mut Vec<Value>)) {
        let mut all = self.objects(flavour);
        change(&mut all);
        let texts = all
            .iter()
            .map(|object| serde_saphyr::to_string(object).expect("YAML"));
        let text = texts.collect::<Vec<_>>().join("---\n");
        self.texts.insert(flavour.file().to_owned(), text);
    }

    /// Changes each object of a kind in both manifests.
    pub fn each(&mut self, kind: &str, change: impl Fn(&mut Value)) {
        for flavour in MANIFESTS {
            self.edit(flavour, |all| {
                all.iter_mut()
                    .filter(|object| object["kind"] == kind)
                    .for_each(&change);
            });
        }
    }

    /// Adds an object at the end of both manifests.
    pub fn add(&mut self, object: &Value) {
        for flavour in MANIFESTS {
            self.edit(flavour, |all| all.push(object.clone()));
        }
    }

    /// Removes the objects of a kind from both manifests.
    pub fn drop(&mut self, kind: &str) {
        for flavour in MANIFESTS {
            self.edit(flavour, |all| all.retain(|object| object["kind"] != kind));
        }
    }

    pub fn edit_template(&mut self, change: impl FnOnce(&mut Value)) {
        let name = self.template.clone();
        self.edit_value(&name, change);
    }

    pub fn edit_config(&mut self, change: impl FnOnce(&mut Value)) {
        self.edit_value(MODULE_CONFIG, change);
    }

    pub fn edit_release_meta(&mut self, change: impl FnOnce(&mut Value)) {
        self.edit_value(RELEASE_META, change);
    }

    pub fn edit_default_cr(&mut self, change: impl FnOnce(&mut Value)) {
        self.edit_value(DEFAULT_CR, change);
    }

    fn edit_value(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.value(name);
        change(&mut value);
        self.texts
            .insert(name.to_owned(), serde_saphyr::to_string(&value).expect("YAML"));
    }
}

/// Kind and name, for messages.
pub fn title(object: &Value) -> String {
    let field = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!(
        "{} {}",
        field(&object["kind"]),
        field(&object["metadata"]["name"])
    )
}

/// The Pod template of the Deployment of a manifest.
pub fn pod(files: &Files, flavour: Flavour) -> Value {
    files.object(flavour, "Deployment")["spec"]["template"].clone()
}

/// Whether objects of the manifests' kinds lie in namespaces.
pub fn namespaced(kind: &str) -> bool {
    [
        "ConfigMap",
        "Deployment",
        "NetworkPolicy",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    ]
    .contains(&kind)
}
