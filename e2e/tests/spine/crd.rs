//! The CRD as a real API server serves it: what it refuses, what it keeps, what it prints.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{Cluster, Options};
use e2e::manager::{binary, install_manifests};
use e2e::tools::repository_root;
use kube::Client;
use serde_json::{Value, json};

const MODULES: &str = "/apis/operator.kyma-project.io/v1alpha1/gpumodules";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpumodules.operator.kyma-project.io";

/// A GpuModule named as told with that spec.
pub fn module(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "GpuModule",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// Sends the object as `kubectl create` does and returns what the API server made of it.
async fn create(client: &Client, object: &Value, query: &str) -> Result<Value> {
    let request = http::Request::post(format!("{MODULES}?{query}"))
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())?;
    Ok(client.request(request).await?)
}

/// Without a trace in the cluster.
pub async fn try_create(client: &Client, object: &Value) -> Result<Value> {
    create(client, object, "dryRun=All&fieldValidation=Strict").await
}

pub async fn refused(client: &Client, object: &Value, because: &str) -> Result<()> {
    let Err(error) = try_create(client, object).await else {
        anyhow::bail!("accepted: {object}");
    };
    let text = error.to_string();
    ensure!(text.contains(because), "{object} is refused, but: {text}");
    Ok(())
}

/// Fails unless everything in `part` is in `whole` with the same value.
fn ensure_contains(whole: &Value, part: &Value, path: &str) -> Result<()> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part.iter().try_for_each(|(key, part)| {
            let below = format!("{path}.{key}");
            ensure_contains(whole.get(key).unwrap_or(&Value::Null), part, &below)
        }),
        (Value::Array(whole), Value::Array(part)) => {
            ensure!(whole.len() == part.len(), "{path} has {} items", whole.len());
            whole
                .iter()
                .zip(part)
                .try_for_each(|(whole, part)| ensure_contains(whole, part, path))
        }
        // The API server writes 0.0 as 0.
        (Value::Number(whole), Value::Number(part)) if whole.as_f64() == part.as_f64() => Ok(()),
        (whole, part) => {
            ensure!(whole == part, "{path} is {whole} instead of {part}");
            Ok(())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_serves_and_enforces_the_crd() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    install_manifests(&cluster).await?;
    let client = cluster.client();

    let file =
        std::fs::read_to_string(repository_root().join("crds/operator.kyma-project.io_gpumodules.yaml"))?;
    let printed = tokio::process::Command::new(binary()?)
        .arg("crds")
        .output()
        .await?;
    ensure!(
        String::from_utf8(printed.stdout)? == file,
        "`gpu-manager crds` prints another CRD than crds/ holds"
    );
    let file: Value = serde_saphyr::from_str(&file)?;
    let served: Value = client.request(http::Request::get(CRD).body(Vec::new())?).await?;
    ensure_contains(&served["spec"], &file["spec"], "spec")?;

    accepts(&client).await?;
    refuses(&client).await?;
    keeps_what_was_written(&client).await?;

    let table = cluster.kubectl(&["get", "gpumodule"]).await?;
    let header = table.lines().next().context("no header")?;
    ensure!(
        header
            .split("  ")
            .map(str::trim)
            .filter(|title| !title.is_empty())
            .eq(["NAME", "STATE", "VERSION", "GPU NODES", "AGE"]),
        "{header}"
    );
    let by_category = cluster.kubectl(&["get", "kyma-modules", "--output=name"]).await?;
    ensure!(
        by_category.trim() == "gpumodule.operator.kyma-project.io/default",
        "{by_category}"
    );
    Ok(())
}

async fn accepts(client: &Client) -> Result<()> {
    let values: serde_json::Map<String, Value> = (0..64).map(|i| (format!("key{i}"), json!(i))).collect();
    for spec in [
        json!({}),
        json!({ "chartVersion": "26.7.0", "suspend": true, "adoptExistingRelease": true }),
        json!({ "driver": {} }),
        json!({ "driver": { "mode": "Preinstalled" } }),
        json!({ "driver": { "mode": "Precompiled", "branch": 590, "installerRelease": "1.17.0", "repository": "registry.example:5000/a/b-c" } }),
        json!({ "driver": { "branch": 570 } }),
        json!({ "values": { "mig": { "strategy": "mixed" }, "anything": [1, "two", null] } }),
        json!({ "values": values }),
    ] {
        let object = module("default", &spec);
        try_create(client, &object)
            .await
            .with_context(|| format!("refused: {object}"))?;
    }
    Ok(())
}

