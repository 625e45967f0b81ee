//! Writes a chart catalogue that accepts other archives than NVIDIA's, such as the stand-in.
//!
//! The operator checks each archive against the digest in its catalogue and has no way around it. For archives of
//! the project's own a copy of `chart-values/` takes the catalogue's place, equal but for their digests.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::desired::file_digest;

use super::file_name;
use crate::tools::repository_root;

/// Start of the line with the digest in `charts/<version>.yaml`.
const DIGEST_LINE: &str = "sha256:";

/// Copies `chart-values/` to the new folder `target`, with the digest of each archive that lies in `archives`.
///
/// Versions without an archive there keep NVIDIA's digest.
pub fn write(archives: &Path, target: &Path) -> Result<()> {
    let source = repository_root().join("chart-values");
    copy(&source, target)?;
    for entry in list(&source.join("charts"))? {
        let name = entry.file_name();
        let version = Path::new(&name)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .context("a chart version that is no text")?;
        let archive = archives.join(file_name(version));
        if archive.is_file() {
            set_digest(&target.join("charts").join(&name), &digest(&archive)?)?;
        }
    }
    Ok(())
}

fn copy(source: &Path, target: &Path) -> Result<()> {
    std::fs::create_dir(target).with_context(|| format!("cannot create {}", target.display()))?;
    for entry in list(source)? {
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<std::fs::DirEntry>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    Ok(entries.collect::<Result<_, _>>()?)
}

fn digest(archive: &Path) -> Result<String> {
    let content = std::fs::read(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    Ok(file_digest(&content))
}

fn set_digest(chart: &Path, digest: &str) -> Result<()> {
    let text = std::fs::read_to_string(chart).with_context(|| format!("cannot read {}", chart.display()))?;
    let lines = text.lines().filter(|line| line.starts_with(DIGEST_LINE));
    ensure!(
        lines.count() == 1,
        "{} has not exactly one line '{DIGEST_LINE} ...'",
        chart.display()
    );
    let with_digest = |line: &str| {
        if line.starts_with(DIGEST_LINE) {
            format!("{DIGEST_LINE} {digest}\n")
        } else {
            format!("{line}\n")
        }
    };
    let changed: String = text.lines().map(with_digest).collect();
    std::fs::write(chart, changed).with_context(|| format!("cannot write {}", chart.display()))
}

#[cfg(test)]
mod tests {
    use gpu_manager::catalogue::Catalogue;
    use semver::Version;

    use super::*;

    #[test]
    fn only_the_digests_of_the_archives_change() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gpu-operator-v26.7.0.tgz"), "abc").unwrap();
        let target = folder.path().join("catalogue");
        write(folder.path(), &target).unwrap();

        let (ours, theirs) = (
            Catalogue::from_folder(&target).unwrap(),
            Catalogue::compiled_in().unwrap(),
        );
        let digest_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for chart in theirs.charts() {
            let mut expected = chart.clone();
            if chart.version == Version::new(26, 7, 0) {
                digest_of_abc.clone_into(&mut expected.sha256);
            }
            let found = ours.chart(&chart.version).unwrap();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        }
        assert_eq!(format!("{:?}", ours.defaults), format!("{:?}", theirs.defaults));
        assert_eq!(ours.base, theirs.base);
    }
}
