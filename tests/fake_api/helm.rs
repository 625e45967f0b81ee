//! A helm that only keeps books: a shell script that answers what the operator asks and writes down how it was called.

use std::fs;
use std::path::{Path, PathBuf};

use gpu_manager::catalogue::Catalogue;
use serde_json::Value;
use tempfile::TempDir;

/// The script. `@STATE@` is the folder with its books: `calls`, `revisions/<number>/{labels,values,version}`, `manifest` of all
/// revisions, `fail` with the words to fail an upgrade with, and `idle` where changes are only said to be made.
const SCRIPT: &str = r#"#!/bin/sh
state='@STATE@'
printf '%s\n' "$*" >> "$state/calls"
latest=$(ls "$state/revisions" | sort -n | tail -n 1)
need() { [ -n "$latest" ] || { echo 'Error: release: not found' >&2; exit 1; }; }
case "$1 $2" in
"version "*) echo v4.3.1 ;;
"show crds")
    for name in @CRDS@; do
        printf -- '---\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n' $name
        printf 'spec: {group: %s, names: {plural: %s}}\n' ${name#*.} ${name%%.*}
    done ;;
"get metadata")
    need
    version=$(cat "$state/revisions/$latest/version")
    printf '{"name":"gpu-operator","namespace":"gpu-operator","chart":"gpu-operator","version":"v%s",' "$version"
    printf '"appVersion":"v%s","revision":%s,"status":"deployed"}' "$version" "$latest" ;;
"get manifest") need; cat "$state/manifest" ;;
"get values") need; cat "$state/revisions/$latest/values" ;;
"upgrade --install")
    [ ! -e "$state/fail" ] || { cat "$state/fail" >&2; exit 1; }
    [ ! -e "$state/idle" ] || exit 0
    new="$state/new"
    rm -rf "$new"; mkdir "$new"; : > "$new/labels"
    for word; do
        case "$word" in
        --values=*) cp "${word#--values=}" "$new/values" ;;
        --labels=*) printf '%s\n' "${word#--labels=}" >> "$new/labels" ;;
        *.tgz) version=${word##*-v}; printf %s "${version%.tgz}" > "$new/version" ;;
        esac
    done
    mv "$new" "$state/revisions/$((${latest:-0} + 1))" ;;
"uninstall "*) need; [ ! -e "$state/idle" ] || exit 0; rm -r "$state/revisions"/* ;;
*) echo "Error: the fake helm does not know: $*" >&2; exit 1 ;;
esac
"#;

/// The script and its books, in a folder that goes with it.
pub struct FakeHelm {
    folder: TempDir,
}

impl FakeHelm {
    pub fn install() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("revisions")).expect("a folder");
        let state = folder.path().display().to_string();
        fs::write(folder.path().join("manifest"), "").expect("a file");
        let script = SCRIPT.replace("@STATE@", &state).replace("@CRDS@", &crds());
        write_program(&folder.path().join("helm"), &script);
        Self { folder }
    }

    pub fn binary(&self) -> PathBuf {
        self.folder.path().join("helm")
    }

    pub fn work_dir(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where charts have to lie.
    pub fn charts(&self) -> PathBuf {
        self.folder.path().join("charts")
    }

    pub fn revisions(&self) -> PathBuf {
        self.folder.path().join("revisions")
    }

    /// Where it writes down how it was called.
    pub fn calls_file(&self) -> PathBuf {
        self.folder.path().join("calls")
    }

    /// How it was called, with all arguments.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.calls_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often it was called with these first words.
    pub fn count(&self, words: &str) -> usize {
        self.calls().iter().filter(|call| call.starts_with(words)).count()
    }

    /// Lets each upgrade fail with these words, or no more.
    pub fn fail_upgrades(&self, words: Option<&str>) {
        let path = self.folder.path().join("fail");
        match words {
            Some(words) => fs::write(path, words).expect("a file"),
            None => fs::remove_file(path).expect("a file"),
        }
    }

    /// Lets each upgrade and uninstall end well and change nothing, or no more.
    pub fn be_idle(&self, idle: bool) {
        let path = self.folder.path().join("idle");
        if idle {
            fs::write(path, "").expect("a file");
        } else {
            fs::remove_file(path).expect("a file");
        }
    }

    /// Says of what objects each revision consists, as YAML.
    pub fn set_manifest(&self, documents: &str) {
        fs::write(self.folder.path().join("manifest"), documents).expect("a file");
    }

    /// Deletes all revisions.
    pub fn lose_revisions(&self) {
        fs::remove_dir_all(self.revisions()).expect("a folder");
        fs::create_dir(self.revisions()).expect("a folder");
    }

    /// The values of a revision.
    pub fn values(&self, revision: u32) -> Value {
        let text = fs::read_to_string(self.values_path(revision)).expect("values");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Changes the values of a revision behind everybody's back: no label tells of it.
    pub fn falsify_values(&self, revision: u32, values: &Value) {
        fs::write(self.values_path(revision), values.to_string()).expect("a file");
    }

    fn values_path(&self, revision: u32) -> PathBuf {
        self.revisions().join(revision.to_string()).join("values")
    }
}

/// The CRDs of the newest chart, which has those of the older ones.
fn crds() -> String {
    let catalogue = Catalogue::compiled_in().expect("the catalogue");
    catalogue.default_chart().expect("a chart").crds.join(" ")
}

/// Writes an executable by a process of its own: were the file open for writing here, a process that another thread forks
/// just then would keep it so, and running it would fail with "text file busy".
#[expect(clippy::disallowed_methods, reason = "tests make their programs")]
fn write_program(path: &Path, text: &str) {
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text)
        .status()
        .expect("a shell");
    assert!(status.success(), "cannot write {}: {status}", path.display());
}
