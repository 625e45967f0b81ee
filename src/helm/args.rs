//! Command lines for helm, built without I/O.
//!
//! Values never appear here, only the name of the file that holds them. User strings cannot become flags: each is
//! either joined to its flag by `=` or stands behind `--`.
//! Never passed: `--wait` and `--rollback-on-failure` (they turn seconds into minutes and survive TERM),
//! `--ignore-not-found` (hides every storage error), `--keep-history` (breaks a later install), `-o json` on changes
//! (prints the whole release), `--create-namespace` (sets no labels on it).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

/// Helm refuses longer descriptions of a rollback; the same bound keeps the other ones readable.
const MAX_DESCRIPTION_CHARS: usize = 256;

/// The flags of `helm upgrade` that decide what the release becomes, as far as they never change from run to run.
/// Part of the fingerprint of a release: another set of flags makes another release.
pub const RELEASE_FLAGS: &[&str] = &[
    "--reset-values",
    "--skip-crds",
    "--server-side=true",
    "--force-conflicts",
];

/// A release: its name and the namespace that holds its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRef {
    /// Name of the release.
    pub name: String,
    /// Namespace of the release Secrets and of the chart's namespaced objects.
    pub namespace: String,
}

/// Options of an install or upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeOptions {
    /// Labels on the release Secret. Values are Kubernetes label values; `null` removes a label.
    pub labels: BTreeMap<String, String>,
    /// One line for `helm history`, cut to 256 characters.
    pub description: String,
    /// Revisions that are kept, the new one included.
    pub history_max: u32,
    /// Bound of each single step that helm waits for, in practice each hook.
    pub timeout: Duration,
}

/// Options of a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackOptions {
    /// Revisions that are kept, the new one included.
    pub history_max: u32,
    /// Bound of each single step that helm waits for.
    pub timeout: Duration,
}

/// Options of an uninstall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UninstallOptions {
    /// Leaves out the chart's delete hooks; the way out when a hook can never succeed.
    pub no_hooks: bool,
    /// Bound of each single step that helm waits for, in practice each hook.
    pub timeout: Duration,
}

/// `helm version`: prints the version and nothing else.
pub(super) fn version() -> Vec<OsString> {
    vec!["version".into(), "--template={{.Version}}".into()]
}

/// `helm upgrade --install`. Server-side apply with force also takes over what Helm 3 applied client-side (helm then
/// moves the old field manager, `pkg/action/upgrade.go`), and repairs drift in the chart's fields.
/// `--reset-values` makes the file the whole truth: without it an empty file means the values of the last release.
pub(super) fn upgrade_install(
    release: &ReleaseRef,
    chart: &Path,
    values_file: &OsStr,
    options: &UpgradeOptions,
) -> Vec<OsString> {
    let mut args = command(&["upgrade", "--install"], release);
    args.extend(RELEASE_FLAGS.iter().map(OsString::from));
    args.push(flag("--values=", values_file));
    args.extend(bounds(options.history_max, options.timeout));
    // One flag per label: helm reads a list in one flag as CSV.
    args.extend(
        options
            .labels
            .iter()
            .map(|(key, value)| format!("--labels={key}={value}").into()),
    );
    let description: String = options.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    args.push(format!("--description={description}").into());
    positional(args, [release.name.as_ref(), chart.as_os_str()])
}

/// `helm rollback`. Without force a single field that someone else owns fails the rollback and adds a failed revision.
/// Hooks are left out: a rollback here repairs the record, and the upgrade that follows runs them.
pub(super) fn rollback(release: &ReleaseRef, to: u32, options: &RollbackOptions) -> Vec<OsString> {
    let mut args = command(&["rollback"], release);
    args.extend(["--no-hooks", "--server-side=true", "--force-conflicts"].map(OsString::from));
    args.extend(bounds(options.history_max, options.timeout));
    positional(args, [release.name.as_ref(), to.to_string().as_ref()])
}

/// `helm uninstall`. Deletes only, so none of the apply flags exist for it.
pub(super) fn uninstall(release: &ReleaseRef, options: &UninstallOptions) -> Vec<OsString> {
    let mut args = command(&["uninstall"], release);
    if options.no_hooks {
        args.push("--no-hooks".into());
    }
    args.push(timeout_flag(options.timeout));
    positional(args, [release.name.as_ref()])
}

/// `helm get metadata` as JSON.
pub(super) fn get_metadata(release: &ReleaseRef, revision: Option<u32>) -> Vec<OsString> {
    let mut args = command(&["get", "metadata"], release);
    args.push("--output=json".into());
    args.extend(revision_flag(revision));
    positional(args, [release.name.as_ref()])
}

/// `helm get values` as JSON: the values that were given, without the chart's defaults.
pub(super) fn get_values(release: &ReleaseRef, revision: Option<u32>) -> Vec<OsString> {
    let mut args = command(&["get", "values"], release);
    args.push("--output=json".into());
    args.extend(revision_flag(revision));
    positional(args, [release.name.as_ref()])
}

/// `helm get values --all` as JSON: the values that were given, over the defaults of the revision's own chart.
pub(super) fn get_all_values(release: &ReleaseRef, revision: u32) -> Vec<OsString> {
    let mut args = command(&["get", "values"], release);
    args.extend(["--all", "--output=json"].map(OsString::from));
    args.extend(revision_flag(Some(revision)));
    positional(args, [release.name.as_ref()])
}

/// `helm get manifest`: the objects of a revision as YAML, hooks left out.
pub(super) fn get_manifest(release: &ReleaseRef, revision: u32) -> Vec<OsString> {
    let mut args = command(&["get", "manifest"], release);
    args.extend(revision_flag(Some(revision)));
    positional(args, [release.name.as_ref()])
}

/// `helm show values`: the `values.yaml` of a chart.
pub(super) fn show_values(chart: &Path) -> Vec<OsString> {
    positional(vec!["show".into(), "values".into()], [chart.as_os_str()])
}

/// `helm show crds`: the YAML documents in the `crds` folders of a chart and its dependencies.
pub(super) fn show_crds(chart: &Path) -> Vec<OsString> {
    positional(vec!["show".into(), "crds".into()], [chart.as_os_str()])
}

fn command(verb: &[&str], release: &ReleaseRef) -> Vec<OsString> {
    let mut args: Vec<OsString> = verb.iter().map(OsString::from).collect();
    args.push(format!("--namespace={}", release.namespace).into());
    args
}

fn bounds(history_max: u32, timeout: Duration) -> [OsString; 2] {
    [
        format!("--history-max={history_max}").into(),
        timeout_flag(timeout),
    ]
}

fn timeout_flag(timeout: Duration) -> OsString {
    if timeout.subsec_millis() == 0 {
        format!("--timeout={}s", timeout.as_secs()).into()
    } else {
        format!("--timeout={}ms", timeout.as_millis()).into()
    }
}

fn revision_flag(revision: Option<u32>) -> Option<OsString> {
    revision.map(|number| format!("--revision={number}").into())
}

fn flag(name: &str, value: &OsStr) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(value);
    flag
}

fn positional<const N: usize>(mut args: Vec<OsString>, rest: [&OsStr; N]) -> Vec<OsString> {
    args.push("--".into());
    args.extend(rest.map(OsString::from));
    args
}

#[cfg(test)]
mod tests;
