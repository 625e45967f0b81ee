//! Helm as an administrator uses it by hand: the pinned binary with all rights.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::tools::Tool;
use gpu_manager::api::{RELEASE_NAME, RELEASE_NAMESPACE};
use serde_json::Value;

use super::{Lab, STEP};

impl Lab {
    /// Runs helm and returns what it printed. A failure carries its error output.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.helm_with(Tool::Helm, args).await
    }

    /// Runs helm on the module's release: `verb`, name and namespace, then `args`.
    pub async fn helm_release(&self, verb: &[&str], args: &[&str]) -> Result<String> {
        self.helm_release_with(Tool::Helm, verb, args).await
    }

    /// The same with another helm.
    pub async fn helm_release_with(&self, helm: Tool, verb: &[&str], args: &[&str]) -> Result<String> {
        let mut line = verb.to_vec();
        line.extend([RELEASE_NAME, "--namespace", RELEASE_NAMESPACE]);
        line.extend(args);
        self.helm_with(helm, &line).await
    }

    async fn helm_with(&self, helm: Tool, args: &[&str]) -> Result<String> {
        let home = self.cluster.dir().join("helm-by-hand");
        std::fs::create_dir_all(&home)?;
        let mut command = tokio::process::Command::new(self.cluster.tools().path(helm));
        // Helm names itself after its binary in the fields that it sets.
        command.arg0("helm");
        command.env_clear().env("HOME", &home).env("HELM_NO_PLUGINS", "1");
        command.env("KUBECONFIG", self.cluster.kubeconfig());
        command.args(args).kill_on_drop(true);
        let shown = format!("helm {}", args.join(" "));
        let output = tokio::time::timeout(STEP, command.output())
            .await
            .with_context(|| format!("'{shown}' took longer than {STEP:?}"))??;
        ensure!(
            output.status.success(),
            "'{shown}' ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The values of the newest revision, without the chart's defaults.
    pub async fn helm_values(&self) -> Result<Value> {
        let text = self.helm_release(&["get", "values"], &["--output=json"]).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The values of one revision, without the chart's defaults.
    pub async fn values_of(&self, revision: u32) -> Result<Value> {
        let revision = format!("--revision={revision}");
        let text = self
            .helm_release(&["get", "values"], &["--output=json", &revision])
            .await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Path of a chart archive as an argument.
    pub fn archive(&self, version: &str) -> String {
        self.charts.archive(version).display().to_string()
    }

    /// A file with values in the cluster's folder.
    pub fn values_file(&self, name: &str, values: &Value) -> Result<String> {
        let path: PathBuf = self.cluster.dir().join(name);
        std::fs::write(&path, values.to_string())?;
        Ok(path.display().to_string())
    }
}
