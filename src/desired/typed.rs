//! What the typed fields of the spec make of the chart's values, and what `spec.values` may not say beside them.
//!
//! A field that is not set says nothing, so the same value may then be given in `spec.values`. One that is set decides: a
//! different value in `spec.values` is refused, naming both, since one of the two would be without effect.

use serde_json::{Map, Value};

use super::{
    Refusal, driver_upgrade, images, kernel_modules, merge, mig, monitoring, path, sharing, tolerations,
};
use crate::api::GpuModuleSpec;
use crate::catalogue::{Chart, DriverLayout, MergedList};

/// What one field makes of the chart's values.
pub struct Typed {
    /// Dotted path of the field in the GpuModule.
    pub field: &'static str,
    /// The values.
    pub values: Map<String, Value>,
    /// What `spec.values` may not say beside it, where that is more than another value of the same: at each dotted path that
    /// value, or anything.
    pub excludes: Vec<(&'static str, Option<Value>)>,
}

impl Typed {
    /// A field that sets one value.
    pub fn new(field: &'static str, path: &str, value: impl Into<Value>) -> Self {
        let mut values = Map::new();
        path::set(&mut values, path, value.into());
        Self {
            field,
            values,
            excludes: vec![],
        }
    }
}

/// Of every typed field that is set, without what tells the driver's mode and image.
pub fn all(spec: &GpuModuleSpec, chart: &Chart, layout: DriverLayout) -> Vec<Typed> {
    let driver = spec.driver.as_ref();
    let single = [
        driver.and_then(|driver| kernel_modules::typed(driver, layout)),
        driver.and_then(|driver| driver_upgrade::typed(driver, layout)),
        tolerations::typed(spec),
        sharing::typed(spec),
        mig::typed(spec),
    ];
    let several = [monitoring::typed(spec), images::typed(spec, chart)];
    single
        .into_iter()
        .flatten()
        .chain(several.into_iter().flatten())
        .collect()
}

/// Refuses `spec.values` that say something else than a typed field does.
pub fn check(typed: &[Typed], user: &Map<String, Value>, lists: &[MergedList]) -> Result<(), Refusal> {
    let contradicted = typed.iter().find_map(|typed| {
        let path = excluded(typed, user).or_else(|| another(&typed.values, user, lists, ""))?;
        Some((typed.field, path))
    });
    match contradicted {
        Some((field, path)) => Err(Refusal::Contradiction { field, path }),
        None => Ok(()),
    }
}

fn excluded(typed: &Typed, user: &Map<String, Value>) -> Option<String> {
    typed.excludes.iter().find_map(|(path, value)| {
        let touched = path::touched(user, path)?;
        let said = value.is_none() || path::get(user, path) == value.as_ref();
        said.then(|| touched.to_owned())
    })
}

/// The path of another value for the same.
fn another(
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
            (Value::Object(typed), Value::Object(user), _) => another(typed, user, lists, &path),
            // What is added to is not contradicted, and emptying it leaves what the module puts in.
            (Value::Array(_), Value::Array(_) | Value::Null, Some(_)) => None,
            (typed, user, _) => (typed != user).then_some(path),
        }
    })
}
