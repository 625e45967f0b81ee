//! Reads the workflows: what runs there has no more rights than it needs and runs nothing that can change under its name, and
//! what they call is there.

#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// Each workflow by its file name.
fn workflows() -> Vec<(String, Value)> {
    let entries = fs::read_dir(root().join(".github/workflows")).expect("a folder");
    let mut found: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a text");
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, serde_saphyr::from_str(&text).expect("YAML"))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn jobs(workflow: &Value) -> Vec<(&String, &Value)> {
    workflow["jobs"].as_object().expect("jobs").iter().collect()
}

fn steps(job: &Value) -> &[Value] {
    job["steps"].as_array().expect("steps")
}

/// All that the steps run.
fn commands(workflow: &Value) -> String {
    let runs = jobs(workflow).into_iter().flat_map(|(_, job)| steps(job));
    let runs: Vec<_> = runs.filter_map(|step| step["run"].as_str()).collect();
    runs.join("\n")
}

#[test]
fn there_are_three() {
    let names: Vec<_> = workflows().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["ci.yaml", "release.yaml", "update.yaml"]);
}

#[test]
fn nobody_has_rights_that_a_job_does_not_name() {
    for (name, workflow) in workflows() {
        assert_eq!(workflow["permissions"], serde_json::json!({}), "{name}");
        for (job, content) in jobs(&workflow) {
            let permissions = content["permissions"]
                .as_object()
                .expect("permissions of each job");
            let written: BTreeSet<&str> = permissions
                .iter()
                .filter(|(_, right)| *right == "write")
                .map(|(what, _)| what.as_str())
                .collect();
            let expected: &[&str] = match (name.as_str(), job.as_str()) {
                ("release.yaml", "image") => &["packages"],
                ("release.yaml", "publish") => &["contents", "packages"],
                ("update.yaml", "update") => &["contents", "pull-requests"],
                _ => &[],
            };
            assert_eq!(written, expected.iter().copied().collect(), "{name}: {job}");
            assert!(
                content["timeout-minutes"].is_u64(),
                "{name}: {job} may run for ever"
            );
        }
    }
}

#[test]
fn actions_are_pinned_by_commit_and_programs_by_version() {
    for (name, workflow) in workflows() {
        for step in jobs(&workflow).into_iter().flat_map(|(_, job)| steps(job)) {
            if let Some(action) = step["uses"].as_str() {
                let commit = action.split_once('@').expect("a commit").1;
                assert!(
                    commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
                    "{name}: {action}"
                );
            }
        }
        let commands = commands(&workflow);
        for install in commands.lines().filter(|line| line.contains("cargo install")) {
            let programs = install.split(' ').filter(|word| word.starts_with("cargo-"));
            assert!(install.contains("--locked"), "{name}: {install}");
            for program in programs {
                assert!(program.contains('@'), "{name}: {program} has no version");
            }
        }
        // What somebody types must not become a part of a script.
        assert!(!commands.contains("${{"), "{name}: an expression in a script");
    }
}

#[test]
fn what_they_call_is_there() {
    let makefile = read("Makefile");
    let targets: BTreeSet<_> = makefile
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    let mut called = BTreeSet::new();
    for (_, workflow) in workflows() {
        let commands = commands(&workflow);
        let words: Vec<_> = commands.split_whitespace().collect();
        for pair in words.windows(2).filter(|pair| pair[0] == "make") {
            let target = pair[1].trim_end_matches(';');
            assert!(targets.contains(target), "make {target}");
            called.insert(target.to_owned());
        }
        for script in words.iter().filter(|word| word.starts_with("hack/")) {
            assert!(root().join(script).exists(), "{script}");
        }
    }
    for wanted in [
        "lint",
        "generated",
        "test",
        "charts",
        "manifests",
        "rbac",
        "catalogue",
    ] {
        assert!(called.contains(wanted), "nobody calls make {wanted}");
    }
}

