//! Reads the data of `chart-values/`, compiled in or from a folder, and checks that it is consistent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use serde::de::DeserializeOwned;

use super::{Catalogue, Chart, DriverLayout, Stage};

static COMPILED_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/chart-values");

/// Why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// A file cannot be read.
    #[error("{path} of the chart catalogue cannot be read, check that it is there and readable")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// A file is not what the catalogue expects.
    #[error("{path} of the chart catalogue is not valid: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        message: String,
    },
    /// The files contradict each other.
    #[error("the chart catalogue contradicts itself: {0}")]
    Inconsistent(String),
}

/// A catalogue file: where it lies and what it holds.
struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, CatalogueError> {
        serde_saphyr::from_str(&self.text).map_err(|error| CatalogueError::Parse {
            path: self.path.clone(),
            message: error.to_string(),
        })
    }
}

impl Catalogue {
    /// The catalogue that was compiled in.
    pub fn compiled_in() -> Result<Self, CatalogueError> {
        let file = |path: &Path| {
            let missing = || CatalogueError::Inconsistent(format!("{} is missing", path.display()));
            let text = COMPILED_IN
                .get_file(path)
                .and_then(include_dir::File::contents_utf8);
            Ok(File {
                path: path.to_owned(),
                text: text.ok_or_else(missing)?.to_owned(),
            })
        };
        let charts = COMPILED_IN
            .get_dir("charts")
            .map(Dir::files)
            .into_iter()
            .flatten();
        let charts: Vec<_> = charts.map(|chart| file(chart.path())).collect::<Result<_, _>>()?;
        Self::from_files(|name| file(Path::new(name)), &charts)
    }

    /// A catalogue in the same layout from a folder, for charts that a platform team pins itself.
    pub fn from_folder(folder: &Path) -> Result<Self, CatalogueError> {
        let file = |path: PathBuf| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(File { path, text }),
            Err(source) => Err(CatalogueError::Read { path, source }),
        };
        let charts = folder.join("charts");
        let listed = std::fs::read_dir(&charts)
            .and_then(|entries| {
                entries
                    .map(|entry| Ok(entry?.path()))
                    .collect::<Result<Vec<_>, _>>()
            })
            .map_err(|source| CatalogueError::Read { path: charts, source })?;
        let charts: Vec<_> = listed.into_iter().map(file).collect::<Result<_, _>>()?;
        Self::from_files(|name| file(folder.join(name)), &charts)
    }

    fn from_files(
        file: impl Fn(&str) -> Result<File, CatalogueError>,
        charts: &[File],
    ) -> Result<Self, CatalogueError> {
        let mut by_version = BTreeMap::new();
        for entry in charts {
            let chart: Chart = entry.parse()?;
            check_chart(&chart)?;
            let version = chart.version.clone();
            if by_version.insert(version.clone(), chart).is_some() {
                let path = entry.path.display();
                return Err(CatalogueError::Inconsistent(format!(
                    "chart version {version} stands in more than one file, {path} is one of them"
                )));
            }
        }
        let catalogue = Self {
            defaults: file("defaults.yaml")?.parse()?,
            base: file("gardenlinux.yaml")?.parse()?,
            restarts: file("restarts.yaml")?.parse()?,
            drivers: file("drivers.yaml")?.parse()?,
            instance_types: file("instance-types.yaml")?.parse()?,
            charts: by_version,
        };
        let complaint = catalogue.drivers.complaint(&catalogue.defaults.driver);
        if let Some(complaint) = complaint.or_else(|| catalogue.instance_types.complaint()) {
            return Err(CatalogueError::Inconsistent(complaint));
        }
        match catalogue.default_chart().map(|chart| chart.stage) {
            Some(Stage::Install) => Ok(catalogue),
            _ => Err(CatalogueError::Inconsistent(format!(
                "the default chart version {} has no entry of stage Install",
                catalogue.defaults.chart_version
            ))),
        }
    }
}

fn check_chart(chart: &Chart) -> Result<(), CatalogueError> {
    let wrong = |what: &str| {
        Err(CatalogueError::Inconsistent(format!(
            "chart {} {what}",
            chart.version
        )))
    };
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if chart.sha256.len() != 64 || !chart.sha256.chars().all(hex) {
        return wrong("has no SHA-256 of 64 lower-case hexadecimal digits");
    }
    if chart.upgrades_from >= chart.line() {
        return wrong("is upgraded from a line that is not older than itself");
    }
    if (chart.driver_layout == DriverLayout::NvidiaDriver) != chart.nvidia_driver.is_some() {
        return wrong("must have nvidiaDriver exactly when its driverLayout is NVIDIADriver");
    }
    Ok(())
}
