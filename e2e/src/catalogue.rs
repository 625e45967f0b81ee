//! A folder with a chart catalogue for `--catalogue-dir`: the project's own, with changes that a test needs.

use std::path::Path;

use anyhow::{Context as _, Result};
use gpu_manager::desired::file_digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::charts::{Charts, Origin};
use crate::tools::repository_root;

/// A copy of `chart-values/`; gone when dropped.
#[derive(Debug)]
pub struct CatalogueFolder(TempDir);

impl CatalogueFolder {
    /// Copies `chart-values/` as it is.
    pub fn copy() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("gpu-manager-catalogue-")
            .tempdir()?;
        copy(&repository_root().join("chart-values"), folder.path())?;
        Ok(Self(folder))
    }

    /// A copy whose digests are those of `charts`, where these are not NVIDIA's own.
    pub fn for_charts(charts: &Charts) -> Result<Self> {
        let catalogue = Self::copy()?;
        if charts.origin() == Origin::StandIn {
            for version in charts.versions() {
                let archive = charts.archive(version);
                let content =
                    std::fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
                catalogue.change(version, |chart| {
                    chart["sha256"] = json!(file_digest(&content));
                })?;
            }
        }
        Ok(catalogue)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Changes what the catalogue says of one chart version.
    pub fn change(&self, version: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let path = self.0.path().join("charts").join(format!("{version}.yaml"));
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut chart: Value = serde_saphyr::from_str(&text)?;
        change(&mut chart);
        // JSON is YAML.
        Ok(std::fs::write(&path, serde_json::to_string_pretty(&chart)?)?)
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gpu_manager::catalogue::Catalogue;

    use super::*;

    #[test]
    fn a_changed_copy_is_a_catalogue() {
        let folder = CatalogueFolder::copy().unwrap();
        let digest = "0".repeat(64);
        folder
            .change("26.7.0", |chart| chart["sha256"] = json!(digest))
            .unwrap();
        let catalogue = Catalogue::from_folder(folder.path()).unwrap();
        assert_eq!(catalogue.default_chart().unwrap().sha256, digest);
        let original = Catalogue::compiled_in().unwrap();
        assert_eq!(catalogue.charts().count(), original.charts().count());
        assert_eq!(catalogue.base, original.base);
    }
}
