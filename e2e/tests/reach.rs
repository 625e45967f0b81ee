//! What an editor of the GpuModule reaches through `spec.values`: every text and list of a chart's values becomes a mark, and
//! where the marks come out tells. `docs/contributor/security.md` says what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::render::Renderer;
use e2e::tools::{Tools, repository_root};
use gpu_manager::api::{GpuModuleSpec, NodeFeatureDiscovery};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired::resolve;
use serde_json::{Map, Value, json};

const NFD: &str = "node-feature-discovery";

/// Marks, by their text, and the paths that they stand at.
#[derive(Default)]
struct Marks(BTreeMap<String, String>);

impl Marks {
    fn new_at(&mut self, path: &str) -> String {
        // Ends so that no mark is the beginning of another one.
        let mark = format!("reach{}x", self.0.len());
        self.0.insert(mark.clone(), path.to_owned());
        mark
    }

    /// The value with marks in place of what an editor may say.
    fn on(&mut self, value: &Value, path: &str, refused: &dyn Fn(&str) -> bool) -> Value {
        if !path.is_empty() && refused(path) {
            return value.clone();
        }
        let key = path.rsplit('.').next().unwrap_or_default();
        match value {
            Value::Object(map) if !map.is_empty() => {
                let below = |key: &str| match path {
                    "" => key.to_owned(),
                    path => format!("{path}.{key}"),
                };
                let marked = map
                    .iter()
                    .map(|(key, value)| (key.clone(), self.on(value, &below(key), refused)));
                Value::Object(marked.collect::<Map<_, _>>())
            }
            // Terms that charts do not pass on as they are, and that reach no more than scheduling.
            _ if ["tolerations", "affinity", "priorityClassName"].contains(&key) => value.clone(),
            Value::Object(_) => json!({ self.new_at(path): "v" }),
            Value::Array(_) if key == "env" => json!([{ "name": "N", "value": self.new_at(path) }]),
            Value::Array(items) if items.iter().all(Value::is_string) => json!([self.new_at(path)]),
            Value::String(_) | Value::Null => self.new_at(path).into(),
            other => other.clone(),
        }
    }

    /// The paths whose marks are in a text.
    fn paths_in<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.flat_map(|word| {
            self.0
                .iter()
                .filter(move |(mark, _)| word.contains(*mark))
                .map(|(_, path)| path)
        })
    }
}

/// What a place in a rendered object decides, if it is anything of weight.
fn reached(kind: &str, place: &str) -> Option<&'static str> {
    let last = place
        .rsplit('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches("[]");
    let is_account = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ]
    .contains(&kind);
    if ["image", "repository", "version", "tag"].contains(&last) {
        Some("images")
    } else if place.contains(".env[]") {
        Some("environment")
    } else if ["args", "command"].contains(&last) {
        Some("arguments")
    } else if place.contains("hostPath") || last == "installDir" {
        Some("paths of the host")
    } else if is_account || place.contains("serviceAccount") {
        Some("accounts and roles")
    } else if place.to_lowercase().contains("securitycontext") {
        Some("rights of Pods")
    } else if last == "namespace" {
        Some("namespaces")
    } else {
        None
    }
}

fn walk(value: &Value, place: &str, tell: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                tell(place, key);
                walk(value, &format!("{place}.{key}"), tell);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| walk(item, &format!("{place}[]"), tell)),
        Value::String(text) => tell(place, text),
        _ => {}
    }
}

/// The chart's values, those of its subchart included.
async fn values(renderer: &Renderer, charts: &Charts, version: &str) -> Result<Value> {
    let archive = charts.archive(version);
    let file = format!("gpu-operator/charts/{NFD}/values.yaml");
    let output = Command::new("tar").arg("-xzOf").arg(archive).arg(file).output()?;
    ensure!(
        output.status.success(),
        "tar: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    // It has more comments in a row than the parser keeps.
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut nfd: Value = serde_saphyr::from_str(&lines.collect::<Vec<_>>().join("\n"))?;
    let mut all = renderer.defaults().await?;
    json_patch::merge(&mut nfd, &all[NFD]);
    all[NFD] = nfd;
    Ok(all)
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

#[tokio::test]
async fn what_values_reach_is_known() -> Result<()> {
    let tools = Tools::ensure()?;
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
    let names: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &names, "the analysis of what values reach").await? else {
        return Ok(());
    };
    let document = std::fs::read_to_string(repository_root().join("docs/contributor/security.md"))?;
    for version in names {
        let renderer = Renderer::new(&tools, &charts, version);
        let defaults = values(&renderer, &charts, version).await?;
        let mut marks = Marks::default();
        let marked = marks.on(&defaults, "", &|path| {
            let value = path.split('.').try_fold(&defaults, |value, key| value.get(key));
            // A map is asked about by what is in it.
            value.is_some_and(|value| !value.is_object() || value == &json!({}))
                && refuses(&catalogue, version, path)
        });
        ensure!(marks.0.len() > 100, "only {} values are tried", marks.0.len());
        let objects = renderer.objects_without_schema(&marked).await?;
        let objects = objects.with_context(|| format!("chart {version} refuses the marks"))?;
        let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for object in &objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            walk(object, "", &mut |place, text| {
                if let Some(what) = reached(kind, place) {
                    found
                        .entry(what)
                        .or_default()
                        .extend(marks.paths_in(text).cloned());
                }
            });
        }
        found.retain(|_, paths| !paths.is_empty());
        for what in found.keys() {
            ensure!(
                document.contains(&format!("| {what} |")),
                "docs/contributor/security.md does not tell of {what}"
            );
        }
        insta::assert_yaml_snapshot!(format!("values-{version}"), found);
    }
    Ok(())
}
