//! What the pages say, sample by sample.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::extension::Extension;
use crate::jsonata::Scope;
use crate::page::Page;
use crate::samples::samples;

#[test]
fn every_sample_is_told_as_it_should_be() -> Result<()> {
    let extension = Extension::read()?;
    for (name, sample) in samples()? {
        let page = Page::of(&extension, &sample).context(name.clone())?;
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, page);
        });
    }
    Ok(())
}

#[test]
fn a_gpu_module_that_needs_somebody_has_an_alert() -> Result<()> {
    let extension = Extension::read()?;
    for (name, sample) in samples()? {
        let page = Page::of(&extension, &sample)?;
        let alerts = page.lines().filter(|line| line.starts_with("! ")).count();
        let state = sample.pointer("/status/state").and_then(Value::as_str);
        let wanted = matches!(state, None | Some("Warning" | "Error"));
        ensure!(!wanted || alerts == 1, "{name} has {alerts} alerts");
    }
    Ok(())
}

/// Which alert a reason has in state Warning, where no node is to blame.
const ALERTS: [(&str, &[&str]); 10] = [
    ("alert.heldDeletion", &["WorkloadsUsingGpu"]),
    ("alert.unreadDeletion", &["WorkUnreadable"]),
    (
        "alert.spec",
        &[
            "UnknownChartVersion",
            "RetiredChartVersion",
            "OwnedValue",
            "ContradictingValues",
            "LineBreak",
            "TemplateText",
            "ValuesTooLarge",
            "RegistryNotAllowed",
            "LockedValue",
            "DowngradeRefused",
            "UpgradePathRefused",
            "SpecUnreadable",
        ],
    ),
    ("alert.adopt", &["ReleaseNotAdopted", "ReleaseUnrecorded"]),
    ("alert.confirmAdoption", &["AdoptionNotConfirmed"]),
    (
        "alert.neighbour",
        &[
            "ForeignRelease",
            "ReleaseUnreadable",
            "UnmanagedStack",
            "OtherGpuModule",
            "GpuDriverModule",
            "ForeignDevicePlugin",
            "NodeFeatureRulesMissing",
        ],
    ),
    ("alert.poolNotFound", &["WorkerPoolWithoutGpu"]),
    (
        "alert.drift",
        &["DriftFound", "DriftReturns", "DriftNotCorrected"],
    ),
    ("alert.suspended", &["NotInstalled", "NotDeployed"]),
    ("alert.warning", &["UnsupportedKubernetes", "OperandsNotReady"]),
];

#[test]
fn each_reason_has_its_alert() -> Result<()> {
    let extension = Extension::read()?;
    for (alert, reasons) in ALERTS {
        for reason in reasons {
            let ready = json!({ "type": "Ready", "status": "False", "reason": reason });
            let module = json!({ "status": { "state": "Warning", "conditions": [ready] } });
            let page = Page::of(&extension, &module)?;
            let said = extension.translation(alert).context(alert)?;
            ensure!(page.contains(&format!("! warning: {said}")), "{reason}: {page}");
        }
    }
    Ok(())
}

/// Which alert a waiting driver change has, by its reason.
const WAITS: [(&str, &str, &str); 4] = [
    ("WaitingForIdle", "information", "alert.driverIdle"),
    ("WaitingForWindow", "information", "alert.driverWindow"),
    ("WindowUnreadable", "warning", "alert.unreadWindow"),
    ("WorkUnreadable", "warning", "alert.unreadWork"),
];

#[test]
fn each_wait_of_a_driver_change_has_its_alert() -> Result<()> {
    let extension = Extension::read()?;
    for (reason, severity, alert) in WAITS {
        let waits = json!({ "type": "DriverChangePending", "status": "True", "reason": reason });
        let module = json!({ "status": { "state": "Ready", "conditions": [waits] } });
        let page = Page::of(&extension, &module)?;
        let said = extension.translation(alert).context(alert)?;
        ensure!(
            page.contains(&format!("! {severity}: {said}")),
            "{reason}: {page}"
        );
        let alerts = page.lines().filter(|line| line.starts_with("! ")).count();
        ensure!(alerts == 1, "{reason} has {alerts} alerts");
    }
    Ok(())
}

/// The operator's own list of why it refuses a spec.
#[test]
fn each_refusal_of_the_spec_leads_to_the_spec() -> Result<()> {
    let source = e2e::tools::repository_root().join("src/desired/refusal.rs");
    let source = std::fs::read_to_string(source)?;
    let refusals: BTreeSet<_> = source
        .lines()
        .filter_map(|line| line.split_once("=> \"")?.1.split_once('"'))
        .map(|(reason, _)| reason)
        .collect();
    ensure!(refusals.len() > 1, "refusal.rs says its reasons in another way");
    let (_, told) = ALERTS
        .iter()
        .find(|(alert, _)| *alert == "alert.spec")
        .context("no alert")?;
    for reason in refusals {
        ensure!(told.contains(&reason), "{reason} has no alert.spec");
    }
    Ok(())
}

/// Words of the documentation, the reasons among them.
fn documented() -> Result<BTreeSet<String>> {
    let folder = e2e::tools::repository_root().join("docs/user/troubleshooting");
    let mut words = BTreeSet::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(path)?;
            let found = text.split(|sign: char| !sign.is_ascii_alphanumeric());
            words.extend(found.map(ToOwned::to_owned));
        }
    }
    Ok(words)
}

/// Every word that an expression compares a reason with.
fn reasons(extension: &Extension) -> BTreeSet<String> {
    let details = extension.key("details").to_string();
    let quoted = details.split('\'').skip(1).step_by(2);
    let is_reason = |word: &&str| {
        let mut letters = word.chars();
        letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    quoted.filter(is_reason).map(ToOwned::to_owned).collect()
}

#[test]
fn only_reasons_that_there_are_have_an_alert() -> Result<()> {
    let documented = documented()?;
    // Words of other fields.
    let others = [
        "Ready",
        "Processing",
        "Warning",
        "Error",
        "Deleting",
        "True",
        "False",
        "Configured",
        "Installed",
        "OperandsReady",
        "Drifted",
        "DriverChangePending",
        "Deleted",
        "Preinstalled",
        "Cluster",
        "WhenIdle",
        "Namespace",
    ];
    for reason in reasons(&Extension::read()?) {
        let is_known = documented.contains(&reason) || others.contains(&reason.as_str());
        ensure!(is_known, "{reason} is no reason of docs/user/troubleshooting");
    }
    Ok(())
}

#[test]
fn only_events_of_the_gpu_module_are_listed() -> Result<()> {
    let extension = Extension::read()?;
    let list = extension
        .details("/body")
        .iter()
        .find(|widget| widget["widget"] == "EventList");
    let filter = list.context("no events")?["filter"]
        .as_str()
        .context("no filter")?
        .to_owned();
    let module = json!({ "kind": "GpuModule", "metadata": { "name": "default" } });
    for (kind, name, is_listed) in [
        ("GpuModule", "default", true),
        ("Node", "default", false),
        ("GpuModule", "other", false),
    ] {
        let event = json!({ "involvedObject": { "kind": kind, "name": name } });
        let scope = Scope {
            here: &event,
            ..Scope::page(&module)
        };
        let found = scope.evaluate(&filter)?;
        ensure!(found == Some(Value::Bool(is_listed)), "{kind} {name}: {found:?}");
    }
    Ok(())
}
