//! Is what `chart-values/restarts.yaml` says true of NVIDIA's charts? Values are changed one by one, and the rendered
//! ClusterPolicy and NVIDIADriver tell what NVIDIA's operator would restart.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::goldens;
use e2e::render::Renderer;
use e2e::tools::Tools;
use gpu_manager::api::NodeFeatureDiscovery;
use gpu_manager::catalogue::{Catalogue, Chart, DriverLayout, Restart, Stage};
use gpu_manager::desired::{DriverId, resolve};
use serde_json::{Value, json};

/// The fields of the ClusterPolicy's spec that NVIDIA's operator writes into the driver's DaemonSet (`TransformDriver`
/// and `preProcessDaemonSet` in its controllers/object_controls.go).
const DRIVER_IN_POLICY: [&str; 8] = [
    "driver",
    "gds",
    "gdrcopy",
    "hostPaths",
    "daemonsets.tolerations",
    "daemonsets.labels",
    "daemonsets.annotations",
    "daemonsets.priorityClassName",
];

/// What is left of them where a NVIDIADriver describes the driver (`getManifestObjects` in internal/state/driver.go).
const DRIVER_BESIDE_OBJECT: [&str; 3] = ["driver.enabled", "driver.useNvidiaDriverCRD", "hostPaths"];

/// The fields that it writes into the toolkit's DaemonSet (`TransformToolkit`).
const TOOLKIT: [&str; 8] = [
    "toolkit",
    "cdi",
    "operator.runtimeClass",
    "validator",
    "daemonsets.tolerations",
    "daemonsets.labels",
    "daemonsets.annotations",
    "daemonsets.priorityClassName",
];

/// A chart with the module's values for it.
struct Rendered {
    renderer: Renderer,
    chart: Chart,
    values: Value,
}

/// The objects that decide.
#[derive(PartialEq)]
struct Objects {
    policy: Value,
    driver: Value,
}

impl Rendered {
    /// Renders the chart; `None` where it refuses these values.
    async fn objects(&self, values: &Value) -> Result<Option<Objects>> {
        let Some(objects) = self.renderer.objects(values).await? else {
            return Ok(None);
        };
        let spec = |kind: &str| {
            let found = objects.iter().find(|object| object["kind"] == kind);
            found.map_or(Value::Null, |object| object["spec"].clone())
        };
        Ok(Some(Objects {
            policy: spec("ClusterPolicy"),
            driver: spec("NVIDIADriver"),
        }))
    }

    /// What NVIDIA's operator would restart between two of them.
    fn restart(&self, before: &Objects, after: &Objects) -> Restart {
        let without_policy = |objects: &Objects| {
            let (mut policy, mut driver) = (objects.policy.clone(), objects.driver.clone());
            remove(&mut policy["driver"], "upgradePolicy");
            remove(&mut driver, "upgradePolicy");
            (policy, driver)
        };
        let (before, after) = (without_policy(before), without_policy(after));
        let differ = |fields: &[&str]| {
            fields.iter().any(|field| {
                let pointer = format!("/{}", field.replace('.', "/"));
                before.0.pointer(&pointer) != after.0.pointer(&pointer)
            })
        };
        let of_driver: &[&str] = match self.chart.driver_layout {
            DriverLayout::ClusterPolicy => &DRIVER_IN_POLICY,
            DriverLayout::NvidiaDriver => &DRIVER_BESIDE_OBJECT,
        };
        if before.1 != after.1 || differ(of_driver) {
            Restart::Driver
        } else if differ(&TOOLKIT) {
            Restart::Toolkit
        } else {
            Restart::Nothing
        }
    }

