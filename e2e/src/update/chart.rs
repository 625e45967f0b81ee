//! A newer chart of NVIDIA: a file for it, drafted from the newest one that the catalogue knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use semver::Version;
use serde::Deserialize;

use super::{field, released, with_fields};

/// The index of a chart repository; <https://helm.sh/docs/topics/chart_repository/>.
#[derive(Deserialize)]
struct Index {
    entries: BTreeMap<String, Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    version: String,
    #[serde(default)]
    digest: String,
}

/// Writes the file of a newer chart into the folder of a catalogue (`chart-values`), and says so in a line of a list. `None`
/// where nothing is newer.
pub fn propose(catalogue: &Path, index: &str) -> Result<Option<String>> {
    let index: Index = serde_saphyr::from_str(index).context("the index of charts is not readable")?;
    let entries = index.entries.get("gpu-operator");
    let entries = entries.context("the index has no chart gpu-operator")?;
    let published = entries.iter().filter_map(|entry| {
        let is_digest = entry.digest.len() == 64 && entry.digest.chars().all(|c| c.is_ascii_hexdigit());
        // Previews, and what is not a released version at all, are for nobody.
        Some((
            released(&entry.version).ok().filter(|_| is_digest)?,
            &entry.digest,
        ))
    });
    let (version, digest) = published
        .max_by(|a, b| a.0.cmp(&b.0))
        .context("the index has no released gpu-operator")?;

    let charts = catalogue.join("charts");
    let file = |version: &Version| charts.join(format!("{version}.yaml"));
    let known = known(&charts)?;
    if version <= known {
        return Ok(None);
    }
    let draft = fs::read_to_string(file(&known))?;
    // A patch release comes from where its line came from, a new line from the one before.
    let from = if (version.major, version.minor) == (known.major, known.minor) {
        field(&draft, "upgradesFrom: ")?.to_owned()
    } else {
        format!("\"{}.{}\"", known.major, known.minor)
    };
    let draft = with_fields(
        &draft,
        &[
            (
                "# gpu-operator v",
                format!("{version}, drafted from {known}: look at each line."),
            ),
            ("version: ", version.to_string()),
            ("sha256: ", digest.to_lowercase()),
            ("upgradesFrom: ", from),
        ],
    );
    fs::write(file(&version), draft)?;
    Ok(Some(format!(
        "- NVIDIA's chart {version} (the newest known was {known})"
    )))
}

/// The newest chart of the catalogue.
fn known(charts: &Path) -> Result<Version> {
    let mut newest = None;
    for entry in fs::read_dir(charts)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        newest = newest.max(Some(released(&name)?));
    }
    newest.context("the catalogue has no chart")
}
