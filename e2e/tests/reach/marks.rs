//! Marks in place of what an editor of the GpuModule may say.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Marks, by their text, and the paths that they stand at.
#[derive(Default)]
pub struct Marks(BTreeMap<String, String>);

/// What the switches (true or false) are set to.
#[derive(Clone, Copy, Debug)]
pub enum Switches {
    AsTheyAre,
    On,
    Off,
}

/// The path of what is called `key` there.
pub fn below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

impl Marks {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn paths(&self) -> impl Iterator<Item = &String> {
        self.0.values()
    }

    fn new_at(&mut self, path: &str) -> String {
        // Ends so that no mark is the beginning of another one.
        let mark = format!("reach{}x", self.0.len());
        self.0.insert(mark.clone(), path.to_owned());
        mark
    }

    /// The value with marks in place of what an editor may say.
    pub fn on(&mut self, value: &Value, path: &str, switches: Switches, refused: &BTreeSet<String>) -> Value {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let marked = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.on(value, &below(path, key), switches, refused)));
                Value::Object(marked.collect::<Map<_, _>>())
            }
            _ if refused.contains(path) => value.clone(),
            Value::Bool(_) => match switches {
                Switches::AsTheyAre => value.clone(),
                Switches::On => true.into(),
                Switches::Off => false.into(),
            },
            _ => self.instead_of(value, path),
        }
    }

    /// Something of the same form that has a mark.
    fn instead_of(&mut self, value: &Value, path: &str) -> Value {
        let key = path.rsplit('.').next().unwrap_or_default();
        match value {
            // Terms that charts do not pass on as they are, and that reach no more than scheduling.
            _ if ["tolerations", "affinity", "priorityClassName"].contains(&key) => value.clone(),
            Value::Object(_) => json!({ self.new_at(path): "v" }),
            Value::Array(_) if key == "env" => json!([{ "name": "N", "value": self.new_at(path) }]),
            Value::Array(_) => json!([self.new_at(path)]),
            _ => self.new_at(path).into(),
        }
    }

    /// Puts a mark where the chart declares nothing.
    pub fn add(&mut self, values: &mut Value, path: &str) {
        let form = match path.rsplit('.').next() {
            Some("env") => json!([]),
            Some("labels" | "annotations" | "nodeSelector" | "resources") => json!({}),
            _ => Value::Null,
        };
        let mark = self.instead_of(&form, path);
        let at = path.split('.').fold(values, |value, key| &mut value[key]);
        *at = mark;
    }

    /// The paths whose marks are in a text.
    pub fn paths_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.filter(|word| word.contains("reach"));
        words.flat_map(|word| {
            self.0
                .iter()
                .filter(move |(mark, _)| word.contains(*mark))
                .map(|(_, path)| path)
        })
    }
}
