use std::fs;
use std::path::Path;

use gpu_manager::catalogue::Catalogue;

use super::*;
use crate::tools::repository_root;

/// A copy of `chart-values`.
fn catalogue() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&repository_root().join("chart-values"), folder.path());
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn read(folder: &tempfile::TempDir, file: &str) -> String {
    fs::read_to_string(folder.path().join(file)).unwrap()
}

/// The index of a chart repository with these versions of the chart, beside other charts.
fn index(versions: &[(&str, &str)]) -> String {
    let entry = |(version, digest): &(&str, &str)| {
        format!("  - apiVersion: v2\n    digest: {digest}\n    name: gpu-operator\n    version: {version}\n")
    };
    let entries: String = versions.iter().map(entry).collect();
    let other = "  a-chart:\n  - digest: 0\n    version: v99.0.0\n";
    format!(
        "apiVersion: v1\nentries:\n{other}  gpu-operator:\n{entries}  z-chart:\n  - version: 98.0\n    digest: 1\n"
    )
}

/// A `versions.yaml` as the installer has it.
fn versions(garden_linux: &[&str], drivers: &[&str]) -> String {
    let list = |items: &[&str]| {
        items
            .iter()
            .fold(String::new(), |text, item| text + "- '" + item + "'\n")
    };
    format!(
        "os_versions:\n{}kernel_flavour:\n- cloud\n- metal\ncpu_arch:\n- amd64\nnvidia_drivers:\n{}\
         excluded_combinations:\n- os_version_min: 2150.8.0\n  driver_version_prefix: '570'\n  reason: 'a: b'\n",
        list(garden_linux),
        list(drivers)
    )
}

const DRIVERS: [&str; 3] = ["590.60.01", "580.190.02", "570.220.01"];

#[test]
fn a_newer_chart_is_drafted_from_the_newest_known() {
    let folder = catalogue();
    let (older, newer) = ("a".repeat(64), "b".repeat(64));
    let known = index(&[
        ("v26.7.0", &older),
        ("v26.3.3", &newer),
        ("v90.0.0-rc.1", &newer),
        ("v91.0.0", "no-digest"),
    ]);
    assert_eq!(chart::propose(folder.path(), &known).unwrap(), None);

    let newer_line = index(&[("v26.7.0", &older), ("v26.11.1", &newer)]);
    let said = chart::propose(folder.path(), &newer_line).unwrap().unwrap();
    assert_eq!(said, "- NVIDIA's chart 26.11.1 (the newest known was 26.7.0)");
    let draft = read(&folder, "charts/26.11.1.yaml");
    for line in [
        "# gpu-operator v26.11.1, drafted from 26.7.0: look at each line.",
        "version: 26.11.1",
        &format!("sha256: {newer}"),
        "upgradesFrom: \"26.7\"",
    ] {
        assert!(draft.lines().any(|found| found == line), "{line} in {draft}");
    }
    // Known by now, and a patch of it comes from where it came from.
    assert_eq!(chart::propose(folder.path(), &newer_line).unwrap(), None);
    let patch = index(&[("v26.11.2", &newer)]);
    assert!(chart::propose(folder.path(), &patch).unwrap().is_some());
    assert!(read(&folder, "charts/26.11.2.yaml").contains("\nupgradesFrom: \"26.7\"\n"));
    Catalogue::from_folder(folder.path()).unwrap();
}

#[test]
fn a_newer_installer_brings_its_matrix() {
    let folder = catalogue();
    let current = Catalogue::compiled_in().unwrap().drivers.installer_release;
    let text = versions(&["2150.10.0", "1877.24", "2300.0.0"], &DRIVERS);
    assert_eq!(installer::propose(folder.path(), &current, &text).unwrap(), None);

    let said = installer::propose(folder.path(), "99.1.0", &text)
        .unwrap()
        .unwrap();
    assert_eq!(
        said,
        format!(
            "- installer release 99.1.0 (was {current})\n\
             - left out: Garden Linux 2300.0.0, whose kernel the catalogue does not know"
        )
    );
    // The catalogue takes both files together.
    let proposed = Catalogue::from_folder(folder.path()).unwrap();
    assert_eq!(proposed.defaults.driver.installer_release, "99.1.0");
    assert_eq!(proposed.drivers.drivers, DRIVERS);
    let lines = proposed.drivers.garden_linux.iter().map(|line| {
        let versions: Vec<_> = line.versions.iter().map(ToString::to_string).collect();
        format!("{} {}", line.kernel, versions.join(" "))
    });
    assert_eq!(lines.collect::<Vec<_>>(), ["6.18 2150.10.0", "6.12 1877.24.0"]);
    let before = Catalogue::compiled_in().unwrap().drivers;
    assert_eq!(proposed.drivers.excluded[0].why, before.excluded[0].why);
}

/// The file is exactly what a release's `versions.yaml` makes, so that a proposed change shows what differs and nothing else.
#[test]
fn the_matrix_that_is_there_would_be_written_the_same_way() {
    let matrix = Catalogue::compiled_in().unwrap().drivers;
    let before = fs::read_to_string(repository_root().join("chart-values/drivers.yaml")).unwrap();
    let listed = |after: &str| -> Vec<&str> {
        let lines = before.lines().skip_while(|line| *line != after).skip(1);
        let lines = lines.filter_map(|line| line.strip_prefix("      - "));
        lines.map(|version| version.trim_matches('"')).collect()
    };
    let drivers: Vec<_> = matrix.drivers.iter().map(String::as_str).collect();
    let text = versions(&listed("gardenLinux:"), &drivers);
    let folder = catalogue();
    installer::propose(folder.path(), "99.1.0", &text).unwrap();
    let release = &matrix.installer_release;
    assert_eq!(read(&folder, "drivers.yaml").replace("99.1.0", release), before);
}

/// A tag is any text that git allows.
#[test]
fn what_is_no_version_reaches_no_file() {
    let folder = catalogue();
    let (defaults, drivers) = (read(&folder, "defaults.yaml"), read(&folder, "drivers.yaml"));
    let good = versions(&["2150.10.0"], &DRIVERS);
    for tag in [
        "9;id>pwned;echo/e;s/a/a",
        "9.9.9-rc.1",
        "9.9.9\n  repository: x",
        "../1.2.3",
        "",
    ] {
        assert!(installer::propose(folder.path(), tag, &good).is_err(), "{tag}");
    }
    for bad in [
        versions(&["2150.10.0", "1: 2"], &DRIVERS),
        versions(&["2150.10.0"], &["590.1.1 # x", "580.1.1", "570.1.1"]),
        good.replace("amd64", "'a\nb'"),
        good.replace("'570'", "'570: x'"),
    ] {
        assert!(
            installer::propose(folder.path(), "99.1.0", &bad).is_err(),
            "{bad}"
        );
    }
    assert_eq!(read(&folder, "defaults.yaml"), defaults);
    assert_eq!(read(&folder, "drivers.yaml"), drivers);
}
