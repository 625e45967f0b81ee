//! JSONata as the dashboard evaluates it, with stand-ins for the functions and variables that the dashboard adds.
//!
//! The engine is not the dashboard's. Where the two differ, `docs/contributor/dashboard.md` says what to avoid.

use std::collections::HashMap;

use anyhow::{Result, anyhow};
use bumpalo::Bump;
use jsonata_rs::{FunctionContext, JsonAta, Value as Jsonata};
use serde_json::Value;

/// What an expression sees.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The GpuModule: `$root`, and what expressions are about where no list is.
    pub root: &'a Value,
    /// What the expression is about: the member of the nearest list with a source.
    pub here: &'a Value,
    /// `$value`: what the source of the same widget gave.
    pub value: Option<&'a Value>,
}

impl<'a> Scope<'a> {
    /// The outermost scope of a page.
    pub const fn page(root: &'a Value) -> Self {
        Self {
            root,
            here: root,
            value: None,
        }
    }

    /// Evaluates an expression. `None`: it gives nothing.
    pub fn evaluate(&self, expression: &str) -> Result<Option<Value>> {
        let arena = Bump::new();
        let failed = |error: jsonata_rs::Error| anyhow!("{expression}: {error}");
        let engine = JsonAta::new(expression, &arena).map_err(failed)?;
        engine.register_function("readableTimestampWithTime", 1, readable_timestamp);
        engine.register_function("matchEvents", 3, match_events);
        let mut variables = HashMap::from([("root", self.root), ("item", self.here)]);
        variables.extend(self.value.map(|value| ("value", value)));
        let input = self.here.to_string();
        let found = engine.evaluate(Some(&input), Some(&variables)).map_err(failed)?;
        if found.is_undefined() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&found.serialize(false))?))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the engine wants a Result")]
/// Stands in for the dashboard's `$readableTimestampWithTime`, which writes the time as the browser's user is used to.
fn readable_timestamp<'a>(
    _: FunctionContext<'a, '_>,
    arguments: &[&'a Jsonata<'a>],
) -> jsonata_rs::Result<&'a Jsonata<'a>> {
    Ok(arguments[0])
}

#[expect(clippy::unnecessary_wraps, reason = "the engine wants a Result")]
/// Stands in for the dashboard's `$matchEvents(event, kind, name)`.
fn match_events<'a>(
    _: FunctionContext<'a, '_>,
    arguments: &[&'a Jsonata<'a>],
) -> jsonata_rs::Result<&'a Jsonata<'a>> {
    let involved = arguments[0].get_entry("involvedObject");
    let is = |key: &str, wanted: &Jsonata<'_>| {
        let found = involved.get_entry(key);
        found.is_string() && found.as_str() == wanted.as_str()
    };
    Ok(Jsonata::bool(
        is("kind", arguments[1]) && is("name", arguments[2]),
    ))
}
