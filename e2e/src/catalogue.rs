//! A folder with a chart catalogue for `--catalogue-dir`: the project's own, with changes that a test needs.

use std::path::Path;

use anyhow::{Context as _, Result};
use gpu_manager::catalogue::Catalogue;
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

    /// A copy with the digests of the archives that lie in a folder. Versions without an archive there keep theirs.
    pub fn for_archives(archives: &Path) -> Result<Self> {
        let catalogue = Self::copy()?;
        let known = Catalogue::from_folder(catalogue.path())?;
        for chart in known.charts() {
            let archive = archives.join(chart.archive());
            if archive.is_file() {
                let content =
                    std::fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
                let digest = json!(file_digest(&content));
                catalogue.change(&chart.version.to_string(), |chart| chart["sha256"] = digest)?;
            }
        }
        Ok(catalogue)
    }

    /// The same for the stand-in, which has the same CRDs in every version.
    pub fn for_stand_in(archives: &Path) -> Result<Self> {
        let catalogue = Self::for_archives(archives)?;
        let chart = repository_root().join("e2e/charts/gpu-operator");
        let mut crds = Vec::new();
        for folder in ["crds", "charts/node-feature-discovery/crds"] {
            for entry in std::fs::read_dir(chart.join(folder))? {
                let text = std::fs::read_to_string(entry?.path())?;
                for crd in serde_saphyr::from_multiple::<Value>(&text)? {
                    crds.extend(crd["metadata"]["name"].as_str().map(ToOwned::to_owned));
                }
            }
        }
        crds.sort();
        for chart in Catalogue::from_folder(catalogue.path())?.charts() {
            catalogue.change(&chart.version.to_string(), |chart| chart["crds"] = json!(crds))?;
        }
        Ok(catalogue)
    }

    /// The catalogue under which the operator accepts `charts`, to be changed.
    pub fn for_charts(charts: &Charts) -> Result<Self> {
        match charts.origin() {
            Origin::Nvidia => Self::copy(),
            Origin::StandIn => Self::for_stand_in(charts.dir()),
        }
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
    use semver::Version;

    use super::*;

    #[test]
    fn only_the_digests_of_the_archives_change() {
        let archives = tempfile::tempdir().unwrap();
        std::fs::write(archives.path().join("gpu-operator-v26.7.0.tgz"), "abc").unwrap();
        let folder = CatalogueFolder::for_archives(archives.path()).unwrap();
        let (changed, original) = (
            Catalogue::from_folder(folder.path()).unwrap(),
            Catalogue::compiled_in().unwrap(),
        );
        for chart in original.charts() {
            let mut expected = chart.clone();
            if chart.version == Version::new(26, 7, 0) {
                expected.sha256 = file_digest(b"abc");
            }
            assert_eq!(
                format!("{:?}", changed.chart(&chart.version).unwrap()),
                format!("{expected:?}")
            );
        }
        assert_eq!(
            format!("{:?}", changed.defaults),
            format!("{:?}", original.defaults)
        );
        assert_eq!(changed.base, original.base);
    }
}
