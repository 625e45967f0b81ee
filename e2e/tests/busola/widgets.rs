//! Only widgets and parameters that the dashboard knows, so that nothing is silently ignored.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::extension::{Extension, array, text};

/// Widgets of lists and details that this extension uses, and their parameters besides those of all
/// (kyma-project/busola, `docs/contributor/extensibility/50-list-and-details-widgets.md`).
const SHOWN: [(&str, &[&str]); 10] = [
    ("", &["placeholder", "copyable"]),
    ("Alert", &["severity", "disableMargin"]),
    ("Badge", &["placeholder", "highlights", "description", "copyable"]),
    ("Columns", &["inline", "children"]),
    ("ConditionList", &["highlights", "customContent"]),
    (
        "EventList",
        &[
            "filter",
            "defaultType",
            "hideInvolvedObjects",
            "simpleEmptyListMessage",
        ],
    ),
    (
        "JoinedArray",
        &["separator", "placeholder", "children", "copyable"],
    ),
    ("Panel", &["children", "header", "disablePadding", "description"]),
    ("ResourceLink", &["resource", "placeholder"]),
    (
        "Table",
        &[
            "collapsible",
            "collapsibleTitle",
            "children",
            "disablePadding",
            "sort",
            "search",
        ],
    ),
];

/// The same for `TimeFromNow`, which has none of its own.
const PLAIN: [&str; 1] = ["TimeFromNow"];

const OF_ALL: [&str; 5] = ["name", "source", "widget", "visibility", "children"];

/// Parameters of columns and of rows of the status.
const OF_PLACES: [&str; 3] = ["sort", "search", "fullWidth"];

/// Widgets of forms and their parameters (`60-form-widgets.md`); what is none of them goes into the schema of the field.
const FORM: [(&str, &[&str]); 8] = [
    ("Alert", &["alert", "severity", "disableMargin"]),
    ("", &["children", "enum", "extraPaths", "properties"]),
    ("Text", &["enum", "format", "type"]),
    ("FormGroup", &["children", "defaultExpanded", "columns"]),
    ("SimpleList", &["children", "defaultExpanded"]),
    ("GenericList", &["children", "defaultExpanded", "template"]),
    ("CodeEditor", &["language", "defaultExpanded"]),
    ("Switch", &[]),
];

const OF_FORM: [&str; 9] = [
    "path",
    "name",
    "widget",
    "visibility",
    "overwrite",
    "placeholder",
    "inputInfo",
    "description",
    "required",
];

/// Levels of the status badge that the dashboard has colours for.
const HIGHLIGHTS: [&str; 6] = ["type", "positive", "informative", "warning", "critical", "none"];

#[test]
fn lists_and_details_have_known_widgets() -> Result<()> {
    let extension = Extension::read()?;
    let pages = [
        extension.list(),
        extension.details("/status/header"),
        extension.details("/status/body"),
        extension.details("/body"),
    ];
    pages.into_iter().flatten().try_for_each(shown)
}

fn shown(widget: &Value) -> Result<()> {
    let kind = text(widget, "widget").unwrap_or_default();
    let own = SHOWN
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, own)| *own);
    ensure!(
        own.is_some() || PLAIN.contains(&kind),
        "widget {kind} in {widget}"
    );
    for parameter in widget.as_object().into_iter().flat_map(|widget| widget.keys()) {
        let parameter = parameter.as_str();
        let is_known = own.is_some_and(|own| own.contains(&parameter))
            || OF_ALL.contains(&parameter)
            || OF_PLACES.contains(&parameter);
        ensure!(is_known, "parameter {parameter} of {kind} in {widget}");
    }
    let levels = match &widget["highlights"] {
        Value::Array(kinds) => kinds.iter().collect(),
        one => vec![one],
    };
    for level in levels
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|levels| levels.keys())
    {
        ensure!(
            HIGHLIGHTS.contains(&level.as_str()),
            "highlight {level} in {widget}"
        );
    }
    let severity = text(widget, "severity").unwrap_or("information");
    ensure!(
        ["information", "warning", "error", "success"].contains(&severity),
        "{widget}"
    );
    let children = array(&widget["children"])
        .iter()
        .chain(array(&widget["collapsible"]));
    children.into_iter().try_for_each(shown)
}

#[test]
fn the_form_has_known_widgets() -> Result<()> {
    Extension::read()?.form().iter().try_for_each(entered)
}

fn entered(field: &Value) -> Result<()> {
    let kind = text(field, "widget").unwrap_or_default();
    let own = FORM.iter().find(|(known, _)| *known == kind).map(|(_, own)| *own);
    ensure!(own.is_some(), "widget {kind} in {field}");
    for parameter in field.as_object().into_iter().flat_map(|field| field.keys()) {
        let parameter = parameter.as_str();
        let is_known = own.unwrap_or_default().contains(&parameter) || OF_FORM.contains(&parameter);
        ensure!(is_known, "parameter {parameter} of {kind} in {field}");
    }
    array(&field["children"]).iter().try_for_each(entered)
}
