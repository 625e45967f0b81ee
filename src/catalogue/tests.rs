use super::*;

fn catalogue() -> Catalogue {
    Catalogue::compiled_in().unwrap()
}

#[test]
fn compiled_in_catalogue_offers_the_documented_versions() {
    let catalogue = catalogue();
    let offered: Vec<_> = catalogue
        .installable()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    let mut newest_first: Vec<_> = catalogue.installable();
    newest_first.sort_by(|a, b| b.cmp(a));
    assert_eq!(catalogue.installable(), newest_first);
    for documented in ["26.7.0", "26.3.3"] {
        assert!(offered.iter().any(|version| version == documented), "{offered:?}");
    }
    assert_eq!(catalogue.default_chart().unwrap().version, Version::new(26, 7, 0));
    assert_eq!(
        catalogue.chart(&Version::new(25, 10, 1)).unwrap().stage,
        Stage::UpgradeFrom
    );
    assert_eq!(catalogue.defaults.driver.branch, DriverBranch::R580);
}

#[test]
fn every_offered_line_is_reached_from_a_known_one() {
    let catalogue = catalogue();
    let lines: Vec<_> = catalogue.charts().map(Chart::line).collect();
    for chart in catalogue.charts().filter(|chart| chart.stage == Stage::Install) {
        assert!(
            lines.contains(&chart.upgrades_from),
            "{} cannot be reached",
            chart.version
        );
    }
}

#[test]
fn the_way_to_a_chart_skips_no_line() {
    let catalogue = catalogue();
    let newest = catalogue.default_chart().unwrap();
    let step = |installed: &str| {
        let next = catalogue.next_step(&installed.parse().unwrap(), newest);
        next.map(|chart| chart.version.to_string())
            .map_err(|line| line.to_string())
    };
    assert_eq!(step("26.7.0"), Ok("26.7.0".to_owned()));
    assert_eq!(step("26.3.1"), Ok("26.7.0".to_owned()));
    assert_eq!(step("25.10.1"), Ok("26.3.3".to_owned()));
    assert_eq!(
        step("25.3.4"),
        Err("25.10".to_owned()),
        "25.10 is only upgraded from"
    );
}

#[test]
fn the_same_files_load_from_a_folder() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("chart-values");
    let loaded = Catalogue::from_folder(&folder).unwrap();
    assert_eq!(format!("{loaded:?}"), format!("{:?}", catalogue()));
}

/// A folder with a catalogue that has no chart yet, and the text of chart 26.7.0.
fn folder_without_charts() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("chart-values");
    std::fs::create_dir(folder.path().join("charts")).unwrap();
    for entry in std::fs::read_dir(&source).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let chart = std::fs::read_to_string(source.join("charts/26.7.0.yaml")).unwrap();
    (folder, chart)
}

#[test]
fn two_files_of_one_version_are_refused() {
    let (folder, chart) = folder_without_charts();
    let charts = folder.path().join("charts");
    std::fs::write(charts.join("26.7.0.yaml"), &chart).unwrap();
    Catalogue::from_folder(folder.path()).unwrap();
    std::fs::write(charts.join("copy.yaml"), &chart).unwrap();
    let error = Catalogue::from_folder(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("version 26.7.0 stands in more than one file"),
        "{error}"
    );
}

#[test]
fn contradicting_charts_are_refused() {
    let (folder, chart) = folder_without_charts();
    for (from, to, complaint) in [
        ("sha256: bf6b", "sha256: BF6B", "SHA-256"),
        ("upgradesFrom: \"26.3\"", "upgradesFrom: \"26.7\"", "not older"),
        (
            "driverLayout: NVIDIADriver",
            "driverLayout: ClusterPolicy",
            "exactly when",
        ),
        ("stage: Install", "stage: Retired", "default chart version 26.7.0"),
        ("stage: Install", "stage: Sometimes", "26.7.0.yaml"),
        ("ownedValues:", "ownedVariables:", "26.7.0.yaml"),
    ] {
        assert!(chart.contains(from), "{from}");
        std::fs::write(folder.path().join("charts/26.7.0.yaml"), chart.replace(from, to)).unwrap();
        let error = Catalogue::from_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{to}: {error}");
    }
}

