//! Reads the workflows: what runs there has no more rights than it needs and runs nothing that can change under its name, and
//! what they call is there.

#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

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

/// What a job's token may write.
fn written(job: &Value) -> BTreeSet<&str> {
    let permissions = job["permissions"].as_object().expect("permissions of each job");
    permissions
        .iter()
        .filter(|(_, right)| *right == "write")
        .map(|(what, _)| what.as_str())
        .collect()
}

/// All that a job's steps run.
fn script(job: &Value) -> String {
    let runs: Vec<_> = steps(job)
        .iter()
        .filter_map(|step| step["run"].as_str())
        .collect();
    runs.join("\n")
}

/// All that the steps run.
fn commands(workflow: &Value) -> String {
    let scripts: Vec<_> = jobs(workflow).into_iter().map(|(_, job)| script(job)).collect();
    scripts.join("\n")
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
            let written = written(content);
            let expected: &[&str] = match (name.as_str(), job.as_str()) {
                ("release.yaml", "image") => &["packages"],
                ("release.yaml", "publish") => &["contents", "packages"],
                ("update.yaml", "propose") => &["contents", "pull-requests"],
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

/// Build scripts, and charts that nobody has looked at, are other people's programs.
#[test]
fn who_may_write_runs_no_program_of_the_project() {
    for (name, workflow) in workflows() {
        for (job, content) in jobs(&workflow) {
            if written(content).is_empty() {
                continue;
            }
            let script = script(content);
            for word in script.split_whitespace() {
                let program = ["make", "cargo", "go", "helm"].contains(&word) || word.starts_with("hack/");
                assert!(!program, "{name}: {job} may write and runs {word}");
            }
        }
    }
}

#[test]
fn a_token_is_seen_by_the_steps_that_need_it() {
    for (name, workflow) in workflows() {
        let has_token = |part: &Value| {
            let text = part.to_string();
            text.contains("github.token") || text.contains("secrets.")
        };
        assert!(!has_token(&workflow["env"]), "{name}: every step has the token");
        for (job, content) in jobs(&workflow) {
            assert!(
                !has_token(&content["env"]),
                "{name}: every step of {job} has the token"
            );
            for step in steps(content) {
                let run = step["run"].as_str().unwrap_or_default();
                let needs = run.contains("gh ") || run.contains("docker login");
                assert!(needs || !has_token(step), "{name}: {job}: {step}");
                // `git push` takes what the checkout has kept.
                let checkout = step["uses"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("actions/checkout@");
                let pushes = script(content).contains("git push");
                let kept = step["with"]["persist-credentials"] != false;
                assert!(
                    !checkout || pushes || !kept,
                    "{name}: {job} keeps the token in .git/config"
                );
            }
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
        for line in commands.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "make") {
                let named = words[at + 1..].iter().map(|word| word.trim_end_matches(';'));
                for target in named.take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())) {
                    assert!(targets.contains(target), "make {target}");
                    called.insert(target.to_owned());
                }
            }
        }
        let files = commands
            .split_whitespace()
            .filter(|word| word.starts_with("hack/"));
        for file in files.filter(|file| !file.contains('*')) {
            assert!(root().join(file).exists(), "{file}");
        }
    }
    for wanted in [
        "lint",
        "generated",
        "test",
        "charts",
        "manifests",
        "rbac",
        "form",
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

fn workflow(name: &str) -> Value {
    serde_saphyr::from_str(&read(&format!(".github/workflows/{name}"))).expect("YAML")
}

/// What `make manifests` would refuse is refused before an image is pushed, by the same line of the same file.
#[test]
fn a_release_is_made_once_from_main_with_an_entry() {
    let release = workflow("release.yaml");
    let jobs = jobs(&release);
    let first = |job: &Value| job["needs"].is_null();
    let [(_, check)] = jobs.iter().filter(|(_, job)| first(job)).collect::<Vec<_>>()[..] else {
        panic!("more than one job waits for nothing")
    };
    // Its reviewers are asked before anything runs.
    assert_eq!(check["environment"], "release");
    assert!(written(check).is_empty());
    let script = script(check);
    for refusal in [
        r#""$GITHUB_REF" = refs/heads/main"#,
        r#"grep -q "^version = \"$VERSION\"" Cargo.toml"#,
        r#"grep -Fqx "  - version: $VERSION" hack/deploy/release.yaml"#,
        "git/matching-refs/tags/$VERSION",
        "repos/$GITHUB_REPOSITORY/releases",
        r#"docker manifest inspect "$IMAGE:$VERSION""#,
    ] {
        assert!(script.contains(refusal), "{refusal}");
    }
    let version = format!("  - version: {}", env!("CARGO_PKG_VERSION"));
    assert!(
        read("hack/deploy/release.yaml")
            .lines()
            .any(|line| line == version)
    );
    // A registry refuses capitals, which an owner's name may have.
    assert!(script.contains("${GITHUB_REPOSITORY,,}"));
    assert!(!read(".github/workflows/release.yaml").contains("ghcr.io/${{"));
}

/// A branch without a pull request is what a run left that failed between the two.
#[test]
fn a_change_counts_as_proposed_once_there_is_a_pull_request() {
    let update = workflow("update.yaml");
    let propose = script(&update["jobs"]["propose"]);
    let asked = propose.find(r#"gh pr list --head "$branch" --state all"#);
    assert!(asked.expect("a question") < propose.find("git push --force").expect("a push"));
    assert!(!propose.contains("git ls-remote"));
    // Each by itself: what the one breaks must not hide the other.
    for job in ["try", "propose"] {
        let what = &update["jobs"][job]["strategy"]["matrix"]["what"];
        assert_eq!(what, &serde_json::json!(["chart", "installer"]), "{job}");
    }
}
