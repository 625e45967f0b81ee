//! The values that may have several lines: whatever stands on a line of theirs stays text.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::Charts;
use e2e::render::Renderer;
use e2e::tools::Tools;
use gpu_manager::catalogue::Catalogue;
use serde_json::{Value, json};

use crate::places::walk;

/// Texts whose later lines would be YAML of their own, were they not indented or quoted.
const TEXTS: [&str; 4] = [
    "a\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: broken-out}\n",
    "a\nbroken-out: b\n  broken-out: b\n    broken-out: b\n",
    "  a\nbroken-out: b\n---\nbroken-out: b\n",
    "a\n...\n- broken-out: b\n# ",
];

/// A file's text in place of `text`, with what makes the chart render it.
fn with(path: &str, text: &str) -> Result<Value> {
    Ok(match path {
        "dcgmExporter.config.data" => {
            json!({ "dcgmExporter": { "config": { "create": true, "name": "mine", "data": text } } })
        }
        "devicePlugin.config.data" => {
            json!({ "devicePlugin": { "config": { "create": true, "name": "mine", "data": { "a": text } } } })
        }
        "migManager.config.data" => {
            json!({ "migManager": { "config": { "create": true, "name": "mine", "data": { "a": text } } } })
        }
        path => path
            .rsplit('.')
            .try_fold(json!({ "a": text }), |value, key| {
                path.starts_with("node-feature-discovery.")
                    .then(|| json!({ key: value }))
            })
            .with_context(|| format!("it is not known how a chart uses {path}"))?,
    })
}

/// Kind and name of each object, and every key that the text could have become.
fn structure(objects: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for object in objects {
        found.insert(format!("{} {}", object["kind"], object["metadata"]["name"]));
        walk(object, "", &mut |path, _| {
            if path.contains("broken-out") {
                found.insert(path.to_owned());
            }
        });
    }
    found
}

#[tokio::test]
async fn the_lines_of_a_file_stay_text() -> Result<()> {
    let tools = Tools::ensure()?;
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
    let names: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &names, "the test of values with several lines").await? else {
        return Ok(());
    };
    for version in names {
        let renderer = Renderer::new(&tools, &charts, version);
        let mut renders = Vec::new();
        for text in ["a"].into_iter().chain(TEXTS) {
            let mut values = json!({});
            for path in &catalogue.defaults.multiline_values {
                json_patch::merge(&mut values, &with(path, text)?);
            }
            // Helm may find that it is no YAML any more: nothing is installed then.
            renders.extend(renderer.objects(&values).await?);
        }
        ensure!(
            renders.len() >= 4,
            "chart {version} renders {} of the texts",
            renders.len()
        );
        let wanted = structure(&renders[0]);
        for objects in &renders[1..] {
            let found = structure(objects);
            ensure!(
                found == wanted,
                "chart {version} takes the lines of a file for structure: {:?}",
                found.symmetric_difference(&wanted).collect::<Vec<_>>()
            );
        }
        // Any other value would be one that breaks out, and the check would notice.
        let strategy = "mixed\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: broken-out}\nrest: |";
        let objects = renderer
            .objects(&json!({ "mig": { "strategy": strategy } }))
            .await?;
        let found = structure(&objects.context("refused")?);
        ensure!(found.contains("\"Pod\" \"broken-out\""), "{found:?}");
    }
    Ok(())
}
