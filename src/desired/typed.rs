//! What the typed fields of the spec make of the chart's values, and what `spec.values` may not say beside them.
//!
//! A field that is not set says nothing, so the same value may then be given in `spec.values`. One that is set decides: a
//! different value in `spec.values` is refused, naming both, since one of the two would be without effect.

use serde_json::{Map, Value};

use super::{Refusal, merge, tolerations};
use crate::api::GpuModuleSpec;
use crate::catalogue::MergedList;

/// What one field makes of the chart's values.
pub struct Typed {
    /// Dotted path of the field in the GpuModule.
    pub field: &'static str,
    /// The values.
    pub values: Map<String, Value>,
}

/// Of every typed field that is set.
pub fn all(spec: &GpuModuleSpec) -> Vec<Typed> {
    [tolerations::typed(spec)].into_iter().flatten().collect()
}

/// Refuses `spec.values` that say something else than a typed field does.
pub fn check(typed: &[Typed], user: &Map<String, Value>, lists: &[MergedList]) -> Result<(), Refusal> {
    let contradicted = typed.iter().find_map(|typed| {
        let path = contradiction(&typed.values, user, lists, "")?;
        Some((typed.field, path))
    });
    match contradicted {
        Some((field, path)) => Err(Refusal::Contradiction { field, path }),
        None => Ok(()),
    }
}

fn contradiction(
    typed: &Map<String, Value>,
    user: &Map<String, Value>,
    lists: &[MergedList],
    at: &str,
) -> Option<String> {
    typed.iter().find_map(|(key, typed)| {
        let user = user.get(key)?;
        let path = merge::below(at, key);
        let list = lists.iter().find(|list| list.path == path);
        match (typed, user, list) {
            (Value::Object(typed), Value::Object(user), _) => contradiction(typed, user, lists, &path),
            (Value::Array(typed), Value::Array(user), Some(list)) => {
                let replaced = |ours: &Value| {
                    user.iter()
                        .any(|theirs| theirs != ours && merge::same_element(ours, theirs, list))
                };
                typed.iter().any(replaced).then_some(path)
            }
            // Emptying such a list leaves what the module puts in it.
            (Value::Array(_), Value::Null, Some(_)) => None,
            (typed, user, _) => (typed != user).then_some(path),
        }
    })
}
