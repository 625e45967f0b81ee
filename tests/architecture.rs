//! Reads the source and fails where it leaves the architecture: data goes one way, decisions are pure, and what touches the
//! world does so in one place.
//!
//! It looks at the paths that the code names (`use` trees taken apart), without tests, comments and texts.

#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

/// The library's modules. Each may use only those that stand before it.
const ORDER: &[&str] = &[
    "helm",
    "api",
    "catalogue",
    "desired",
    "drift",
    "facts",
    "nodes",
    "plan",
    "status",
    "memory",
    "metrics",
    "kube_api",
    "contact",
    "lease",
    "observe",
    "publish",
    "act",
    "reconcile",
    "controller",
    "crds",
    "telemetry",
    "admin",
    "config",
    "run",
];

/// Modules that decide; `catalogue/load.rs` also reads a folder.
const PURE: &[&str] = &[
    "api",
    "catalogue",
    "desired",
    "drift",
    "facts",
    "nodes",
    "plan",
    "status",
    "memory",
];

const LONGEST_FILE: usize = 300;
const LONGEST_TEST: usize = 500;

/// What some files may not name.
struct Rule {
    law: &'static str,
    binds: fn(&File) -> bool,
    breaks: fn(&str) -> bool,
    /// A file that breaks it, to prove that it can be broken.
    offence: (&'static str, &'static str),
}

const RULES: &[Rule] = &[
    Rule {
        law: "decisions are pure: no client, no runtime, no process, no environment; the time is an argument",
        binds: |file| PURE.contains(&file.module()),
        breaks: |path| {
            let banned = [
                "tokio",
                "std::process",
                "std::env",
                "std::net",
                "std::time::Instant",
                "std::time::SystemTime",
            ];
            let client = path.starts_with("kube::") && ["Client", "Api"].iter().any(|word| names(path, word));
            banned.iter().any(|banned| is_in(path, banned)) || client || path.ends_with("Timestamp::now")
        },
        offence: ("plan/x.rs", "use kube::{Api, ResourceExt};"),
    },
    Rule {
        law: "decisions read no files; only catalogue/load.rs does",
        binds: |file| PURE.contains(&file.module()) && file.path != "catalogue/load.rs",
        breaks: |path| is_in(path, "std::fs"),
        offence: ("desired/x.rs", "use std::{collections::BTreeMap, fs::File};"),
    },
    Rule {
        law: "only helm/process.rs starts processes",
        binds: |file| file.path != "helm/process.rs",
        breaks: |path| path.contains("process::Command"),
        offence: ("act/x.rs", "fn f() { tokio::process::Command::new(\"helm\"); }"),
    },
    Rule {
        law: "only config.rs reads the environment",
        binds: |file| file.path != "config.rs",
        breaks: |path| is_in(path, "std::env"),
        offence: ("run.rs", "use std::env;"),
    },
    Rule {
        law: "only reconcile.rs asks for the time",
        binds: |file| file.path != "reconcile.rs",
        breaks: |path| {
            ["Timestamp::now", "Zoned::now", "SystemTime::now"]
                .iter()
                .any(|now| path.ends_with(now))
        },
        offence: (
            "publish.rs",
            "fn f() -> jiff::Timestamp { jiff::Timestamp::now() }",
        ),
    },
    Rule {
        law: "only publish.rs writes the status",
        binds: |file| file.path != "publish.rs",
        breaks: |path| {
            let calls = [
                "patch_status",
                "replace_status",
                "patch_subresource",
                "replace_subresource",
            ];
            calls.iter().any(|call| names(path, call))
        },
        offence: (
            "reconcile.rs",
            "fn f() { api.patch_status(name, &params, &patch); }",
        ),
    },
    Rule {
        law: "helm/ knows nothing of Kubernetes' API and of the rest of the operator",
        binds: |file| file.module() == "helm",
        breaks: |path| {
            let other = path
                .strip_prefix("crate::")
                .is_some_and(|rest| !is_in(rest, "helm"));
            ["kube", "k8s_openapi"].iter().any(|client| is_in(path, client)) || other
        },
        offence: ("helm/x.rs", "use crate::api::RELEASE_NAME;"),
    },
];

