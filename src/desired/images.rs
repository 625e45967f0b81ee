//! `spec.images`: every image of the stack from another registry, and which registries a user may name.
//!
//! The chart has no common setting. Each component has its own repository (the catalogue lists them) and list of Secrets.

use serde_json::{Map, Value, json};

use super::typed::Typed;
use super::{Refusal, merge, path};
use crate::api::GpuModuleSpec;
use crate::catalogue::Chart;

/// Part of the values that belongs to the chart of Node Feature Discovery.
const NFD: &str = "node-feature-discovery";

/// A repository with the user's registry in place of its own.
pub fn mirrored(repository: &str, spec: &GpuModuleSpec) -> String {
    let registry = spec.images.as_ref().and_then(|images| images.registry.as_ref());
    match (registry, repository.split_once('/')) {
        (Some(registry), Some((_, path))) => format!("{registry}/{path}"),
        _ => repository.to_owned(),
    }
}

pub fn typed(spec: &GpuModuleSpec, chart: &Chart) -> Vec<Typed> {
    let Some(images) = &spec.images else { return vec![] };
    let mut typed = vec![];
    if images.registry.is_some() {
        let repositories = chart.image_repositories.iter();
        let repositories = repositories.map(|(component, repository)| {
            (
                format!("{component}.repository"),
                mirrored(repository, spec).into(),
            )
        });
        typed.push(of("spec.images.registry", repositories));
    }
    if !images.pull_secrets.is_empty() {
        let components = chart.image_repositories.keys().map(String::as_str);
        // A container in another component's Pod has no list of its own, nor has Node Feature Discovery's image.
        let secrets = components
            .filter(|component| !component.contains('.'))
            .map(|component| {
                (
                    format!("{component}.imagePullSecrets"),
                    json!(images.pull_secrets),
                )
            });
        let names = images.pull_secrets.iter().map(|name| json!({ "name": name }));
        let nfd = (format!("{NFD}.imagePullSecrets"), names.collect());
        typed.push(of("spec.images.pullSecrets", secrets.chain([nfd])));
    }
    typed
}

fn of(field: &'static str, said: impl Iterator<Item = (String, Value)>) -> Typed {
    let mut values = Map::new();
    for (path, value) in said {
        path::set(&mut values, &path, value);
    }
    Typed {
        field,
        values,
        excludes: vec![],
    }
}

/// Refuses registries of the user's that the operator does not allow. What the module itself names is always allowed, and so is
/// everything where none is listed.
pub fn check(spec: &GpuModuleSpec, chart: &Chart, allowed: &[String]) -> Result<(), Refusal> {
    if allowed.is_empty() {
        return Ok(());
    }
    let registry = spec.images.as_ref().and_then(|images| images.registry.as_ref());
    let driver = spec.driver.as_ref().and_then(|driver| driver.repository.as_ref());
    let typed = [
        ("spec.images.registry", registry),
        ("spec.driver.repository", driver),
    ];
    let mut named: Vec<_> = typed
        .into_iter()
        .filter_map(|(field, named)| Some((field.to_owned(), named?.as_str())))
        .collect();
    if let Some(values) = &spec.values {
        find_in_map(values, chart, "", false, &mut named);
    }
    let is_allowed = |named: &str| {
        allowed.iter().any(|allowed| {
            named
                .strip_prefix(allowed.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    match named.into_iter().find(|(_, named)| !is_allowed(named)) {
        Some((field, named)) => Err(Refusal::RegistryNotAllowed {
            field,
            named: if named.is_empty() { "no registry" } else { named }.to_owned(),
            allowed: allowed.join(", "),
        }),
        None => Ok(()),
    }
}

/// Finds what names images: repositories, whole references, and environment variables that NVIDIA's operator reads. Without a
/// repository it takes any image for a whole reference (`imagePath` in its `internal/image`), so an empty one counts too.
fn find_in_map<'a>(
    map: &'a Map<String, Value>,
    chart: &Chart,
    at: &str,
    in_list: bool,
    found: &mut Vec<(String, &'a str)>,
) {
    let field = || merge::below("spec.values", at);
    let variable = map.get("name").and_then(Value::as_str);
    let text = map.get("value").and_then(Value::as_str);
    // What it is read from lies elsewhere and may change.
    let text = text.or_else(|| map.contains_key("valueFrom").then_some(""));
    if let Some(text) = text.filter(|_| variable.is_some_and(|name| name.ends_with("IMAGE"))) {
        found.push((field(), text));
    }
    // A list has containers, which know no repository: what stands beside the image says nothing.
    let below_repository =
        !in_list && (map.contains_key("repository") || chart.image_repositories.contains_key(at));
    for (key, value) in map {
        let path = if in_list {
            at.to_owned()
        } else {
            merge::below(at, key)
        };
        let field = || merge::below("spec.values", &path);
        let is_place = matches!(key.as_str(), "repository" | "registry");
        match value {
            Value::String(text) if is_place => found.push((field(), text)),
            Value::Null if is_place => found.push((field(), "")),
            Value::String(text) if key == "image" && (!below_repository || text.contains('/')) => {
                found.push((field(), text));
            }
            _ => find(value, chart, &path, in_list, found),
        }
    }
}

fn find<'a>(value: &'a Value, chart: &Chart, at: &str, in_list: bool, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| find(item, chart, at, true, found)),
        Value::Object(map) => find_in_map(map, chart, at, in_list, found),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
