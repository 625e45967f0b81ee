//! What NVIDIA's charts make of the typed fields of the spec, and whether every image comes from where a user says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::cluster::{Cluster, Options};
use e2e::goldens;
use e2e::render::Renderer;
use e2e::tools::Tools;
use e2e::wait::eventually;
use gpu_manager::api::NodeFeatureDiscovery;
use gpu_manager::catalogue::{Catalogue, Chart, DriverLayout, Stage};
use gpu_manager::desired::{DriverUpgrades, Step, resolve, resolve_step};
use serde_json::{Value, json};

/// Registries that the chart's own images come from.
const REGISTRIES: [&str; 3] = ["nvcr.io", "registry.k8s.io", "ghcr.io"];

/// How long the API server may take to serve new CRDs.
const SOON: Duration = Duration::from_secs(30);

struct Lab {
    tools: Tools,
    catalogue: Catalogue,
    charts: Charts,
}

impl Lab {
    /// `None` without NVIDIA's charts.
    async fn new(what: &str) -> Result<Option<Self>> {
        let tools = Tools::ensure()?;
        let catalogue = Catalogue::compiled_in()?;
        let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
        let names: Vec<&str> = versions.iter().map(String::as_str).collect();
        let charts = Charts::nvidia(&tools, &names, what).await?;
        Ok(charts.map(|charts| Self {
            tools,
            catalogue,
            charts,
        }))
    }

    fn offered(&self) -> impl Iterator<Item = &Chart> {
        self.catalogue
            .charts()
            .filter(|chart| chart.stage == Stage::Install)
    }

    fn renderer(&self, chart: &Chart) -> Renderer {
        Renderer::new(&self.tools, &self.charts, &chart.version.to_string())
    }

    async fn render(&self, chart: &Chart, mut spec: Value) -> Result<Vec<Value>> {
        spec["chartVersion"] = chart.version.to_string().into();
        let spec = serde_json::from_value(spec)?;
        let desired = resolve(&spec, &self.catalogue, NodeFeatureDiscovery::default(), &[])?;
        let objects = self.renderer(chart).objects(&desired.values).await?;
        objects.with_context(|| format!("chart {} refuses the values", chart.version))
    }
}

/// Everything that is no map or list, by kind, name and path.
fn leaves(objects: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let at = format!("{} {name}", object["kind"].as_str().unwrap_or_default());
        walk(object, &at, &mut |path, value| {
            found.insert(format!("{path}: {value}"));
        });
    }
    found
}

fn walk(value: &Value, at: &str, tell: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, child) in map {
                walk(child, &format!("{at}.{key}"), tell);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{at}[{index}]"), tell);
            }
        }
        value => tell(at, value),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_field_changes_its_part_of_the_objects_and_no_other() -> Result<()> {
    let Some(lab) = Lab::new("the goldens of the charts' objects").await? else {
        return Ok(());
    };
    let fields = goldens::fields()?;
    for chart in lab.offered() {
        let plain = leaves(&lab.render(chart, json!({})).await?);
        let mut changes = BTreeMap::new();
        for (name, spec) in &fields {
            let found = leaves(&lab.render(chart, spec.clone()).await?);
            let gone = plain.difference(&found).map(|leaf| format!("- {leaf}"));
            let new = found.difference(&plain).map(|leaf| format!("+ {leaf}"));
            changes.insert(name, gone.chain(new).collect::<Vec<_>>());
        }
        insta::assert_yaml_snapshot!(format!("objects-{}", chart.version), changes);
    }
    Ok(())
}