fn is_in(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn names(path: &str, word: &str) -> bool {
    path.split("::").any(|part| part == word)
}

/// A source file below `src/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    fn is_test(&self) -> bool {
        let parts = self.path.trim_end_matches(".rs").split('/');
        parts
            .into_iter()
            .any(|part| ["tests", "testing", "fixtures"].contains(&part))
    }

    /// The paths that the code names, each with its line.
    fn paths(&self) -> Vec<(usize, String)> {
        let code = self
            .text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let lines = code.lines().enumerate();
        let mut prefixes = vec![String::new()];
        let mut paths = vec![];
        for (number, line) in lines {
            let line = without_texts(line.split("//").next().unwrap_or_default());
            let mut rest = line.as_str();
            while let Some(next) = rest.chars().next() {
                let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
                let (found, after) = rest.split_at(end.max(next.len_utf8()));
                let prefix = prefixes.last().cloned().unwrap_or_default();
                match next {
                    '{' => prefixes.push(String::new()),
                    '}' => drop(prefixes.pop()),
                    _ if end > 0 && found.ends_with("::") && after.starts_with('{') => {
                        prefixes.push(format!("{prefix}{found}"));
                        rest = &after[1..];
                        continue;
                    }
                    _ if end > 0 => {
                        paths.push((number + 1, format!("{prefix}{}", found.trim_end_matches(':'))));
                    }
                    _ => {}
                }
                rest = after;
            }
        }
        paths
    }

    fn breaches(&self) -> Vec<String> {
        let paths = self.paths();
        let mut breaches = vec![];
        for rule in RULES.iter().filter(|rule| (rule.binds)(self)) {
            let broken = paths.iter().filter(|(_, path)| (rule.breaks)(path));
            breaches
                .extend(broken.map(|(line, path)| format!("src/{}:{line}: {path}: {}", self.path, rule.law)));
        }
        breaches.extend(self.wrong_way(&paths));
        breaches
    }

    fn wrong_way(&self, paths: &[(usize, String)]) -> Vec<String> {
        let place = |module: &str| ORDER.iter().position(|known| *known == module);
        let own = self.module();
        if ["lib", "main"].contains(&own) {
            return vec![];
        }
        let Some(here) = place(own) else {
            return vec![format!(
                "src/{}: module {own} has no place in the ORDER of this test",
                self.path
            )];
        };
        let used = paths.iter().filter_map(|(line, path)| {
            let module = path.strip_prefix("crate::")?.split("::").next()?;
            (module != own && place(module).is_none_or(|there| there > here)).then_some((line, module))
        });
        used.map(|(line, module)| {
            format!(
                "src/{}:{line}: data goes one way: {own} comes before {module} and may not use it",
                self.path
            )
        })
        .collect()
    }

    fn too_long(&self) -> Option<String> {
        let (lines, limit) = (
            self.text.lines().count(),
            if self.is_test() {
                LONGEST_TEST
            } else {
                LONGEST_FILE
            },
        );
        (lines > limit).then(|| format!("src/{}: {lines} lines, {limit} are enough: split it", self.path))
    }
}

/// A line without what stands in quotation marks, and without braces as characters.
fn without_texts(line: &str) -> String {
    let line = line
        .replace("\\\"", "")
        .replace("'{'", "")
        .replace("'}'", "")
        .replace("'\"'", "");
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

fn files(folder: &Path, root: &Path, found: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            let path = path
                .strip_prefix(root)
                .expect("a path below")
                .display()
                .to_string();
            found.push(File { path, text });
        }
    }
}

#[test]
fn the_documentation_has_the_modules_in_their_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/contributor/architecture.md");
    let page = fs::read_to_string(path).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let told: Vec<_> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert_eq!(told, ORDER);
}

#[test]
fn the_source_keeps_to_the_architecture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = vec![];
    files(&root, &root, &mut all);
    assert!(all.len() > 50, "only {} files found", all.len());
    let code = all.iter().filter(|file| !file.is_test());
    let mut faults: Vec<_> = code.flat_map(File::breaches).collect();
    faults.extend(all.iter().filter_map(File::too_long));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn each_rule_can_be_broken() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    for Rule {
        law,
        offence: (path, code),
        ..
    } in RULES
    {
        let breaches = file(path, code).breaches();
        assert!(
            breaches.iter().any(|breach| breach.contains(law)),
            "{law}: {breaches:?}"
        );
        let unseen = format!("// {code}\n#[cfg(test)]\nmod tests {{\n{code}\n}}");
        assert!(
            file(path, &unseen).breaches().is_empty(),
            "{law}: also in comments and tests"
        );
    }
    for (path, code, fault) in [
        (
            "desired/x.rs",
            "use crate::plan::Plan;",
            "desired comes before plan",
        ),
        (
            "plan/x.rs",
            "use crate::{act::Actor, api::State};",
            "plan comes before act",
        ),
        (
            "status/x.rs",
            "fn f() -> crate::act::ActError {}",
            "status comes before act",
        ),
        (
            "act/x.rs",
            "use crate::reconcile::now;",
            "act comes before reconcile",
        ),
        ("novel.rs", "", "novel has no place"),
    ] {
        let breaches = file(path, code).breaches();
        assert!(breaches.len() == 1 && breaches[0].contains(fault), "{breaches:?}");
    }
    assert!(
        file("plan/x.rs", "use crate::{api::State, facts::Observed};")
            .breaches()
            .is_empty()
    );
    let lines = |count: usize| "\n".repeat(count);
    assert!(file("run.rs", &lines(LONGEST_FILE + 1)).too_long().is_some());
    assert!(
        file("plan/tests.rs", &lines(LONGEST_FILE + 1))
            .too_long()
            .is_none()
    );
    assert!(
        file("plan/tests.rs", &lines(LONGEST_TEST + 1))
            .too_long()
            .is_some()
    );
}
