//! Compares the documentation with what it speaks of: every reason, field, default and metric that a user can meet is written
//! down, nothing is written down that is not there, and links lead somewhere.

#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gpu_manager::api::{ConditionType, GpuModule, NodeFeatureDiscovery};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired::resolve;

/// Where reasons of conditions and Events come from.
const SOURCES: &[&str] = &[
    "nodes",
    "plan",
    "status",
    "desired",
    "act",
    "reconcile",
    "publish.rs",
];

/// Words of the same shape that are no reasons.
const NO_REASONS: &[&str] = &[
    // Kinds.
    "ClusterPolicy",
    "ClusterRole",
    "CustomResourceDefinition",
    "DaemonSet",
    "NVIDIADriver",
    "Namespace",
    "Node",
    "RoleBinding",
    "ServiceAccount",
    // What others write into their conditions, and the statuses of conditions.
    "Established",
    "DriverNotReady",
    "ReconcileFailed",
    "False",
    "True",
    "Unknown",
    // Values of the chart and of labels.
    "Always",
    "AsConfigured",
    "Held",
    // What an Event is about, and the name of a struct.
    "Publisher",
    "Delete",
    "Prune",
    "Reapply",
];

/// The reference of the GpuModule.
const REFERENCE: &str = "docs/user/resources/06-10-gpumodule-cr.md";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// The documentation.
fn texts() -> Vec<PathBuf> {
    let mut texts = files(&root().join("docs"), "md");
    texts.extend(
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(|name| root().join(name)),
    );
    texts
}

/// Files below a path, or the one file that it is.
fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).expect("a folder");
    let mut found = vec![];
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() || path.extension().is_some_and(|found| found == extension) {
            found.extend(files(&path, extension));
        }
    }
    found
}

fn is_test(path: &Path) -> bool {
    let part = |part: &str| path.iter().any(|found| found == part);
    part("tests") || part("tests.rs")
}

/// Words like `NodesNotUsable` in quotation marks.
fn words(code: &str) -> BTreeSet<&str> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code);
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .filter(|text| is_word(text))
        .collect()
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.len() > 1
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.chars().any(|c| c.is_ascii_lowercase())
}

/// The reasons that the source under `paths` gives, and words of their shape.
fn words_of(paths: impl IntoIterator<Item = PathBuf>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths.into_iter().filter(|path| !is_test(path)) {
        let code = fs::read_to_string(&path).expect("a text");
        found.extend(words(&code).into_iter().map(ToOwned::to_owned));
    }
    found
}

/// `NodeNotReady` as the name of a page: `node-not-ready`. A row of capitals is one word.
fn kebab(word: &str) -> String {
    let letters: Vec<_> = word.chars().collect();
    let mut name = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && !letters[at - 1].is_uppercase();
        let before_small = at > 0 && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (after_small || before_small) {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// The headings of a page with their level.
fn headings(text: &str) -> Vec<(usize, &str)> {
    let lines = without_code(text).into_iter();
    lines
        .filter_map(|line| {
            let heading = line.trim_start_matches('#');
            let level = line.len() - heading.len();
            (level > 0).then(|| (level, heading.trim()))
        })
        .collect()
}

/// Lines outside of fenced blocks.
fn without_code(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut lines = vec![];
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines
}

/// The headings of one level, each with those right below it.
fn sections<'a>(headings: &[(usize, &'a str)], level: usize) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = vec![];
    for (at, name) in headings {
        if *at == level {
            found.push((name, vec![]));
        } else if *at == level + 1
            && let Some((_, below)) = found.last_mut()
        {
            below.push(name);
        }
    }
    found
}

const TROUBLE: &str = "docs/user/troubleshooting";
const PARTS: [&str; 3] = ["Condition", "Cause", "Solution"];

#[test]
fn each_reason_of_a_node_has_a_page_and_each_page_a_reason() {
    let reasons = words_of([root().join("src/status/nodes/reason.rs")]);
    assert!(reasons.len() > 20, "{reasons:?}");
    let pages = files(&root().join(TROUBLE).join("nodes"), "md");
    let names: BTreeSet<_> = pages
        .iter()
        .filter_map(|page| page.file_stem()?.to_str().map(ToOwned::to_owned))
        .collect();
    assert_eq!(names, reasons.iter().map(|reason| kebab(reason)).collect());
    let index = read(&format!("{TROUBLE}/README.md"));
    for page in pages {
        let text = fs::read_to_string(&page).expect("a text");
        let headings = headings(&text);
        let title = headings[0].1;
        assert!(reasons.contains(title), "{}: {title}", page.display());
        let name = kebab(title);
        assert!(
            page.ends_with(format!("{name}.md")),
            "{}: {title}",
            page.display()
        );
        assert_eq!(sections(&headings, 1), [(title, PARTS.to_vec())]);
        // What it says, and whom to ask.
        let row = format!("| [{title}](nodes/{name}.md) | ");
        let cells = index.lines().find_map(|line| line.strip_prefix(&row));
        assert_eq!(cells.map(|cells| cells.matches(" |").count()), Some(2), "{title}");
    }
}

