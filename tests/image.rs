//! Reads the Dockerfile, since not every machine can build it: all is pinned, what is copied is there, and the last stage is
//! small, without rights, and without a shell.

#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gpu_manager::catalogue::Catalogue;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The instructions, continued lines joined, comments left out.
fn instructions() -> Vec<(String, String)> {
    let text = read("Dockerfile");
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let words = joined.lines().filter_map(|line| line.trim().split_once(' '));
    words
        .map(|(word, rest)| (word.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// The stages: their base image and their instructions.
fn stages() -> Vec<(String, Vec<(String, String)>)> {
    let mut arguments = BTreeMap::new();
    let mut stages: Vec<(String, Vec<_>)> = vec![];
    for (word, rest) in instructions() {
        match (word.as_str(), stages.last_mut()) {
            ("ARG", None) => {
                let (name, value) = rest.split_once('=').expect("an argument with a value");
                arguments.insert(format!("${{{name}}}"), value.to_owned());
            }
            ("FROM", _) => {
                let image = rest.split(' ').next().expect("an image");
                let image = arguments.get(image).map_or(image, String::as_str);
                stages.push((image.to_owned(), vec![]));
            }
            (_, Some((_, instructions))) => instructions.push((word, rest)),
            (word, None) => assert_eq!(word, "FROM", "an instruction before the first stage"),
        }
    }
    stages
}

/// A directive in a comment would have another builder fetched, under a name that moves.
#[test]
fn the_builder_is_the_engines_own() {
    for line in read("Dockerfile")
        .lines()
        .take_while(|line| line.starts_with('#'))
    {
        let directive = line.trim_start_matches(['#', ' ']).split_once('=');
        assert!(
            directive.is_none_or(|(name, _)| name.trim().contains(' ')),
            "{line}"
        );
    }
}

#[test]
fn every_base_is_pinned_by_digest() {
    let stages = stages();
    assert_eq!(stages.len(), 3, "{stages:?}");
    for (image, _) in stages {
        let (name, digest) = image.split_once("@sha256:").expect("a digest");
        assert!(name.contains(':'), "{name} has no tag for people");
        assert!(
            digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()),
            "{image}"
        );
    }
}

#[test]
fn the_tool_chains_are_those_of_the_repository() {
    let stages = stages();
    let toolchain = read("rust-toolchain.toml");
    let rust = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .expect("a channel");
    assert!(
        stages[0].0.contains(&format!("rust:{}-", rust.trim_matches('"'))),
        "{}",
        stages[0].0
    );
    let module = read("hack/tools/helm4/go.mod");
    let go = module
        .lines()
        .find_map(|line| line.strip_prefix("go "))
        .expect("a version of Go");
    let line = go.rsplit_once('.').expect("a patch version").0;
    assert!(
        stages[1].0.contains(&format!("golang:{line}.")),
        "{} and go {go}",
        stages[1].0
    );
    // Both programs are made for the same C library.
    for image in [&stages[0].0, &stages[1].0] {
        assert!(image.contains("bookworm"), "{image}");
    }
    assert!(stages[2].0.contains("debian12"), "{}", stages[2].0);
}

#[test]
fn helm_is_built_from_the_module_that_the_tests_run() {
    let (_, helm) = &stages()[1];
    let copied: Vec<_> = helm
        .iter()
        .filter(|(word, _)| word == "COPY")
        .map(|(_, rest)| rest.as_str())
        .collect();
    assert_eq!(copied, ["hack/tools/helm4/go.mod hack/tools/helm4/go.sum ./"]);
    let build = helm
        .iter()
        .find(|(word, _)| word == "RUN")
        .map(|(_, rest)| rest.as_str())
        .expect("a build");
    // The version comes from go.mod, the content is checked against go.sum.
    assert!(
        build.contains("go list -m") && build.contains("helm.sh/helm/v4/cmd/helm"),
        "{build}"
    );
    assert!(
        !build.contains("GONOSUMDB") && !build.contains("GOFLAGS=-insecure"),
        "{build}"
    );
    assert!(read("hack/tools/helm4/go.mod").contains("helm.sh/helm/v4 v4."));
}

#[test]
fn the_last_stage_has_three_things_and_no_shell() {
    let stages = stages();
    let (image, instructions) = stages.last().expect("a stage");
    assert!(
        image.contains("/distroless/") && !image.contains("debug"),
        "{image}"
    );
    let of = |word: &str| -> Vec<&str> {
        let all = instructions.iter().filter(|(found, _)| found == word);
        all.map(|(_, rest)| rest.as_str()).collect()
    };
    assert_eq!(of("RUN"), Vec::<&str>::new());
    assert_eq!(of("USER"), ["65532:65532"]);
    assert_eq!(of("ENTRYPOINT"), [r#"["/usr/local/bin/gpu-manager"]"#]);
    let targets: Vec<_> = of("COPY")
        .iter()
        .filter_map(|copy| copy.rsplit(' ').next())
        .collect();
    assert_eq!(
        targets,
        ["/usr/local/bin/helm", "/usr/local/bin/gpu-manager", "/charts/"]
    );
    // The charts are checked before each use: the operator knows their digests.
    for chart in Catalogue::compiled_in().expect("a catalogue").charts() {
        assert_eq!(chart.sha256.len(), 64, "{}", chart.version);
    }
}

#[test]
fn what_is_copied_is_there_and_reaches_the_build() {
    let ignore = read(".dockerignore");
    let let_in: Vec<_> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert!(
        ignore.lines().any(|line| line == "*"),
        "what is not named stays out"
    );
    let mut seen = 0;
    for (word, rest) in stages().into_iter().flat_map(|(_, instructions)| instructions) {
        if word != "COPY" || rest.contains("--from=") {
            continue;
        }
        let mut sources: Vec<_> = rest.split(' ').filter(|word| !word.starts_with("--")).collect();
        sources.pop();
        for source in sources {
            // `make charts` fills that folder.
            assert!(
                root().join(source).exists() || source.starts_with("charts/"),
                "{source} is not there"
            );
            let is_in = |entry: &&str| Path::new(source).starts_with(entry);
            assert!(let_in.iter().any(is_in), ".dockerignore keeps {source} out");
            seen += 1;
        }
    }
    assert!(seen > 5, "only {seen} sources");
}

#[test]
fn the_build_of_the_operator_gets_all_that_cargo_needs() {
    let (_, operator) = &stages()[0];
    let all = operator.iter().filter(|(word, _)| word == "COPY");
    let copied: Vec<_> = all.flat_map(|(_, rest)| rest.split(' ')).collect();
    // Files that the source includes, and members of the workspace.
    for needed in ["Cargo.lock", "src", "chart-values", "crds", "e2e"] {
        assert!(copied.contains(&needed), "{needed}");
    }
    let build_script = root().join("build.rs").exists();
    assert!(
        !build_script || copied.contains(&"build.rs"),
        "build.rs is not copied"
    );
}