/// A shell without pipefail takes a failing program for a good one if another reads what it prints.
#[test]
fn no_pipe_hides_a_failure() {
    for (name, workflow) in workflows() {
        let pipes = commands(&workflow)
            .lines()
            .any(|line| line.replace("||", "").contains(" | "));
        assert!(
            !pipes || workflow["defaults"]["run"]["shell"] == "bash",
            "{name} pipes without `shell: bash`"
        );
    }
}

/// What `make manifests` would refuse is refused before an image is pushed, by the same line of the same file.
#[test]
fn a_release_without_an_entry_stops_before_its_image_is_pushed() {
    let release = commands(&serde_saphyr::from_str(&read(".github/workflows/release.yaml")).expect("YAML"));
    let check = release.find(r#"grep -Fqx "  - version: $VERSION" hack/deploy/release.yaml"#);
    let push = release.find("docker push");
    assert!(check.expect("a check") < push.expect("a push"));
    let version = format!("  - version: {}", env!("CARGO_PKG_VERSION"));
    assert!(
        read("hack/deploy/release.yaml")
            .lines()
            .any(|line| line == version)
    );
}

/// A folder as `hack/update.sh` finds it.
fn checkout() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let charts = folder.path().join("chart-values/charts");
    fs::create_dir_all(&charts).expect("a folder");
    fs::create_dir(folder.path().join("hack")).expect("a folder");
    for file in ["hack/update.sh", "chart-values/defaults.yaml"] {
        fs::copy(root().join(file), folder.path().join(file)).expect(file);
    }
    for entry in fs::read_dir(root().join("chart-values/charts")).expect("a folder") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), charts.join(entry.file_name())).expect("a copy");
    }
    folder
}

#[expect(clippy::disallowed_methods, reason = "no part of the operator")]
fn update(folder: &tempfile::TempDir, index: &str, installer: &str) -> String {
    fs::write(folder.path().join("index.yaml"), index).expect("an index");
    let output = Command::new("bash")
        .arg(folder.path().join("hack/update.sh"))
        .arg(folder.path().join("index.yaml"))
        .arg(installer)
        .output()
        .expect("bash");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("a text")
}

/// The index of a chart repository with these versions of the chart, after another chart.
fn index(versions: &[(&str, &str)]) -> String {
    let entry = |(version, digest): &(&str, &str)| {
        format!("  - apiVersion: v2\n    digest: {digest}\n    name: gpu-operator\n    version: {version}\n")
    };
    let entries: String = versions.iter().map(entry).collect();
    let other = "  a-chart:\n  - digest: 0\n    version: v99.0.0\n";
    format!(
        "apiVersion: v1\nentries:\n{other}  gpu-operator:\n{entries}  z-chart:\n  - version: v98.0.0\n    digest: 1\n"
    )
}

#[test]
fn what_is_new_is_proposed_and_nothing_else() {
    let folder = checkout();
    let (older, newer) = ("a".repeat(64), "b".repeat(64));
    let defaults = read("chart-values/defaults.yaml");
    let installer = defaults
        .lines()
        .find_map(|line| line.strip_prefix("  installerRelease: "))
        .expect("a release");
    let known = index(&[("v26.7.0", &older), ("v26.3.3", &newer), ("v90.0.0-rc.1", &newer)]);
    assert_eq!(update(&folder, &known, installer), "");

    let found = update(
        &folder,
        &index(&[("v26.7.0", &older), ("v26.11.1", &newer)]),
        "v9.9.9",
    );
    assert!(
        found.contains("chart 26.11.1") && found.contains("release 9.9.9"),
        "{found}"
    );
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).expect(file);
    let chart = read("chart-values/charts/26.11.1.yaml");
    for line in [
        "version: 26.11.1",
        &format!("sha256: {newer}"),
        "upgradesFrom: \"26.7\"",
    ] {
        assert!(chart.lines().any(|found| found == line), "{line} in {chart}");
    }
    assert!(read("chart-values/defaults.yaml").contains("installerRelease: 9.9.9"));
    // Known by now.
    assert_eq!(update(&folder, &index(&[("v26.11.1", &newer)]), "9.9.9"), "");
}