#[test]
fn each_condition_has_a_page_and_each_reason_a_section() {
    let source = SOURCES
        .iter()
        .flat_map(|source| files(&root().join("src").join(source), "rs"));
    let mut reasons = words_of(source.filter(|path| !path.ends_with("status/nodes/reason.rs")));
    let gone: Vec<_> = NO_REASONS
        .iter()
        .filter(|word| !reasons.contains(**word))
        .collect();
    assert!(
        gone.is_empty(),
        "no longer in the source, so not to be left out: {gone:?}"
    );
    reasons.retain(|word| !NO_REASONS.contains(&word.as_str()));

    let index = read(&format!("{TROUBLE}/README.md"));
    let mut told = BTreeSet::new();
    let mut pages: BTreeSet<_> = ["README".to_owned(), "events".to_owned()].into();
    for kind in ConditionType::ALL {
        let name = kebab(kind.as_str());
        assert!(index.contains(&format!("| [{}]({name}.md) |", kind.as_str())));
        pages.insert(name);
    }
    let there = fs::read_dir(root().join(TROUBLE)).expect("a folder");
    let there = there.map(|entry| entry.expect("an entry").path());
    let there: BTreeSet<_> = there
        .filter(|path| path.is_file())
        .filter_map(|path| path.file_stem()?.to_str().map(ToOwned::to_owned))
        .collect();
    assert_eq!(there, pages);
    for page in pages.iter().filter(|page| *page != "README") {
        let text = read(&format!("{TROUBLE}/{page}.md"));
        for (reason, parts) in sections(&headings(&text), 2) {
            assert_eq!(parts, PARTS, "{page}: {reason}");
            told.insert(reason.to_owned());
        }
    }
    assert_eq!(told, reasons);
}

#[test]
fn defaults_are_those_of_the_catalogue() {
    let catalogue = Catalogue::compiled_in().expect("a catalogue");
    let defaults = &catalogue.defaults;
    let text = read(REFERENCE);
    for (field, default) in [
        ("chartVersion", defaults.chart_version.to_string()),
        ("driver.branch", defaults.driver.branch.to_string()),
        (
            "driver.installerRelease",
            defaults.driver.installer_release.clone(),
        ),
        ("driver.repository", defaults.driver.repository.clone()),
    ] {
        let row = format!("| `spec.{field}` | `{default}` |");
        assert!(text.contains(&row), "{row}");
    }
    for version in catalogue.installable() {
        assert!(text.contains(&format!("`{version}`")), "chart {version}");
    }
}