#[test]
fn minor_versions_are_ordered_by_number() {
    let parse = |text: &str| text.parse::<MinorVersion>().unwrap();
    assert!(parse("25.10") > parse("25.3"));
    assert_eq!(parse("1.33+"), parse("1.33"));
    assert!("1".parse::<MinorVersion>().is_err());
    assert!("1.x".parse::<MinorVersion>().is_err());
}

#[test]
fn contradicting_drivers_and_instance_types_are_refused() {
    let (folder, chart) = folder_without_charts();
    std::fs::write(folder.path().join("charts/26.7.0.yaml"), chart).unwrap();
    // Releases come and go; the test must not name one.
    let known = Catalogue::compiled_in().unwrap();
    let (defaults, matrix) = (&known.defaults.driver, &known.drivers);
    let release = &matrix.installer_release;
    let driver = matrix.driver(defaults.branch).unwrap();
    let systems: Vec<_> = matrix
        .garden_linux
        .iter()
        .flat_map(|line| &line.versions)
        .collect();
    let (first, second) = (systems[0].to_string(), format!("- {}", systems[1]));
    for (file, from, to, complaint) in [
        (
            "drivers.yaml",
            &*format!("installerRelease: {release}"),
            "installerRelease: 99.0.0",
            &*format!("while the default is {release}"),
        ),
        (
            "drivers.yaml",
            &*format!("- {driver}"),
            "- 999.1.1",
            &*format!("branch {}", defaults.branch),
        ),
        (
            "drivers.yaml",
            &second,
            &*format!("- {first}"),
            &*format!("Garden Linux {first} twice"),
        ),
        (
            "drivers.yaml",
            &second,
            "- today",
            "not a version of Garden Linux",
        ),
        ("drivers.yaml", "- metal", "- firecracker", "drivers.yaml"),
        (
            "instance-types.yaml",
            "- g5.*",
            "- g*.xlarge",
            "'g*.xlarge' for aws",
        ),
        ("instance-types.yaml", "- g5.*", "- \"*\"", "'*' for aws"),
    ] {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let error = Catalogue::from_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{to}: {error}");
        std::fs::write(&path, text).unwrap();
    }
}

#[test]
fn the_installer_may_give_a_branch_up() {
    let (folder, chart) = folder_without_charts();
    std::fs::write(folder.path().join("charts/26.7.0.yaml"), chart).unwrap();
    let known = Catalogue::compiled_in().unwrap();
    let (default, matrix) = (known.defaults.driver.branch, &known.drivers);
    let other = DriverBranch::ALL
        .into_iter()
        .find(|branch| *branch != default)
        .unwrap();
    let path = folder.path().join("drivers.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let without = |branch| {
        let driver = format!("  - {}\n", matrix.driver(branch).unwrap());
        std::fs::write(&path, text.replace(&driver, "")).unwrap();
        Catalogue::from_folder(folder.path())
    };
    assert_eq!(without(other).unwrap().drivers.driver(other), None);
    assert!(without(default).is_err());
}

#[test]
fn versions_of_garden_linux_are_ordered_by_number() {
    let parse = |text: &str| text.parse::<GardenLinuxVersion>().unwrap();
    assert!(parse("1877.23") < parse("2150.0.0"));
    assert!(parse("1877.9") < parse("1877.23"));
    assert!(parse("2150.10.0") > parse("2150.9.0"));
    assert_eq!(parse("1877.23"), parse("1877.23.0"));
    for text in ["", "today", "1877.", "1877.x", "1.2.3.4", "-1.2"] {
        assert!(text.parse::<GardenLinuxVersion>().is_err(), "{text}");
    }
}
