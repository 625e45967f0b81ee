//! What a chart renders from values, without a cluster.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::charts::Charts;
use crate::tools::{Tool, Tools};

/// One version of the chart.
#[derive(Debug)]
pub struct Renderer {
    helm: PathBuf,
    archive: PathBuf,
}

impl Renderer {
    /// The chart of that version.
    pub fn new(tools: &Tools, charts: &Charts, version: &str) -> Self {
        Self {
            helm: tools.path(Tool::Helm),
            archive: charts.archive(version),
        }
    }

    /// The objects of the release, its hooks included; `None` where the chart refuses these values.
    pub async fn objects(&self, values: &Value) -> Result<Option<Vec<Value>>> {
        self.template(values, &[]).await
    }

    /// The same with values that the chart's schema need not allow.
    pub async fn objects_without_schema(&self, values: &Value) -> Result<Option<Vec<Value>>> {
        self.template(values, &["--skip-schema-validation"]).await
    }

    async fn template(&self, values: &Value, flags: &[&str]) -> Result<Option<Vec<Value>>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("values.json");
        std::fs::write(&file, values.to_string())?;
        let output = Command::new(&self.helm)
            .env_clear()
            .env("HOME", folder.path())
            .args(["template", "gpu-operator"])
            .arg(&self.archive)
            .arg("--namespace=gpu-operator")
            .args(flags)
            .arg("--values")
            .arg(&file)
            .kill_on_drop(true)
            .output()
            .await?;
        if !output.status.success() {
            return Ok(None);
        }
        let documents: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
        Ok(Some(documents.into_iter().filter(Value::is_object).collect()))
    }

    /// The chart's own values, those of its subchart apart.
    pub async fn defaults(&self) -> Result<Value> {
        serde_saphyr::from_str(&self.show("values").await?).context("values of the chart")
    }

    /// The CRDs of the chart and its subchart, as YAML.
    pub async fn crds(&self) -> Result<String> {
        self.show("crds").await
    }

    async fn show(&self, what: &str) -> Result<String> {
        let output = Command::new(&self.helm)
            .env_clear()
            .args(["show", what])
            .arg(&self.archive)
            .kill_on_drop(true)
            .output()
            .await?;
        ensure!(
            output.status.success(),
            "helm show {what}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}
