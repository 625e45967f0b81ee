//! What an editor of the GpuModule reaches through `spec.values`: every text, number and list that a chart declares or its
//! templates read becomes a mark, and where the marks come out tells. It is rendered with the chart's switches as they are, all
//! on, and all off, and what the switches themselves give is told too. `docs/contributor/security.md` says what follows.

mod lines;
mod marks;
mod places;
mod templates;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::render::Renderer;
use e2e::tools::{Tools, repository_root};
use gpu_manager::api::{GpuModuleSpec, NodeFeatureDiscovery};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired::resolve;
use serde_json::{Value, json};

use marks::{Marks, Switches, below};
use places::{Place, walk};
use templates::Chart;

/// What a switch may give by itself: the rest comes and goes with a component that it starts.
const OF_SWITCHES: [&str; 4] = [
    "accounts and roles",
    "arguments",
    "paths of the host",
    "rights of Pods",
];

/// What one chart lets an editor reach.
#[derive(Default, serde::Serialize)]
struct Reach {
    /// By what is reached, the values.
    values: BTreeMap<&'static str, BTreeSet<String>>,
    /// By what is reached, what other switches make of the objects.
    switches: BTreeMap<&'static str, BTreeSet<String>>,
    /// Values that come out nowhere, whatever the switches.
    nowhere: BTreeSet<String>,
}

/// What a chart declares or reads.
struct Surface<'a> {
    renderer: Renderer,
    version: &'a str,
    declared: Value,
    /// Paths that are read all the same.
    undeclared: Vec<String>,
    /// Paths of both at which the module refuses a value.
    refused: BTreeSet<String>,
}

impl<'a> Surface<'a> {
    fn new(tools: &Tools, charts: &Charts, catalogue: &Catalogue, version: &'a str) -> Result<Self> {
        let chart = Chart::unpack(&charts.archive(version))?;
        let (declared, read) = (chart.values()?, chart.read()?);
        // What is read as a whole and in parts has its marks in the parts.
        let has_parts = |path: &str| {
            let below = format!("{path}.");
            let next = read.range(below.clone()..).next();
            next.is_some_and(|next| next.starts_with(&below))
        };
        let undeclared = read
            .iter()
            .filter(|path| !has(&declared, path) && !has_parts(path));
        let undeclared: Vec<String> = undeclared.cloned().collect();
        let mut refused = leaves(&declared, "");
        refused.extend(undeclared.iter().cloned());
        refused.retain(|path| refuses(catalogue, version, path));
        Ok(Self {
            renderer: Renderer::new(tools, charts, version),
            version,
            declared,
            undeclared,
            refused,
        })
    }

    /// What is rendered with marks everywhere that an editor may say something.
    async fn render(&self, switches: Switches) -> Result<(Marks, Vec<Value>)> {
        let mut marks = Marks::default();
        let mut values = marks.on(&self.declared, "", switches, &self.refused);
        for path in self
            .undeclared
            .iter()
            .filter(|path| !self.refused.contains(*path))
        {
            marks.add(&mut values, path);
        }
        let objects = self.renderer.objects_without_schema(&values).await?;
        let objects =
            objects.with_context(|| format!("chart {} refuses the marks, {switches:?}", self.version))?;
        Ok((marks, objects))
    }

    async fn reach(&self) -> Result<Reach> {
        let mut reach = Reach::default();
        let mut unknown = BTreeSet::new();
        let mut without_marks = Vec::new();
        let mut seen = BTreeSet::new();
        for switches in [Switches::AsTheyAre, Switches::On, Switches::Off] {
            let (marks, objects) = self.render(switches).await?;
            ensure!(marks.len() > 300, "only {} values are tried", marks.len());
            reach.nowhere.extend(marks.paths().cloned());
            let mut given = BTreeSet::new();
            for object in &objects {
                let kind = object["kind"].as_str().unwrap_or_default();
                walk(object, "", &mut |path, text| {
                    let decides = Place { kind, path }.decides();
                    let mut marked = marks.paths_in(text).peekable();
                    if marked.peek().is_none() {
                        let what = decides.ok().flatten().filter(|what| OF_SWITCHES.contains(what));
                        if let Some(what) = what.filter(|_| marks.paths_in(path).next().is_none()) {
                            given.insert((what, format!("{kind} {path}: {text}")));
                        }
                        return;
                    }
                    let marked: BTreeSet<_> = marked.cloned().collect();
                    seen.extend(marked.clone());
                    match decides {
                        Ok(Some(what)) => reach.values.entry(what).or_default().extend(marked),
                        Ok(None) => {}
                        Err(()) => {
                            unknown.insert(format!("{kind} {path}: {marked:?}"));
                        }
                    }
                });
            }
            without_marks.push(given);
        }
        let unknown: Vec<_> = unknown.into_iter().collect();
        ensure!(
            unknown.is_empty(),
            "in chart {} values come out where places.rs does not know what is decided:\n{}",
            self.version,
            unknown.join("\n")
        );
        reach.nowhere.retain(|path| !seen.contains(path));
        for (what, place) in without_marks[1..].iter().flatten() {
            if !without_marks[0].contains(&(what, place.clone())) {
                reach.switches.entry(what).or_default().insert(place.clone());
            }
        }
        Ok(reach)
    }
}

