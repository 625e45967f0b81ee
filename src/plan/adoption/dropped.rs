//! Which values of an existing release the module would drop or replace.
//!
//! A value is kept where the wanted release has the same one: given by the module or the spec, in the NVIDIADriver, or as the
//! chart's default. Only paths leave this file, since values can be secret and more people read a GpuModule than a Secret.

use serde_json::{Map, Value};

use crate::catalogue::{Catalogue, DriverLayout, MergedList};
use crate::desired::{Desired, same_values};
use crate::facts::ExistingContent;

/// Most characters of a path; a key can be of any length.
const MAX_PATH: usize = 200;

/// What decides which driver runs. It counts also where the existing release took it from its chart's defaults.
const DRIVER: [&str; 4] = ["enabled", "usePrecompiled", "repository", "version"];

/// Names of fields that NVIDIA's chart copies into its NVIDIADriver under another name (`templates/nvidiadriver.yaml`).
const RENAMED: [(&str, &str); 1] = [("upgradePolicy.gpuPodDeletion", "upgradePolicy.podDeletion")];

/// Dotted paths in alphabetical order.
pub fn dropped(existing: &ExistingContent, desired: &Desired, catalogue: &Catalogue) -> Vec<String> {
    let comparison = Comparison {
        desired,
        defaults: &existing.defaults,
        lists: &catalogue.defaults.merged_lists,
        obsolete: &catalogue.defaults.obsolete_values,
    };
    let mut paths = Vec::new();
    comparison.walk(&existing.values, "", &mut paths);
    let same_objects = existing
        .values
        .get("extraObjects")
        .is_some_and(|objects| comparison.keeps("extraObjects", objects));
    let same_driver = same_objects && existing.layout() == DriverLayout::NvidiaDriver;
    if desired.driver.is_managed() && !same_driver {
        let old = existing.all_values.get("driver");
        for (field, old) in DRIVER.iter().filter_map(|field| Some((field, old?.get(field)?))) {
            let path = format!("driver.{field}");
            if !comparison.keeps(&path, old) {
                paths.push(path);
            }
        }
    }
    if existing.layout() == DriverLayout::NvidiaDriver && !same_driver {
        // Its NVIDIADriver makes room for the module's.
        paths.push("driver.nvidiaDriverCRD.enabled".to_owned());
    }
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .map(|path| path.chars().take(MAX_PATH).collect())
        .collect()
}

struct Comparison<'a> {
    desired: &'a Desired,
    defaults: &'a Map<String, Value>,
    lists: &'a [MergedList],
    obsolete: &'a [String],
}

impl Comparison<'_> {
    fn walk(&self, values: &Map<String, Value>, at: &str, found: &mut Vec<String>) {
        for (key, value) in values {
            let path = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}.{key}")
            };
            match value {
                Value::Object(below) => self.walk(below, &path, found),
                _ if self.keeps(&path, value) => {}
                _ => found.push(path),
            }
        }
    }

    /// True where the wanted release has that value too, or no chart reads it.
    fn keeps(&self, path: &str, old: &Value) -> bool {
        // Which object describes the driver is the module's to decide, and no loss.
        if path == "driver.nvidiaDriverCRD.enabled" || self.obsolete.iter().any(|obsolete| obsolete == path) {
            return true;
        }
        let new = self.wanted(path);
        match (old, new, self.lists.iter().find(|list| list.path == path)) {
            (Value::Array(old), Some(Value::Array(new)), Some(list)) => {
                old.iter().all(|element| has_element(new, element, list))
            }
            // `null` takes a default away.
            (Value::Null, new, _) => new.is_none_or(Value::is_null),
            (old, Some(new), _) => same_values(old, new),
            (_, None, _) => false,
        }
    }

    /// The value that the wanted release has at a path.
    fn wanted(&self, path: &str) -> Option<&Value> {
        let driver = self.desired.uses_driver_object();
        let in_object = path.strip_prefix("driver.").filter(|_| driver).and_then(|field| {
            let renamed = RENAMED.iter().find_map(|(old, new)| {
                let rest = field.strip_prefix(old).filter(|rest| rest.starts_with('.'))?;
                Some(format!("{new}{rest}"))
            });
            at(self.desired.driver_spec()?, renamed.as_deref().unwrap_or(field))
        });
        let given = || at(&self.desired.values, path);
        let default = || {
            self.defaults
                .get(path.split('.').next()?)
                .and_then(|first| match path.split_once('.') {
                    Some((_, rest)) => at(first, rest),
                    None => Some(first),
                })
        };
        in_object.or_else(given).or_else(default)
    }
}

fn has_element(new: &[Value], element: &Value, list: &MergedList) -> bool {
    new.iter().any(|known| {
        let same_name = || {
            let key = list.key.as_deref().filter(|_| list.reserved)?;
            Some(known.get(key)? == element.get(key)?)
        };
        // A rule of the module's name is the module's rule, however it is written.
        same_values(known, element) || same_name() == Some(true)
    })
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(value, |value, part| value.as_object()?.get(part))
}
