//! Chart archives on disk, checked against the catalogue before each use.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::crds::KnownCrd;
use crate::catalogue::Chart;
use crate::desired::file_digest;

/// Why a chart cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// The folder is not there or holds no archive.
    #[error("the charts folder {folder} holds no chart archive, check --charts-dir")]
    NoCharts {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds archives, but not this one.
    #[error("chart archive {archive} is missing, put it there or choose another spec.chartVersion")]
    Missing {
        /// The archive.
        archive: PathBuf,
    },
    /// The archive cannot be read.
    #[error("chart archive {archive} cannot be read: {source}")]
    Unreadable {
        /// The archive.
        archive: PathBuf,
        /// What the file system said.
        source: io::Error,
    },
    /// The archive is not what the catalogue pins.
    #[error(
        "chart archive {archive} has SHA-256 {found} instead of {expected}, replace it by NVIDIA's release"
    )]
    Digest {
        /// The archive.
        archive: PathBuf,
        /// Digest of the file.
        found: String,
        /// Digest in the catalogue.
        expected: String,
    },
}

impl ChartError {
    /// The reason of condition `Installed`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoCharts { .. } | Self::Missing { .. } | Self::Unreadable { .. } => "ChartMissing",
            Self::Digest { .. } => "ChartDigestMismatch",
        }
    }
}

/// The folder that holds the chart archives.
#[derive(Debug)]
pub struct ChartFolder {
    folder: PathBuf,
    /// The CRDs of charts that were read, by the digest of the archive. Only Helm can read them, and takes a tenth of a second.
    crds: Mutex<BTreeMap<String, Vec<KnownCrd>>>,
    /// What Helm printed of a chart's CRDs before they were needed, by the digest of the archive.
    ahead: Mutex<Option<(String, String)>>,
}

impl ChartFolder {
    /// Archives are looked for in `folder` at each use.
    pub const fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            crds: Mutex::new(BTreeMap::new()),
            ahead: Mutex::new(None),
        }
    }

    /// The CRDs of the chart, where they were read before.
    pub fn known_crds(&self, chart: &Chart) -> Option<Vec<KnownCrd>> {
        let crds = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        crds.get(&chart.sha256).cloned()
    }

    /// Remembers the CRDs of the chart, as read from an archive with its digest.
    pub fn remember_crds(&self, chart: &Chart, known: Vec<KnownCrd>) {
        let mut crds = self.crds.lock().unwrap_or_else(PoisonError::into_inner);
        crds.insert(chart.sha256.clone(), known);
    }

    /// Keeps what Helm printed of the chart's CRDs until they are applied.
    pub fn keep_documents(&self, chart: &Chart, documents: String) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = Some((chart.sha256.clone(), documents));
    }

    /// Whether nothing of the chart's CRDs has to be read before they are applied.
    pub fn knows_crds(&self, chart: &Chart) -> bool {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = ahead.as_ref().is_some_and(|(sha256, _)| *sha256 == chart.sha256);
        is_kept || self.known_crds(chart).is_some()
    }

    /// What Helm printed of the chart's CRDs, where that was kept; it is half a megabyte and is given away.
    pub fn take_documents(&self, chart: &Chart) -> Option<String> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = ahead.take_if(|(sha256, _)| *sha256 == chart.sha256)?;
        Some(kept.1)
    }

    /// Path of the chart's archive, whose digest is right at this moment.
    pub fn verified(&self, chart: &Chart) -> Result<PathBuf, ChartError> {
        let archive = self.folder.join(chart.archive());
        let content = match std::fs::read(&archive) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.missing(archive)),
            Err(source) => return Err(ChartError::Unreadable { archive, source }),
        };
        let found = file_digest(&content);
        if found == chart.sha256 {
            return Ok(archive);
        }
        Err(ChartError::Digest {
            archive,
            found,
            expected: chart.sha256.clone(),
        })
    }

    fn missing(&self, archive: PathBuf) -> ChartError {
        if has_archive(&self.folder) {
            ChartError::Missing { archive }
        } else {
            ChartError::NoCharts {
                folder: self.folder.clone(),
            }
        }
    }
}

fn has_archive(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "tgz")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;

    #[test]
    fn what_helm_printed_is_kept_for_its_chart_and_given_away_once() {
        let catalogue = Catalogue::compiled_in().unwrap();
        let charts = ChartFolder::new(PathBuf::new());
        let [one, other] = catalogue.charts().take(2).collect::<Vec<_>>()[..] else {
            panic!("two charts")
        };
        assert!(!charts.knows_crds(one));
        charts.keep_documents(one, "documents".to_owned());
        assert!(charts.knows_crds(one) && !charts.knows_crds(other));
        assert_eq!(charts.take_documents(other), None);
        assert_eq!(charts.take_documents(one).as_deref(), Some("documents"));
        assert!(!charts.knows_crds(one));
        charts.remember_crds(one, Vec::new());
        assert!(charts.knows_crds(one));
    }

    #[test]
    fn each_fault_is_told_apart() {
        let catalogue = Catalogue::compiled_in().unwrap();
        let chart = catalogue.default_chart().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let charts = ChartFolder::new(folder.path().to_owned());
        assert!(matches!(
            charts.verified(chart).unwrap_err(),
            ChartError::NoCharts { .. }
        ));
        let gone = ChartFolder::new(folder.path().join("gone"));
        assert!(matches!(
            gone.verified(chart).unwrap_err(),
            ChartError::NoCharts { .. }
        ));

        std::fs::write(folder.path().join("other.tgz"), "x").unwrap();
        assert!(matches!(
            charts.verified(chart).unwrap_err(),
            ChartError::Missing { .. }
        ));

        std::fs::write(folder.path().join(chart.archive()), "not NVIDIA's").unwrap();
        let error = charts.verified(chart).unwrap_err();
        assert_eq!(error.reason(), "ChartDigestMismatch");
        assert!(error.to_string().contains(&chart.sha256), "{error}");

        let mut pinned = chart.clone();
        pinned.sha256 = file_digest(b"not NVIDIA's");
        assert_eq!(
            charts.verified(&pinned).unwrap(),
            folder.path().join(chart.archive())
        );
    }
}
