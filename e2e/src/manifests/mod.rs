//! The files of a release: what `make manifests VERSION=x.y.z` puts into `dist/`.
//!
//! `hack/deploy/` has the objects and `release.yaml` the facts; kustomize, as kubectl brings it, puts them together. Nothing else
//! makes these files, so tests and the demo install what users install. docs/contributor/packaging.md has the reasons.

pub mod form;
mod images;
mod kustomize;
mod module;
mod release;

use std::path::Path;

use anyhow::{Context as _, Result};
use semver::Version;
use serde_json::Value;

use crate::tools::repository_root;

pub use images::{IMAGES_FILE, images, patch_for};
pub use kustomize::{Flavour, render};
pub use release::Release;

/// File with the GpuModule that comes with the module.
pub const DEFAULT_CR: &str = "default-gpumodule-cr.yaml";
/// File that modulectl reads.
pub const MODULE_CONFIG: &str = "module-config.yaml";
/// File with a sample of what assigns versions to channels.
pub const RELEASE_META: &str = "modulereleasemeta-sample.yaml";

/// The files of one release.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Objects for `kyma-system`, where Lifecycle Manager brings them.
    pub managed: String,
    /// Objects with a namespace of their own, for everybody else.
    pub community: String,
    /// The GpuModule that comes with the module.
    pub default_cr: String,
    /// For modulectl.
    pub module_config: String,
    /// For Kyma's CLI and dashboard.
    pub module_template: String,
    /// A sample of what assigns versions to channels.
    pub release_meta: String,
    template_name: String,
}

impl Bundle {
    /// Makes the files of a release; `kubectl` is the binary that brings kustomize.
    pub fn build(kubectl: &Path, release: &Release) -> Result<Self> {
        let default_cr = default_cr()?;
        Ok(Self {
            managed: render(kubectl, Flavour::Managed, release)?,
            community: render(kubectl, Flavour::Community, release)?,
            module_config: serde_saphyr::to_string(&module::config(release))?,
            module_template: serde_saphyr::to_string(&module::template(release, &default_cr)?)?,
            release_meta: serde_saphyr::to_string(&module::release_meta(release))?,
            template_name: format!("{}.yaml", release.template_name()),
            default_cr,
        })
    }

    /// Name and text of each file.
    pub fn files(&self) -> [(&str, &str); 6] {
        [
            (Flavour::Managed.file(), &self.managed),
            (Flavour::Community.file(), &self.community),
            (DEFAULT_CR, &self.default_cr),
            (MODULE_CONFIG, &self.module_config),
            (&self.template_name, &self.module_template),
            (RELEASE_META, &self.release_meta),
        ]
    }

    /// Writes the files into a folder, and removes the ModuleTemplate of another version from it.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if is_template(&entry.file_name().to_string_lossy()) {
                std::fs::remove_file(entry.path())?;
            }
        }
        for (name, text) in self.files() {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Whether a file is named like a ModuleTemplate of some version.
fn is_template(name: &str) -> bool {
    let version = name
        .strip_prefix("gpu-")
        .and_then(|rest| rest.strip_suffix(".yaml"));
    version.is_some_and(|version| Version::parse(version).is_ok())
}

/// The GpuModule that comes with the module, as it lies in `hack/deploy/`.
fn default_cr() -> Result<String> {
    let path = repository_root().join("hack/deploy").join(DEFAULT_CR);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The objects of a manifest, in its order.
pub fn objects(manifest: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).context("the manifest is not YAML")?;
    Ok(documents.into_iter().filter(Value::is_object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_known_by_their_names() {
        assert!(is_template("gpu-0.1.0.yaml") && is_template("gpu-1.2.3-rc1.yaml"));
        assert!(!is_template("gpu-manager.yaml") && !is_template("gpu-manager-community.yaml"));
    }
}
