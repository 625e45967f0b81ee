//! The form has every field of the spec, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use gpu_manager::catalogue::Catalogue;
use serde_json::Value;

use crate::extension::{Extension, array, text};
use crate::jsonata::Scope;
use crate::schema::{field, leaves, schema};

/// The fields of the form that have no fields below them, by their whole path.
fn fields(extension: &Extension) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for field in extension.form() {
        collect(field, "", &mut found);
    }
    found
}

fn collect(field: &Value, above: &str, found: &mut BTreeMap<String, Value>) {
    let own = text(field, "path").unwrap_or_default();
    let path = match (above, own.starts_with('[')) {
        ("", _) => own.to_owned(),
        (above, true) => format!("{above}{own}"),
        (above, false) => format!("{above}.{own}"),
    };
    let children = array(&field["children"]);
    if children.is_empty() {
        found.insert(path, field.clone());
    } else {
        for child in children {
            collect(child, &path, found);
        }
    }
}

#[test]
fn the_form_has_the_whole_spec() -> Result<()> {
    let schema = schema()?;
    let spec: BTreeSet<_> = leaves(&schema["properties"]["spec"], "spec")
        .into_iter()
        .collect();
    let mut form: BTreeSet<_> = fields(&Extension::read()?).into_keys().collect();
    ensure!(form.remove("metadata.name"), "the form has no name");
    let missing: Vec<_> = spec.difference(&form).collect();
    ensure!(missing.is_empty(), "not in the form: {missing:?}");
    let unknown: Vec<_> = form.difference(&spec).collect();
    ensure!(unknown.is_empty(), "not in the spec: {unknown:?}");
    Ok(())
}

/// The question mark beside a field shows the description that the CRD has.
#[test]
fn every_field_has_a_help_text() -> Result<()> {
    let schema = schema()?;
    for path in fields(&Extension::read()?)
        .into_keys()
        .filter(|path| path.starts_with("spec."))
    {
        let described = path.trim_end_matches("[]");
        let found = field(&schema, described).with_context(|| path.clone())?;
        ensure!(found["description"].is_string(), "{path}");
    }
    Ok(())
}

#[test]
fn the_chart_versions_are_those_that_can_be_installed() -> Result<()> {
    let form = fields(&Extension::read()?);
    let offered = array(&form["spec.chartVersion"]["enum"])
        .iter()
        .filter_map(Value::as_str);
    let offered: BTreeSet<_> = offered.map(ToOwned::to_owned).collect();
    let catalogue = Catalogue::compiled_in()?;
    let known: BTreeSet<_> = catalogue
        .installable()
        .into_iter()
        .map(ToString::to_string)
        .collect();
    ensure!(offered == known, "{offered:?}, but {known:?} can be installed");
    Ok(())
}

/// What the CRD refuses together is not offered together, and what is hidden is taken out of the spec.
#[test]
fn the_form_offers_no_contradiction() -> Result<()> {
    let extension = Extension::read()?;
    let hidden = |spec: Value| -> Result<Vec<String>> {
        let module = serde_json::json!({ "spec": spec });
        let mut hidden = Vec::new();
        for field in extension.form().iter().filter(|field| {
            text(field, "path") == Some("spec.driver") || text(field, "path") == Some("spec.monitoring")
        }) {
            gather(field, &module, &mut hidden)?;
        }
        Ok(hidden)
    };
    ensure!(
        hidden(serde_json::json!({}))?
            == ["drain.force", "drain.deleteEmptyDir", "drain.timeoutSeconds"].map(|path| path
                .split_once('.')
                .unwrap()
                .1
                .to_owned())
    );
    let preinstalled = hidden(serde_json::json!({ "driver": { "mode": "Preinstalled" } }))?;
    for path in [
        "branch",
        "installerRelease",
        "repository",
        "kernelModuleType",
        "upgrade",
    ] {
        ensure!(
            preinstalled.iter().any(|hidden| hidden == path),
            "{path}: {preinstalled:?}"
        );
    }
    let quiet = hidden(serde_json::json!({ "monitoring": { "dcgmExporter": false } }))?;
    ensure!(quiet.iter().any(|hidden| hidden == "serviceMonitor"), "{quiet:?}");
    Ok(())
}

fn gather(field: &Value, module: &Value, hidden: &mut Vec<String>) -> Result<()> {
    if let Some(visibility) = text(field, "visibility") {
        let visible = Scope::page(module).evaluate(visibility)? == Some(Value::Bool(true));
        if !visible {
            hidden.extend(text(field, "path").map(ToOwned::to_owned));
            ensure!(
                field.get("overwrite").is_none(),
                "what is hidden stays in the spec: {field}"
            );
        }
    }
    array(&field["children"])
        .iter()
        .try_for_each(|child| gather(child, module, hidden))
}
