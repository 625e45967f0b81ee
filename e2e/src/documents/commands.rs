//! Commands that the documentation shows: those in `sh` blocks, and whole ones in backticks.
//!
//! Each is run by the end-to-end test, parsed, looked up, or listed here with the reason why it cannot be. So a command that
//! is none of these fails a test, and none that users copy is out of date.

use anyhow::{Result, bail};
use clap::{CommandFactory as _, error::ErrorKind};
use gpu_manager::config::Cli;

use super::pages::{self, Place};
use crate::tools::repository_root;

/// Commands that cannot be run here, by how they begin.
const NOT_RUN: &[(&str, &str)] = &[
    ("docker ", "needs Docker and a registry"),
    ("crane ", "needs a registry"),
    ("sudo ", "changes the machine"),
    ("kyma ", "needs Kyma's CLI; e2e/tests/manifests does what it does"),
    (
        "kubectl apply -n default -f dist/gpu-",
        "ModuleTemplates are a kind of Kyma's, which is not in the cluster",
    ),
    (
        "kubectl wait pod first-gpu",
        "no container runs on simulated nodes, so none ends",
    ),
    (
        "kubectl delete gpudrivers",
        "the other module's kind is not in the cluster",
    ),
    (
        "kubectl delete gpus ",
        "the other module's kind is not in the cluster",
    ),
];

/// What a command is checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// It is run on a local cluster.
    Run,
    /// Its words exist: a target of make, a program or test of cargo, a flag of the operator, a script.
    Words,
    /// It cannot be checked, and why.
    Listed(&'static str),
}

/// A command of the documentation.
#[derive(Clone, Debug)]
pub struct Command {
    /// Where it stands.
    pub place: Place,
    /// As a shell takes it.
    pub text: String,
}

impl Command {
    /// How it is checked. Fails where it is wrong, or nobody knows how to check it.
    pub fn check(&self) -> Result<Check> {
        if let Some((_, why)) = NOT_RUN.iter().find(|(start, _)| self.text.starts_with(start)) {
            return Ok(Check::Listed(why));
        }
        let words: Vec<_> = self.text.split_whitespace().collect();
        // Variables for that command alone.
        let words: Vec<_> = words.into_iter().skip_while(|word| is_assignment(word)).collect();
        match words.as_slice() {
            ["kubectl" | "helm", ..] => Ok(Check::Run),
            ["make", rest @ ..] => self.targets(rest),
            ["cargo", rest @ ..] => self.programs(rest),
            ["gpu-manager", ..] => self.operator(&words),
            [script] if repository_root().join(script).is_file() => Ok(Check::Words),
            _ => bail!("{}: nobody checks '{}'", self.place, self.text),
        }
    }

    fn targets(&self, words: &[&str]) -> Result<Check> {
        let makefile = std::fs::read_to_string(repository_root().join("Makefile"))?;
        for target in words.iter().filter(|word| !is_assignment(word)) {
            let rule = format!("{target}:");
            if !makefile.lines().any(|line| line.starts_with(&rule)) {
                bail!("{}: make has no target {target}", self.place);
            }
        }
        Ok(Check::Words)
    }

    /// Names behind `--bin` and `--test`.
    fn programs(&self, words: &[&str]) -> Result<Check> {
        for pair in words.windows(2) {
            let folders = match pair[0] {
                "--bin" => ["src/bin", "e2e/src/bin"],
                "--test" => ["tests", "e2e/tests"],
                _ => continue,
            };
            let mut paths = folders
                .iter()
                .map(|folder| repository_root().join(folder).join(pair[1]));
            let is_there =
                paths.any(|path| path.join("main.rs").exists() || path.with_extension("rs").exists());
            if !is_there {
                bail!("{}: cargo knows no {} {}", self.place, pair[0], pair[1]);
            }
        }
        Ok(Check::Words)
    }