#[test]
fn every_metric_is_described() {
    // With a sample of each: families without one are left out of an exposition.
    let snapshots = files(&root().join("src/metrics/snapshots"), "snap");
    let texts: Vec<_> = snapshots
        .iter()
        .map(|path| fs::read_to_string(path).expect("a text"))
        .collect();
    let names: BTreeSet<_> = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert!(names.len() > 5, "{names:?}");
    let text = read("docs/user/01-20-monitoring.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeSet<_> = rows
        .filter_map(|row| row.split('`').next())
        .map(|name| name.strip_suffix("_total").unwrap_or(name))
        .collect();
    assert_eq!(told, names);
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = vec![];
    for path in texts() {
        let text = fs::read_to_string(&path).expect("a text");
        let lines = without_code(&text).join("\n");
        let targets = lines
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let there = if file.is_empty() {
                path.clone()
            } else {
                path.with_file_name(file)
            };
            let leads = if heading.is_empty() {
                there.exists()
            } else {
                fs::read_to_string(&there).is_ok_and(|text| anchors(&text).contains(heading))
            };
            if !leads {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

#[test]
fn every_guide_is_in_the_sidebar_and_in_the_overview() {
    let folder = root().join("docs/user");
    let guides: BTreeSet<_> = files(&folder, "md")
        .iter()
        .filter_map(|path| Some(path.strip_prefix(&folder).ok()?.with_extension("")))
        // The overview itself, and the pages that have a list of their own.
        .filter(|path| *path != Path::new("README") && !path.starts_with("troubleshooting"))
        .filter_map(|path| path.to_str().map(ToOwned::to_owned))
        .collect();
    let sidebar = read("docs/user/_sidebar.ts");
    let links = sidebar
        .split("link: './")
        .skip(1)
        .filter_map(|rest| rest.split('\'').next());
    let links: BTreeSet<_> = links.map(ToOwned::to_owned).collect();
    for link in &links {
        assert!(
            root().join("docs/user").join(format!("{link}.md")).exists(),
            "{link}"
        );
    }
    let overview = read("docs/user/README.md");
    for guide in guides {
        assert!(links.contains(&guide), "{guide} is not in the sidebar");
        assert!(
            guide.ends_with("/README") || overview.contains(&format!("]({guide}.md)")),
            "{guide} is not in the overview"
        );
    }
}

/// Programs that every Linux has.
const EVERYWHERE: [&str; 2] = ["/bin/sh", "sleep"];

#[test]
fn what_the_tests_start_is_in_the_list_of_needs() {
    let page = read("CONTRIBUTING.md");
    let list = page.split("You need\n").nth(1).expect("the list of needs");
    let list = list.split("\nNo Docker").next().expect("its end").to_lowercase();
    let needs: BTreeSet<_> = list.split(|c: char| !c.is_alphanumeric()).collect();
    let folders = ["src", "tests", "e2e/src", "e2e/tests"];
    let mut started = BTreeSet::new();
    for path in folders
        .iter()
        .flat_map(|folder| files(&root().join(folder), "rs"))
    {
        let code = fs::read_to_string(&path).expect("a text");
        let programs = code.split("Command::new(\"").skip(1);
        started.extend(programs.filter_map(|rest| Some(rest.split('"').next()?.to_owned())));
    }
    assert!(started.len() > 4, "{started:?}");
    started.retain(|program| !EVERYWHERE.contains(&program.as_str()) && !needs.contains(program.as_str()));
    assert!(started.is_empty(), "{started:?}");
}

#[test]
fn every_test_program_has_a_tier() {
    let page = read("docs/contributor/testing.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let places: String = rows.filter_map(|row| row.split('|').nth(2)).collect();
    for folder in ["tests", "e2e/tests"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(name == "snapshots" || places.contains(name), "{folder}/{name}");
        }
    }
}

/// Words that stay small within a heading.
const SMALL: [&str; 17] = [
    "a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "of", "on", "or", "per", "the", "to",
    "with",
];

#[test]
fn headings_are_in_title_case() {
    let mut wrong = vec![];
    for path in texts() {
        let text = fs::read_to_string(&path).expect("a text");
        for (_, heading) in headings(&text) {
            let words: Vec<_> = heading.split(' ').collect();
            let small = |(at, word): (usize, &&str)| {
                let within = at > 0 && at + 1 < words.len();
                word.starts_with(|first: char| first.is_lowercase()) && !(within && SMALL.contains(word))
            };
            if *heading != *env!("CARGO_PKG_NAME") && words.iter().enumerate().any(small) {
                wrong.push(format!("{}: {heading}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The anchors of the headings; a second one of the same words has a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, heading) in headings(text) {
        let heading = heading.to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor = kept.collect::<String>().replace(' ', "-");
        let mut names = std::iter::once(anchor.clone()).chain((1..).map(|n| format!("{anchor}-{n}")));
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

/// The samples that users apply, by file name.
fn samples() -> Vec<PathBuf> {
    let samples = files(&root().join("docs/user/samples"), "yaml");
    assert!(samples.len() > 10, "{samples:?}");
    samples
}

#[test]
fn every_sample_is_linked() {
    let texts = files(&root().join("docs/user"), "md");
    let text: String = texts
        .iter()
        .map(|path| fs::read_to_string(path).expect("a text"))
        .collect();
    let missing: Vec<_> = samples()
        .into_iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| !text.contains(&format!("samples/{name})")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_sample_of_the_module_suits_every_chart() {
    let catalogue = Catalogue::compiled_in().expect("a catalogue");
    let samples = samples();
    let modules: Vec<_> = samples
        .iter()
        .map(|path| (path, fs::read_to_string(path).expect("a text")))
        .filter(|(_, text)| text.contains("kind: GpuModule"))
        .collect();
    assert!(modules.len() > 5, "{modules:?}");
    for (path, text) in modules {
        let mut module: GpuModule = serde_saphyr::from_str(&text).expect("a GpuModule");
        for version in catalogue.installable() {
            module.spec.chart_version = Some(version.to_string());
            let resolved = resolve(&module.spec, &catalogue, NodeFeatureDiscovery::Module, &[]);
            assert!(
                resolved.is_ok(),
                "{} with {version}: {resolved:?}",
                path.display()
            );
        }
    }
}