async fn refuses(client: &Client) -> Result<()> {
    refused(client, &module("gpu", &json!({})), "its name must be 'default'").await?;
    for (field, value) in [
        ("branch", json!(580)),
        ("installerRelease", json!("1.17.0")),
        ("repository", json!("registry.example/a")),
    ] {
        let mut driver = json!({ "mode": "Preinstalled" });
        driver[field] = value;
        let object = module("default", &json!({ "driver": driver }));
        refused(
            client,
            &object,
            "mode Preinstalled takes the driver of the node image",
        )
        .await?;
    }
    let values: serde_json::Map<String, Value> = (0..65).map(|i| (format!("key{i}"), json!(i))).collect();
    for (spec, because) in [
        (json!({ "chartVersion": "v26.7.0" }), "spec.chartVersion"),
        (json!({ "chartVersion": "26.7" }), "spec.chartVersion"),
        (
            json!({ "chartVersion": "26.7.0.0000000000" }),
            "spec.chartVersion",
        ),
        (json!({ "chartVersion": "" }), "spec.chartVersion"),
        (json!({ "driver": { "mode": "Compiled" } }), "spec.driver.mode"),
        (json!({ "driver": { "branch": 595 } }), "spec.driver.branch"),
        (json!({ "driver": { "branch": "580" } }), "spec.driver.branch"),
        (
            json!({ "driver": { "installerRelease": "latest" } }),
            "spec.driver.installerRelease",
        ),
        (
            json!({ "driver": { "repository": "https://registry.example/a" } }),
            "spec.driver.repository",
        ),
        (
            json!({ "driver": { "repository": "registry.example/{{ a }}" } }),
            "spec.driver.repository",
        ),
        (
            json!({ "driver": { "repository": "" } }),
            "spec.driver.repository",
        ),
        (
            json!({ "driver": { "repository": "a".repeat(256) } }),
            "spec.driver.repository",
        ),
        (json!({ "values": [] }), "spec.values"),
        (json!({ "values": values }), "spec.values"),
        (json!({ "suspend": "yes" }), "spec.suspend"),
        (json!({ "chart": "26.7.0" }), "unknown field \"spec.chart\""),
        (
            json!({ "driver": { "version": "580" } }),
            "unknown field \"spec.driver.version\"",
        ),
    ] {
        refused(client, &module("default", &spec), because).await?;
    }
    Ok(())
}

/// No default is persisted, free-form values stay as they are, and what no one knows is pruned.
async fn keeps_what_was_written(client: &Client) -> Result<()> {
    let values = json!({ "toolkit": { "env": [{ "name": "A", "value": null }] }, "on": 1.5 });
    let spec = json!({ "driver": { "branch": 580 }, "values": values });
    let kept = try_create(client, &module("default", &spec)).await?;
    ensure!(kept["spec"] == spec, "{}", kept["spec"]);
    let unknown = module("default", &json!({ "chart": "26.7.0" }));
    let kept = create(client, &unknown, "dryRun=All").await?;
    ensure!(kept["spec"] == json!({}), "{}", kept["spec"]);

    // A manager that takes its last field back leaves the empty spec, and so does an object without any.
    let absent = json!({
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "GpuModule",
        "metadata": { "name": "default" },
    });
    for object in [
        module(
            "default",
            &json!({ "values": { "mig": { "strategy": "mixed" } } }),
        ),
        module("default", &json!({})),
        module("default", &json!({ "driver": { "branch": 590 } })),
        absent,
    ] {
        let request = http::Request::patch(format!(
            "{MODULES}/default?fieldManager=test&fieldValidation=Strict"
        ))
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())?;
        let applied: Value = client.request(request).await?;
        let wanted = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        ensure!(
            applied["spec"] == wanted,
            "{} instead of {wanted}",
            applied["spec"]
        );
    }
    let request = http::Request::get(format!("{MODULES}/default")).body(Vec::new())?;
    let stored: Value = client.request(request).await?;
    ensure!(
        stored["spec"] == json!({}) && stored["status"].is_null(),
        "{stored}"
    );
    Ok(())
}
