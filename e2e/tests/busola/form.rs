//! The form has every field of the spec, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use gpu_manager::catalogue::Catalogue;
use serde_json::{Value, json};

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
    let path = path(field, above);
    let children = array(&field["children"]);
    if field.get("path").is_none() {
        // An alert is about no field.
    } else if children.is_empty() {
        found.insert(path, field.clone());
    } else {
        for child in children {
            collect(child, &path, found);
        }
    }
}

/// The whole path of a field.
fn path(field: &Value, above: &str) -> String {
    let own = text(field, "path").unwrap_or_default();
    match (above, own.starts_with('[')) {
        ("", _) => own.to_owned(),
        (above, true) => format!("{above}{own}"),
        (above, false) => format!("{above}.{own}"),
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

/// What the API server publishes of the CRD has no fields of objects that may be null. So the form brings the schema of these, which has to
/// be the CRD's.
#[test]
fn the_schema_in_the_form_is_that_of_the_crd() -> Result<()> {
    let extension = Extension::read()?;
    let spec = extension
        .form()
        .iter()
        .find(|field| text(field, "path") == Some("spec"));
    let found = &spec.context("no spec")?["properties"];
    let schema = schema()?;
    let fields = schema["properties"]["spec"]["properties"]
        .as_object()
        .context("no fields")?;
    let hidden = fields
        .iter()
        .filter(|(_, field)| field["nullable"] == true && field["properties"].is_object());
    let wanted = Value::Object(
        hidden
            .map(|(name, field)| (name.clone(), published(field)))
            .collect(),
    );
    ensure!(
        *found == wanted,
        "these have to be spec's properties in form.yaml:\n{}",
        serde_saphyr::to_string(&wanted)?
    );
    Ok(())
}

/// What the dashboard needs to know of a field.
fn published(field: &Value) -> Value {
    // A number or a percentage, which the form takes as a text.
    let is_either = field["x-kubernetes-int-or-string"] == true;
    let fields = field.as_object().into_iter().flatten();
    let known = fields.filter_map(|(key, value)| {
        let value = match key.as_str() {
            "description" => value.clone(),
            _ if is_either => return None,
            "type" | "minLength" | "maxLength" | "pattern" | "maxItems" => value.clone(),
            "minimum" | "maximum" => whole(value),
            "enum" => array(value)
                .iter()
                .filter(|word| !word.is_null())
                .cloned()
                .collect(),
            "properties" => {
                let below = value.as_object().into_iter().flatten();
                Value::Object(
                    below
                        .map(|(name, field)| (name.clone(), published(field)))
                        .collect(),
                )
            }
            "items" => published(value),
            _ => return None,
        };
        Some((key.clone(), value))
    });
    Value::Object(known.collect())
}

/// Bounds are whole numbers that the CRD writes as fractions.
#[expect(clippy::cast_possible_truncation, reason = "bounds of the CRD are small")]
fn whole(bound: &Value) -> Value {
    bound
        .as_f64()
        .map_or(Value::Null, |bound| Value::from(bound as i64))
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

/// Paths of the fields that the form hides from a GpuModule with that spec.
fn hidden(extension: &Extension, spec: &Value) -> Result<BTreeSet<String>> {
    let module = json!({ "spec": spec });
    let mut hidden = BTreeSet::new();
    for field in extension.form() {
        gather(field, "", &module, &mut hidden)?;
    }
    Ok(hidden)
}

fn gather(field: &Value, above: &str, module: &Value, hidden: &mut BTreeSet<String>) -> Result<()> {
    let path = path(field, above);
    if let Some(visibility) = text(field, "visibility")
        && Scope::page(module).evaluate(visibility)? != Some(Value::Bool(true))
    {
        ensure!(
            field.get("overwrite").is_none(),
            "what is hidden stays in the spec: {path}"
        );
        hidden.insert(path.clone());
    }
    array(&field["children"])
        .iter()
        .try_for_each(|child| gather(child, &path, module, hidden))
}

/// What the CRD refuses together is not offered together; the dashboard takes out of the spec what is hidden.
#[test]
fn the_form_offers_no_contradiction() -> Result<()> {
    let extension = Extension::read()?;
    let drain = ["force", "deleteEmptyDir", "timeoutSeconds"]
        .map(|field| format!("spec.driver.upgrade.drain.{field}"));
    let driver = [
        "branch",
        "installerRelease",
        "repository",
        "kernelModuleType",
        "upgrade",
    ];
    let driver = driver.map(|field| format!("spec.driver.{field}"));
    let exporter = ["spec.monitoring.serviceMonitor".to_owned()];
    for (spec, wanted) in [
        (json!({}), vec![&drain[..]]),
        (
            json!({ "driver": { "upgrade": { "drain": { "enabled": true } } } }),
            vec![],
        ),
        (
            json!({ "driver": { "mode": "Preinstalled" } }),
            vec![&drain[..], &driver],
        ),
        (
            json!({ "monitoring": { "dcgmExporter": false } }),
            vec![&drain[..], &exporter],
        ),
    ] {
        let found = hidden(&extension, &spec)?;
        let wanted: BTreeSet<_> = wanted.concat().into_iter().collect();
        ensure!(found == wanted, "{spec}: {found:?}");
    }
    Ok(())
}
