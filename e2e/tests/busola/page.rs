//! What the dashboard shows of one GpuModule, as text: the list's row and the details page, scoped as its widgets are
//! (kyma-project/busola, `src/components/Extensibility/components/Widget.tsx` and its neighbours).

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::extension::{Extension, array, text};
use crate::jsonata::Scope;

/// What stands where there is nothing.
const NOTHING: &str = "-";

/// A page that is being written.
pub struct Page<'a> {
    extension: &'a Extension,
    lines: Vec<String>,
}

impl<'a> Page<'a> {
    /// The list's row and the details of a GpuModule.
    pub fn of(extension: &'a Extension, module: &Value) -> Result<String> {
        let scope = Scope::page(module);
        let mut page = Self {
            extension,
            lines: Vec::new(),
        };
        page.heading("List");
        page.fields(extension.list(), scope)?;
        page.heading("Status");
        page.fields(extension.details("/status/header"), scope)?;
        page.fields(extension.details("/status/body"), scope)?;
        page.widgets(extension.details("/body"), scope)?;
        Ok(page.lines.join("\n"))
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(format!("## {text}"));
    }

    fn name(&self, widget: &Value) -> String {
        let name = text(widget, "name").unwrap_or_default();
        self.extension.translated(name).to_owned()
    }

    fn widgets(&mut self, widgets: &[Value], scope: Scope<'_>) -> Result<()> {
        widgets.iter().try_for_each(|widget| self.widget(widget, scope))
    }

    fn widget(&mut self, widget: &Value, scope: Scope<'_>) -> Result<()> {
        let (true, value) = shown(widget, scope)? else {
            return Ok(());
        };
        let children = array(&widget["children"]);
        match text(widget, "widget") {
            Some("Alert") => {
                let severity = text(widget, "severity").unwrap_or("information");
                let said = self.plain(widget, value.as_ref());
                self.lines.push(format!("! {severity}: {said}"));
            }
            Some("Columns") => self.widgets(children, scope)?,
            // One for each entry of a list.
            Some("Panel") => {
                let without = || vec![scope.here.clone()];
                for here in &value.map_or_else(without, |value| entries(Some(value))) {
                    self.heading(&self.name(widget));
                    self.fields(children, Scope { here, ..scope })?;
                }
            }
            Some("Table") => {
                self.heading(&self.name(widget));
                for entry in &entries(value) {
                    self.entry(widget, Scope { here: entry, ..scope })?;
                }
            }
            Some("EventList") => self.heading(&self.name(widget)),
            other => self.field(widget, scope).with_context(|| format!("{other:?}"))?,
        }
        Ok(())
    }

    /// A row of a table, and what unfolds under it.
    fn entry(&mut self, table: &Value, scope: Scope<'_>) -> Result<()> {
        if let Some(title) = text(table, "collapsibleTitle") {
            let title = scope.evaluate(title)?.unwrap_or_default();
            self.lines.push(format!("* {}", plain(&title)));
        }
        let columns = array(&table["children"]).iter();
        let cells: Vec<_> = columns
            .map(|column| {
                let (_, value) = shown(column, scope)?;
                let said = self.inline(column, value.as_ref(), scope)?;
                Ok(format!("{}: {said}", self.name(column)))
            })
            .collect::<Result<_>>()?;
        self.lines.push(format!("| {}", cells.join(" | ")));
        self.widgets(array(&table["collapsible"]), scope)
    }

    fn fields(&mut self, fields: &[Value], scope: Scope<'_>) -> Result<()> {
        fields.iter().try_for_each(|field| self.field(field, scope))
    }

    fn field(&mut self, field: &Value, scope: Scope<'_>) -> Result<()> {
        let (true, value) = shown(field, scope)? else {
            return Ok(());
        };
        if text(field, "widget") == Some("ConditionList") {
            return self.conditions(field, value.as_ref(), scope);
        }
        let said = self.inline(field, value.as_ref(), scope)?;
        self.lines.push(format!("{}: {said}", self.name(field)));
        Ok(())
    }

    /// A value as an inline widget shows it.
    fn inline(&self, widget: &Value, value: Option<&Value>, scope: Scope<'_>) -> Result<String> {
        let said = self.plain(widget, value);
        Ok(match (text(widget, "widget"), value) {
            (Some("Badge"), Some(value)) => {
                let design = design(&widget["highlights"], value, scope)?;
                format!("{said} [{}]", design.unwrap_or_default())
            }
            (Some("ResourceLink"), Some(_)) => {
                let part = |key: &str| {
                    let expression = widget["resource"][key].as_str().unwrap_or_default();
                    let found = scope.evaluate(expression)?;
                    anyhow::Ok(found.as_ref().map_or_else(String::new, plain))
                };
                format!("{said} -> {} {}", part("kind")?, part("name")?)
            }
            _ => said,
        })
    }

    fn plain(&self, widget: &Value, value: Option<&Value>) -> String {
        match value {
            None => {
                let placeholder = text(widget, "placeholder").unwrap_or(NOTHING);
                self.extension.translated(placeholder).to_owned()
            }
            Some(value) => self.extension.translated(&plain(value)).to_owned(),
        }
    }

    fn conditions(&mut self, widget: &Value, conditions: Option<&Value>, scope: Scope<'_>) -> Result<()> {
        for condition in conditions.map(array).unwrap_or_default() {
            let (kind, status) = (&condition["type"], &condition["status"]);
            let of_kind = |entry: &&Value| entry["type"] == *kind;
            let highlights = array(&widget["highlights"]).iter().find(of_kind);
            let highlights = highlights.with_context(|| format!("no highlights of {kind}"))?;
            let design = design(highlights, status, scope)?.unwrap_or_default();
            let more = array(&widget["customContent"]).iter().find(of_kind);
            let more = more.with_context(|| format!("no reason of {kind}"))?;
            let reason = scope.evaluate(more["value"]["source"].as_str().context("no source")?)?;
            self.lines.push(format!(
                "- {} {} [{design}] {}",
                plain(kind),
                plain(status),
                reason.as_ref().map_or_else(String::new, plain)
            ));
        }
        Ok(())
    }
}

/// The entries of a list. One entry comes as itself, and the dashboard takes it as a list of one.
fn entries(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(entries)) => entries,
        one => one.into_iter().collect(),
    }
}

/// Whether a widget is shown, and its value.
fn shown(widget: &Value, scope: Scope<'_>) -> Result<(bool, Option<Value>)> {
    let source = text(widget, "source");
    let value = source.map(|source| scope.evaluate(source)).transpose()?.flatten();
    let visible = match text(widget, "visibility") {
        None => true,
        Some(visibility) => {
            let value = value.as_ref();
            // The dashboard hides what is false and nothing else.
            Scope { value, ..scope }.evaluate(visibility)? != Some(Value::Bool(false))
        }
    };
    Ok((visible, value))
}

/// The rule that a value meets. The dashboard takes the first one; here there may be only one, so that their order says nothing.
fn design(rules: &Value, value: &Value, scope: Scope<'_>) -> Result<Option<String>> {
    let mut met = Vec::new();
    for (design, rule) in rules.as_object().into_iter().flatten() {
        let is_met = match rule {
            Value::Array(values) => values.contains(value),
            Value::String(expression) if design != "type" => {
                scope.evaluate(expression)? == Some(Value::Bool(true))
            }
            _ => false,
        };
        met.extend(is_met.then(|| design.clone()));
    }
    ensure!(met.len() <= 1, "{value} is {met:?}");
    Ok(met.pop())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