/// Whether the module refuses a value at that path.
fn refuses(catalogue: &Catalogue, version: &str, path: &str) -> bool {
    let value = path
        .rsplit('.')
        .fold(json!("any"), |value, key| json!({ key: value }));
    let spec = json!({ "chartVersion": version, "values": value });
    let Ok(spec) = serde_json::from_value::<GpuModuleSpec>(spec) else {
        return true;
    };
    resolve(&spec, catalogue, NodeFeatureDiscovery::Module, &[]).is_err()
}

/// The paths of all values that are no map, or an empty one.
fn leaves(value: &Value, path: &str) -> BTreeSet<String> {
    match value {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .flat_map(|(key, value)| leaves(value, &below(path, key)))
            .collect(),
        _ => BTreeSet::from([path.to_owned()]),
    }
}

fn has(values: &Value, path: &str) -> bool {
    path.split('.')
        .try_fold(values, |value, key| value.get(key))
        .is_some()
}

/// The first column of the table in docs/contributor/security.md.
fn told() -> Result<BTreeSet<String>> {
    let document = std::fs::read_to_string(repository_root().join("docs/contributor/security.md"))?;
    let (_, table) = document
        .split_once("| what is reached | by which `spec.values` |\n| --- | --- |\n")
        .context("docs/contributor/security.md has no table of what is reached")?;
    let rows = table.lines().map_while(|line| line.strip_prefix("| "));
    Ok(rows
        .filter_map(|row| Some(row.split_once(" |")?.0.to_owned()))
        .collect())
}

#[tokio::test]
async fn what_values_reach_is_known() -> Result<()> {
    let tools = Tools::ensure()?;
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
    let names: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &names, "the analysis of what values reach").await? else {
        return Ok(());
    };
    let mut reached = BTreeSet::new();
    for version in names {
        let surface = Surface::new(&tools, &charts, &catalogue, version)?;
        let reach = surface.reach().await?;
        let all = reach.values.keys().chain(reach.switches.keys());
        reached.extend(all.map(ToString::to_string));
        insta::assert_yaml_snapshot!(format!("values-{version}"), reach);
    }
    let told = told()?;
    ensure!(
        told == reached,
        "docs/contributor/security.md tells of {told:?}, reached are {reached:?}"
    );
    Ok(())
}

#[tokio::test]
async fn what_the_module_refuses_would_be_seen() -> Result<()> {
    let tools = Tools::ensure()?;
    let mut catalogue = Catalogue::compiled_in()?;
    let version = catalogue.defaults.chart_version.to_string();
    let Some(charts) = Charts::nvidia(&tools, &[&version], "the analysis of what values reach").await? else {
        return Ok(());
    };
    catalogue
        .defaults
        .owned_values
        .retain(|path| !path.starts_with("node-feature-discovery.") || path.ends_with(".enable"));
    let reach = Surface::new(&tools, &charts, &catalogue, &version)?
        .reach()
        .await?;
    for (what, path) in [
        (
            "containers of one's own",
            "node-feature-discovery.worker.initContainers",
        ),
        (
            "accounts and roles",
            "node-feature-discovery.worker.serviceAccount.name",
        ),
        (
            "paths of the host",
            "node-feature-discovery.topologyUpdater.kubeletStateDir",
        ),
        ("namespaces", "node-feature-discovery.namespaceOverride"),
    ] {
        let found = reach.values.get(what);
        ensure!(
            found.is_some_and(|paths| paths.contains(path)),
            "{what}: {found:?}"
        );
    }
    let accounts = reach.switches.get("accounts and roles");
    ensure!(accounts.is_some(), "no switch brings an account");
    Ok(())
}
