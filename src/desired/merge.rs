//! Merges values as Helm merges several values files: maps deeply, everything else replaced.
//!
//! A `null` stays in the result: Helm then removes the chart's own default. The lists of the catalogue's
//! `mergedLists` are the exception, they are added to.

use serde_json::{Map, Value};

use super::{Refusal, path};
use crate::catalogue::MergedList;

/// Merges `over` into `values`.
pub fn merge(values: &mut Map<String, Value>, over: &Map<String, Value>, lists: &[MergedList]) {
    merge_at(values, over, lists, "");
}

fn merge_at(values: &mut Map<String, Value>, over: &Map<String, Value>, lists: &[MergedList], at: &str) {
    for (key, new) in over {
        let path = below(at, key);
        let list = lists.iter().find(|list| list.path == path);
        match (values.get_mut(key), new, list) {
            (Some(Value::Object(old)), Value::Object(new), _) => merge_at(old, new, lists, &path),
            (Some(Value::Array(old)), Value::Array(new), Some(list)) => append(old, new, list),
            // Emptying a merged list leaves the module's own entries.
            (Some(Value::Array(_)), Value::Null, Some(_)) => {}
            _ => {
                values.insert(key.clone(), new.clone());
            }
        }
    }
}

/// The path of what is called `key` there.
pub fn below(at: &str, key: &str) -> String {
    if at.is_empty() {
        key.to_owned()
    } else {
        format!("{at}.{key}")
    }
}

fn append(old: &mut Vec<Value>, new: &[Value], list: &MergedList) {
    for element in new {
        match old.iter_mut().find(|known| same_element(known, element, list)) {
            Some(known) => *known = element.clone(),
            None => old.push(element.clone()),
        }
    }
}

fn same_element(one: &Value, other: &Value, list: &MergedList) -> bool {
    match &list.key {
        Some(key) => one.get(key).is_some() && one.get(key) == other.get(key),
        None => one == other,
    }
}

/// Refuses user values that would replace an element, or all, of a list whose elements are the module's.
pub fn check_reserved(
    user: &Map<String, Value>,
    base: &Map<String, Value>,
    lists: &[MergedList],
) -> Result<(), Refusal> {
    for list in lists.iter().filter(|list| list.reserved) {
        let Some(touched) = path::touched(user, &list.path) else {
            continue;
        };
        let refused = || Refusal::OwnedValue {
            path: touched.to_owned(),
        };
        let ours = path::get(base, &list.path)
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let elements = path::get(user, &list.path)
            .and_then(Value::as_array)
            .ok_or_else(refused)?;
        if elements
            .iter()
            .any(|element| ours.iter().any(|known| same_element(known, element, list)))
        {
            return Err(refused());
        }
    }
    Ok(())
}
