//! A newer release of the Garden Linux NVIDIA installer: the new default, and for which nodes it has drivers.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::DriverBranch;
use gpu_manager::catalogue::{DriverMatrix, GardenLinuxVersion};
use serde::Deserialize;

use super::{field, released, with_fields};

const RELEASE: &str = "  installerRelease: ";

/// `versions.yaml` in <https://github.com/gardenlinux/gardenlinux-nvidia-installer>.
#[derive(Deserialize)]
struct Published {
    os_versions: Vec<String>,
    kernel_flavour: Vec<String>,
    cpu_arch: Vec<String>,
    nvidia_drivers: Vec<String>,
    #[serde(default)]
    excluded_combinations: Vec<Excluded>,
}

#[derive(Deserialize)]
struct Excluded {
    os_version_min: String,
    driver_version_prefix: String,
}

/// Makes a newer release the default in the folder of a catalogue (`chart-values`), with the support matrix that its
/// `versions.yaml` describes, and says so in lines of a list. `None` where it is not newer.
pub fn propose(catalogue: &Path, release: &str, versions: &str) -> Result<Option<String>> {
    let release = released(release)?;
    let (defaults_file, matrix_file) = (catalogue.join("defaults.yaml"), catalogue.join("drivers.yaml"));
    let defaults = fs::read_to_string(&defaults_file)?;
    let current = released(field(&defaults, RELEASE)?)?;
    if release <= current {
        return Ok(None);
    }
    let before: DriverMatrix = serde_saphyr::from_str(&fs::read_to_string(&matrix_file)?)?;
    let published: Published =
        serde_saphyr::from_str(versions).context("the release's versions.yaml is not readable")?;
    let mut said = format!("- installer release {release} (was {current})\n");
    let matrix = matrix(&release.to_string(), &published, &before, &mut said)?;
    fs::write(
        defaults_file,
        with_fields(&defaults, &[(RELEASE, release.to_string())]),
    )?;
    fs::write(matrix_file, matrix)?;
    Ok(Some(said.trim_end().to_owned()))
}

/// The text of `drivers.yaml`. What a person has to look at is added to `said`.
fn matrix(release: &str, published: &Published, before: &DriverMatrix, said: &mut String) -> Result<String> {
    let mut text = format!(
        "\
# For which nodes the default release of the Garden Linux NVIDIA installer has driver images, from its versions.yaml. It has one for each
# combination of what is named here, but the excluded ones. Another release is judged by nobody.
installerRelease: {release}

# As Go names them.
architectures:
{}
# Kernels for clouds (6.18.41-cloud-amd64) and for machines of all kinds (6.18.41-amd64).
kernelFlavours:
{}
# Full versions; their branches are what spec.driver.branch asks for.
drivers:
{}
# Versions of Garden Linux by the series of their kernel.
gardenLinux:
",
        words(&published.cpu_arch)?,
        words(&published.kernel_flavour)?,
        words(&published.nvidia_drivers)?,
    );
    let mut left: Vec<&String> = published.os_versions.iter().collect();
    for line in &before.garden_linux {
        let majors: Vec<_> = line
            .versions
            .iter()
            .map(|version| major(&version.to_string()))
            .collect();
        let of_line = |version: &String| majors.contains(&major(version));
        let (own, others) = left
            .into_iter()
            .partition::<Vec<_>, _>(|version| of_line(version));
        left = others;
        if !own.is_empty() {
            writeln!(text, "  - kernel: \"{}\"\n    versions:", line.kernel)?;
        }
        for version in own {
            version.parse::<GardenLinuxVersion>()?;
            writeln!(text, "      - {}", scalar(version))?;
        }
    }
    for version in left {
        let version: GardenLinuxVersion = version.parse()?;
        writeln!(
            said,
            "- left out: Garden Linux {version}, whose kernel the catalogue does not know"
        )?;
    }
    text.push_str(if published.excluded_combinations.is_empty() {
        "\nexcluded: []\n"
    } else {
        "\nexcluded:\n"
    });
    for excluded in &published.excluded_combinations {
        let from: GardenLinuxVersion = excluded.os_version_min.parse()?;
        let prefix = &excluded.driver_version_prefix;
        let number: u16 = prefix
            .parse()
            .with_context(|| format!("{prefix:?} is no branch"))?;
        let Ok(branch) = DriverBranch::try_from(number) else {
            writeln!(
                said,
                "- left out: the exclusion of branch {number}, which the module does not have"
            )?;
            continue;
        };
        let mut known = before.excluded.iter();
        let why = known.find(|known| known.branch == branch && known.from == from);
        let why = why.map_or_else(
            || {
                let _ = writeln!(
                    said,
                    "- say why driver {branch} has no image from Garden Linux {from} on"
                );
                format!("driver {branch} has no image from Garden Linux {from} on")
            },
            |known| known.why.clone(),
        );
        let from = scalar(&excluded.os_version_min);
        writeln!(text, "  - branch: {branch}\n    from: {from}\n    why: {why}")?;
    }
    Ok(text)
}

fn major(version: &str) -> String {
    version.split('.').next().unwrap_or_default().to_owned()
}

/// A version as YAML reads it as a text: with one dot it would be a number.
fn scalar(version: &str) -> String {
    if version.matches('.').count() == 1 {
        format!("\"{version}\"")
    } else {
        version.to_owned()
    }
}

/// Items of a list: names and versions, nothing that YAML or a person could take for something else.
fn words(list: &[String]) -> Result<String> {
    let mut text = String::new();
    for word in list {
        let harmless = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
        ensure!(
            !word.is_empty() && word.chars().all(harmless),
            "{word:?} in versions.yaml"
        );
        writeln!(text, "  - {word}")?;
    }
    Ok(text)
}
