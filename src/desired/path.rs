//! Dotted paths into values, for example `operator.tolerations`. No key of NVIDIA's chart has a dot.

use serde_json::{Map, Value};

/// The value at `path`, if every part of the way is a map.
pub fn get<'a>(values: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = values.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.as_object()?.get(part))
}

/// Puts a value at `path`; what is no map on the way becomes one.
pub fn set(values: &mut Map<String, Value>, path: &str, new: Value) {
    match path.split_once('.') {
        None => drop(values.insert(path.to_owned(), new)),
        Some((first, rest)) => {
            let below = values.entry(first).or_insert(Value::Null);
            if !below.is_object() {
                *below = Value::Object(Map::new());
            }
            if let Value::Object(below) = below {
                set(below, rest, new);
            }
        }
    }
}

/// Removes what lies at `path`; a list on the way stands for each of its elements.
pub fn remove(value: &mut Value, path: &str) {
    match (value, path.split_once('.')) {
        (Value::Array(items), _) => items.iter_mut().for_each(|item| remove(item, path)),
        (Value::Object(map), None) => drop(map.remove(path)),
        (Value::Object(map), Some((first, rest))) => {
            if let Some(below) = map.get_mut(first) {
                remove(below, rest);
            }
        }
        _ => {}
    }
}

/// Where `values` reach into `path`: the path itself when it or anything below it is set, or a shorter one when a map
/// on the way is replaced by something that is no map (`null` included, which would remove all below it).
pub fn touched<'a>(values: &Map<String, Value>, path: &'a str) -> Option<&'a str> {
    let mut map = values;
    for (at, _) in path.match_indices('.').chain([(path.len(), "")]) {
        let key = path[..at].rsplit('.').next()?;
        match map.get(key)? {
            _ if at == path.len() => return Some(path),
            Value::Object(below) => map = below,
            _ => return Some(&path[..at]),
        }
    }
    None
}