/// Texts that name an image or the registry of one, wherever they stand.
fn images(objects: &[Value]) -> Vec<(String, String)> {
    let mut found = vec![];
    for object in objects {
        let at = format!("{} {}", object["kind"], object["metadata"]["name"]);
        walk(object, &at, &mut |path, value| {
            let Some(text) = value.as_str() else { return };
            let field = path.rsplit('.').next().unwrap_or_default();
            // A reference or a repository has a host in front; so have keys of labels, which are no values.
            let host = text.split('/').next().unwrap_or_default();
            let names_host = text.contains('/')
                && !text.contains(char::is_whitespace)
                && host.contains('.')
                && !text.contains("://");
            let known = REGISTRIES.iter().any(|registry| text.contains(registry));
            if known || (names_host && ["image", "repository", "value"].contains(&field)) {
                found.push((path.to_owned(), text.to_owned()));
            }
        });
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_registry_every_image_comes_from_there() -> Result<()> {
    let Some(lab) = Lab::new("the test of the registry").await? else {
        return Ok(());
    };
    let mirror = "mirror.example:5000/gpu";
    for chart in lab.offered() {
        for mode in ["Precompiled", "Preinstalled"] {
            // With all that is off by default, and with NVIDIA's hooks.
            let more = json!({
                "dcgm": { "enabled": true },
                "gdrcopy": { "enabled": true },
                "gds": { "enabled": true },
                "nodeStatusExporter": { "enabled": true },
            });
            let spec =
                |images: Value| json!({ "driver": { "mode": mode }, "images": images, "values": more });
            let usual = images(&lab.render(chart, spec(json!({}))).await?);
            let mirrored = images(&lab.render(chart, spec(json!({ "registry": mirror }))).await?);
            ensure!(
                usual.len() > 20,
                "{}: only {} images are found: {usual:#?}",
                chart.version,
                usual.len()
            );
            let at = |images: &[(String, String)]| -> BTreeSet<String> {
                images.iter().map(|(path, _)| path.clone()).collect()
            };
            ensure!(at(&usual) == at(&mirrored), "other places than usual name images");
            for ((path, usual), (_, mirrored)) in usual.iter().zip(&mirrored) {
                let path_in_registry = usual.split_once('/').map(|(_, path)| path);
                let expected = path_in_registry.map(|path| format!("{mirror}/{path}"));
                ensure!(
                    Some(mirrored) == expected.as_ref(),
                    "chart {}, {path}: {mirrored} instead of {expected:?}",
                    chart.version
                );
            }
        }
    }
    // Two images are given to NVIDIA's operator as variables.
    let newest = lab.catalogue.default_chart().context("no default chart")?;
    let objects = Value::from(lab.render(newest, json!({})).await?).to_string();
    for variable in ["DRIVER_MANAGER_IMAGE", "VALIDATOR_IMAGE"] {
        ensure!(objects.contains(variable), "{variable} is gone");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_registry_a_step_on_the_way_asks_it_too() -> Result<()> {
    let Some(lab) = Lab::new("the test of the registry on the way").await? else {
        return Ok(());
    };
    let spec = serde_json::from_value(json!({ "images": { "registry": "mirror.example" } }))?;
    for chart in lab.offered() {
        let step = Step {
            chart: chart.version.clone(),
            layout: DriverLayout::ClusterPolicy,
            drivers: DriverUpgrades::Held,
        };
        let nfd = NodeFeatureDiscovery::default();
        let values = resolve_step(&spec, &lab.catalogue, nfd, &step, &[])?.values;
        let objects = lab.renderer(chart).objects(&values).await?;
        for (path, image) in images(&objects.context("refused")?) {
            ensure!(image.starts_with("mirror.example/"), "{path}: {image}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_knows_all_that_the_fields_become() -> Result<()> {
    let Some(lab) = Lab::new("the test of the objects' schemas").await? else {
        return Ok(());
    };
    let cluster = Cluster::start(Options::api_server_only()).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("objects.json");
    let path = file.to_str().context("a path that is no text")?;
    let spec = serde_json::from_value(goldens::every_field()?)?;
    for chart in lab.offered() {
        std::fs::write(&file, lab.renderer(chart).crds().await?)?;
        cluster
            .kubectl(&["apply", "--server-side", "--force-conflicts", "-f", path])
            .await?;
        for layout in [DriverLayout::ClusterPolicy, DriverLayout::NvidiaDriver] {
            if layout == DriverLayout::NvidiaDriver && chart.driver_layout != layout {
                continue;
            }
            let step = Step {
                chart: chart.version.clone(),
                layout,
                drivers: DriverUpgrades::Held,
            };
            let nfd = NodeFeatureDiscovery::default();
            let values = resolve_step(&spec, &lab.catalogue, nfd, &step, &[])?.values;
            let objects = lab.renderer(chart).objects(&values).await?.context("refused")?;
            let nvidias = |object: &&Value| {
                ["ClusterPolicy", "NVIDIADriver"]
                    .map(Value::from)
                    .contains(&object["kind"])
            };
            let items: Vec<_> = objects.iter().filter(nvidias).collect();
            let expected = if layout == DriverLayout::NvidiaDriver {
                2
            } else {
                1
            };
            ensure!(items.len() == expected, "{} objects of NVIDIA's", items.len());
            std::fs::write(
                &file,
                json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string(),
            )?;
            let accepted = eventually("NVIDIA's kinds to be served", SOON, async || {
                cluster
                    .kubectl(&[
                        "apply",
                        "--server-side",
                        "--dry-run=server",
                        "--validate=strict",
                        "-f",
                        path,
                    ])
                    .await
            });
            accepted
                .await
                .with_context(|| format!("chart {} with {layout:?}", chart.version))?;
        }
    }
    Ok(())
}

/// Every `repository` of the chart's own values, by component.
fn repositories(values: &Value, at: &str, found: &mut BTreeMap<String, String>) {
    let Some(map) = values.as_object() else { return };
    if let Some(repository) = map.get("repository").and_then(Value::as_str)
        && !repository.is_empty()
    {
        found.insert(at.to_owned(), repository.to_owned());
    }
    for (key, child) in map {
        let at = if at.is_empty() {
            key.clone()
        } else {
            format!("{at}.{key}")
        };
        repositories(child, &at, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_knows_where_every_image_comes_from() -> Result<()> {
    let Some(lab) = Lab::new("the test of the catalogue's repositories").await? else {
        return Ok(());
    };
    for chart in lab.offered() {
        let mut found = BTreeMap::new();
        repositories(&lab.renderer(chart).defaults().await?, "", &mut found);
        let mut known = chart.image_repositories.clone();
        // In the values of the subchart.
        let nfd = known.remove("node-feature-discovery.image");
        ensure!(
            nfd.as_deref() == Some("registry.k8s.io/nfd/node-feature-discovery"),
            "{nfd:?}"
        );
        assert_eq!(known, found, "chart {}", chart.version);
    }
    Ok(())
}
