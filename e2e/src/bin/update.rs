//! Proposes a newer chart or installer release in `chart-values/`; the workflow *Update* calls it. Prints what was found.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use e2e::tools::repository_root;
use e2e::update::{chart, installer};

/// Propose what has been published since.
#[derive(Parser)]
enum Args {
    /// A newer chart of NVIDIA.
    Chart {
        /// The index of NVIDIA's chart repository.
        index: PathBuf,
    },
    /// A newer release of the Garden Linux NVIDIA installer.
    Installer {
        /// The newest release.
        release: String,
        /// Its `versions.yaml`.
        versions: PathBuf,
    },
}

fn main() -> Result<()> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let catalogue = repository_root().join("chart-values");
    let found = match Args::parse() {
        Args::Chart { index } => chart::propose(&catalogue, &read(&index)?)?,
        Args::Installer { release, versions } => installer::propose(&catalogue, &release, &read(&versions)?)?,
    };
    if let Some(found) = found {
        println!("{found}");
    }
    Ok(())
}