    fn driver_id(&self, values: &Value, catalogue: &Catalogue) -> DriverId {
        DriverId::of(&self.chart.version, values, &catalogue.restarts)
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Value::Object(map) = value {
        map.remove(key);
    }
}

/// Sets a value; a list on the way stands for its first element.
fn set(value: &mut Value, path: &str, new: Value) {
    if let Value::Array(items) = value {
        return set(&mut items[0], path, new);
    }
    match path.split_once('.') {
        None => value[path] = new,
        Some((first, rest)) => {
            if value[first].is_null() {
                value[first] = json!({});
            }
            set(&mut value[first], rest, new);
        }
    }
}

/// Changes to try for each path of the data: the path itself, or something below it.
fn samples(path: &str) -> Vec<(String, Value)> {
    let below = |rest: &str, value: Value| (format!("{path}.{rest}"), value);
    match path {
        "driver" => vec![
            below("startupProbe.periodSeconds", json!(11)),
            below("enabled", json!(false)),
        ],
        "driver.upgradePolicy" => vec![
            below("autoUpgrade", json!(false)),
            below("maxParallelUpgrades", json!(7)),
        ],
        "gds" | "gdrcopy" => vec![below("enabled", json!(true)), below("version", json!("x"))],
        "hostPaths" => vec![below("driverInstallDir", json!("/elsewhere"))],
        "daemonsets.tolerations" => vec![(path.to_owned(), json!([{ "key": "team", "operator": "Exists" }]))],
        "daemonsets.labels" | "daemonsets.annotations" => vec![(path.to_owned(), json!({ "team": "a" }))],
        "daemonsets.priorityClassName" | "nameOverride" | "operator.runtimeClass" => {
            vec![(path.to_owned(), json!("another"))]
        }
        "toolkit" => vec![
            below("installDir", json!("/elsewhere")),
            below("env", json!([{ "name": "A", "value": "b" }])),
        ],
        "driver.enabled" | "driver.nvidiaDriverCRD.enabled" => vec![(path.to_owned(), json!(false))],
        "cdi" => vec![below("enabled", json!(false))],
        "validator" => vec![below("version", json!("another"))],
        "extraObjects" => vec![
            below("spec.version", json!("590")),
            below("spec.repository", json!("another")),
        ],
        "extraObjects.spec.upgradePolicy" => vec![below("autoUpgrade", json!(false))],
        _ => Vec::new(),
    }
}

/// The paths of everything that is no map.
fn leaves(values: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match values {
        Value::Object(map) if !map.is_empty() => {
            for (key, child) in map {
                let below = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                leaves(child, &below, found);
            }
        }
        _ => found.push((path.to_owned(), values.clone())),
    }
}

/// Another value of the same type, where there is an obvious one.
fn another(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(is) => Some(json!(!is)),
        Value::Number(number) => Some(json!(number.as_i64()? + 1)),
        Value::String(text) => Some(json!(format!("{text}x"))),
        Value::Array(items) if items.is_empty() => Some(json!([{ "name": "a", "value": "b" }])),
        Value::Object(map) if map.is_empty() => Some(json!({ "a": "b" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_says_what_the_charts_render() -> Result<()> {
    let tools = Tools::ensure()?;
    let catalogue = Catalogue::compiled_in()?;
    let offered: Vec<Chart> = catalogue
        .charts()
        .filter(|chart| chart.stage == Stage::Install)
        .cloned()
        .collect();
    let versions: Vec<String> = offered.iter().map(|chart| chart.version.to_string()).collect();
    let names: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &names, "the test of what restarts drivers").await? else {
        return Ok(());
    };
    for chart in offered {
        let version = chart.version.to_string();
        let spec = serde_json::from_value(json!({ "chartVersion": version }))?;
        let rendered = Rendered {
            renderer: Renderer::new(&tools, &charts, &version),
            values: resolve(&spec, &catalogue, NodeFeatureDiscovery::default(), &[])?.values,
            chart,
        };
        listed(&rendered, &catalogue).await.context(version.clone())?;
        unlisted(&rendered, &catalogue).await.context(version.clone())?;
        fields(&rendered, &catalogue).await.context(version)?;
    }
    Ok(())
}

/// Each path of the data restarts what it says, and makes another driver exactly where it restarts that.
async fn listed(rendered: &Rendered, catalogue: &Catalogue) -> Result<()> {
    let before = rendered
        .objects(&rendered.values)
        .await?
        .context("not rendered")?;
    let id = rendered.driver_id(&rendered.values, catalogue);
    for value in catalogue.restarts.of(rendered.chart.driver_layout) {
        let samples = samples(&value.path);
        ensure!(!samples.is_empty(), "nothing is tried for {}", value.path);
        for (path, new) in samples {
            let mut values = rendered.values.clone();
            set(&mut values, &path, new.clone());
            let after = rendered
                .objects(&values)
                .await?
                .with_context(|| format!("{path} is refused"))?;
            ensure!(after != before, "{path}={new} changes nothing");
            let restart = rendered.restart(&before, &after);
            ensure!(
                restart == value.restarts,
                "{path}={new} restarts {restart:?}, not {:?}",
                value.restarts
            );
            let other = rendered.driver_id(&values, catalogue) != id;
            ensure!(
                other == (restart == Restart::Driver),
                "{path}={new}: another driver: {other}"
            );
        }
    }
    Ok(())
}

/// No other value that the chart knows, and a user may set, restarts the driver or the toolkit.
async fn unlisted(rendered: &Rendered, catalogue: &Catalogue) -> Result<()> {
    let defaults = rendered.renderer.defaults().await?;
    let restarts = catalogue.restarts.of(rendered.chart.driver_layout).iter();
    let owned = catalogue.defaults.owned_values.iter();
    let owned = owned.chain(&rendered.chart.owned_values);
    let known: Vec<_> = restarts.map(|value| &value.path).chain(owned).collect();
    let mut found = Vec::new();
    leaves(&defaults, "", &mut found);
    // Node Feature Discovery is a chart of its own; the ClusterPolicy has nothing of it.
    found.retain(|(path, _)| {
        !is_below(path, "node-feature-discovery") && !known.iter().any(|known| is_below(path, known))
    });
    let before = rendered
        .objects(&rendered.values)
        .await?
        .context("not rendered")?;
    let keys: BTreeSet<_> = found
        .iter()
        .filter_map(|(path, _)| path.split('.').next())
        .collect();
    let mut tried = 0;
    for key in keys {
        let below: Vec<_> = found.iter().filter(|(path, _)| is_below(path, key)).collect();
        let mut together = rendered.values.clone();
        for (path, value) in &below {
            if let Some(new) = another(value) {
                set(&mut together, path, new);
            }
        }
        if let Some(after) = rendered.objects(&together).await? {
            let restart = rendered.restart(&before, &after);
            ensure!(
                restart == Restart::Nothing,
                "something in {key} restarts {restart:?}"
            );
            tried += below.len();
            continue;
        }
        for (path, value) in below {
            let Some(new) = another(value) else { continue };
            let mut values = rendered.values.clone();
            set(&mut values, path, new);
            // What the chart refuses cannot restart anything.
            if let Some(after) = rendered.objects(&values).await? {
                let restart = rendered.restart(&before, &after);
                ensure!(restart == Restart::Nothing, "{path} restarts {restart:?}");
                tried += 1;
            }
        }
    }
    ensure!(tried > 100, "only {tried} values were tried");
    Ok(())
}

/// Each typed field of the spec makes another driver exactly where it restarts that.
async fn fields(rendered: &Rendered, catalogue: &Catalogue) -> Result<()> {
    let before = rendered
        .objects(&rendered.values)
        .await?
        .context("not rendered")?;
    let id = rendered.driver_id(&rendered.values, catalogue);
    for (name, mut spec) in goldens::fields()? {
        spec["chartVersion"] = rendered.chart.version.to_string().into();
        let spec = serde_json::from_value(spec)?;
        let values = resolve(&spec, catalogue, NodeFeatureDiscovery::default(), &[])?.values;
        let after = rendered
            .objects(&values)
            .await?
            .with_context(|| format!("{name} is refused"))?;
        let restart = rendered.restart(&before, &after);
        let expected = match name.as_str() {
            "kernelModuleType" | "nodes.tolerations" | "images.registry" | "images.pullSecrets" => {
                Restart::Driver
            }
            _ => Restart::Nothing,
        };
        ensure!(restart == expected, "{name} restarts {restart:?}");
        let other = rendered.driver_id(&values, catalogue) != id;
        ensure!(
            other == (restart == Restart::Driver),
            "{name}: another driver: {other}"
        );
    }
    Ok(())
}

#[test]
fn paths_reach_into_lists() {
    let mut values = json!({ "extraObjects": [{ "spec": { "a": 1 } }] });
    set(&mut values, "extraObjects.spec.b.c", json!(2));
    assert_eq!(
        values["extraObjects"][0]["spec"],
        json!({ "a": 1, "b": { "c": 2 } })
    );
}