    fn operator(&self, words: &[&str]) -> Result<Check> {
        match Cli::command().try_get_matches_from(words) {
            Err(error) if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                bail!("{}: {error}", self.place)
            }
            _ => Ok(Check::Words),
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Programs that a command begins with.
const PROGRAMS: [&str; 9] = [
    "kubectl",
    "helm",
    "make",
    "cargo",
    "gpu-manager",
    "kyma",
    "docker",
    "crane",
    "sudo",
];

/// Every command. Fails where a block does not say what it holds.
pub fn all() -> Result<Vec<Command>> {
    let mut found = vec![];
    for page in pages::all()? {
        // Markdown takes such lines for code, too.
        let indented = page.indented.iter().filter(|(_, line)| is_whole(line));
        found.extend(indented.map(|(place, line)| Command {
            place: place.clone(),
            text: without_comment(line).to_owned(),
        }));
        for block in page.blocks {
            match block.language.as_str() {
                "sh" => found.extend(lines(&block.place, &block.lines)),
                "yaml" | "json" | "rust" | "text" => {}
                other => bail!("{}: a fenced block of language '{other}'", block.place),
            }
        }
        let spans = page.spans.into_iter().filter(|(_, text)| is_whole(text));
        found.extend(spans.map(|(place, text)| Command { place, text }));
    }
    Ok(found)
}

/// Commands of a block; one that ends in a backslash goes on in the next line.
fn lines(place: &Place, lines: &[String]) -> Vec<Command> {
    let mut found: Vec<Command> = vec![];
    let mut goes_on = false;
    for (number, line) in lines.iter().enumerate() {
        let line = without_comment(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let text = line.trim_end_matches('\\').trim_end();
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => last.text = format!("{} {text}", last.text),
            None => found.push(Command {
                place: Place {
                    line: place.line + number + 1,
                    ..place.clone()
                },
                text: text.to_owned(),
            }),
        }
        goes_on = line.ends_with('\\');
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split(" # ").next().unwrap_or_default().trim()
}

/// True for what is more than the mention of a program and its verb.
fn is_whole(text: &str) -> bool {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.as_slice() {
        ["kubectl" | "helm", ..] => words.len() > 3,
        [program, ..] => PROGRAMS.contains(program) && words.len() > 1,
        [] => false,
    }
}

/// The GpuModules in `yaml` blocks.
pub fn modules() -> Result<Vec<(Place, String)>> {
    let blocks = pages::all()?.into_iter().flat_map(|page| page.blocks);
    let yaml = blocks.filter(|block| block.language == "yaml");
    let texts = yaml.map(|block| (block.place, block.lines.join("\n")));
    Ok(texts
        .filter(|(_, text)| text.contains("kind: GpuModule"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{Check, Command, NOT_RUN, Place, all, lines};

    #[test]
    fn every_command_is_checked_or_listed() {
        let commands = all().unwrap();
        let checks: Vec<_> = commands.iter().map(|command| command.check().unwrap()).collect();
        assert!(checks.iter().filter(|check| **check == Check::Run).count() > 20);
        for (start, why) in NOT_RUN {
            assert!(checks.contains(&Check::Listed(why)), "'{start}' stands nowhere");
        }
    }

    fn place() -> Place {
        Place {
            page: "page.md".into(),
            line: 1,
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        for text in [
            "make nothing",
            "cargo run -p e2e --bin nothing",
            "gpu-manager nothing",
            "gpu-manager run --nothing",
            "nothing at all",
        ] {
            let command = Command {
                place: place(),
                text: text.to_owned(),
            };
            assert!(command.check().is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_may_go_on_in_the_next_line() {
        let block = ["# first", "make a \\", "  B=c # why", "", "make d"].map(ToOwned::to_owned);
        let texts: Vec<_> = lines(&place(), &block)
            .into_iter()
            .map(|found| found.text)
            .collect();
        assert_eq!(texts, ["make a B=c", "make d"]);
    }
}
