//! The steps of the path, on whatever cluster: apply, wait, look, delete.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{GpuModule, MODULE_NAME, RELEASE_NAME, RELEASE_NAMESPACE};
use kube::{Api, Client};
use serde_json::Value;

use super::{Left, NodeRow, Programs, Screen, default_module, follow, is_ready, nodes};
use crate::wait::eventually;

/// How long Pods may take to end after the release is gone.
const REMOVAL_DEADLINE: Duration = Duration::from_mins(3);

/// A cluster on which the path is gone.
pub struct Steps {
    client: Client,
    programs: Programs,
    modules: Api<GpuModule>,
}

/// What was shown once the module was Ready.
#[derive(Clone, Debug)]
pub struct Shown {
    /// GPU nodes on which Pods can run.
    pub usable: u32,
    /// Version of the installed chart.
    pub chart_version: String,
    /// All nodes.
    pub nodes: Vec<NodeRow>,
}

impl Steps {
    /// Steps on this cluster.
    pub fn new(client: Client, programs: Programs) -> Self {
        Self {
            modules: Api::all(client.clone()),
            client,
            programs,
        }
    }

    /// A client for the cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// `kubectl` and `helm` for the cluster.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The GpuModules.
    pub fn modules(&self) -> &Api<GpuModule> {
        &self.modules
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        nodes::list(&self.client).await
    }

    /// Applies the GpuModule that ships.
    pub async fn apply(&self, screen: &mut Screen<'_>) -> Result<()> {
        let file = default_module();
        let file = file.to_str().context("a path that is no text")?;
        let output = self.programs.kubectl(&["apply", "-f", file]).await?;
        screen.command("kubectl apply -f hack/deploy/default-gpumodule-cr.yaml", &output);
        Ok(())
    }

    /// Follows the module until it is Ready.
    pub async fn until_ready(&self, screen: &mut Screen<'_>, deadline: Duration) -> Result<()> {
        follow(&self.modules, screen, deadline, is_ready).await?;
        Ok(())
    }

    /// Shows the module, its release and the nodes, and checks that the release is the one of the status.
    pub async fn show(&self, screen: &mut Screen<'_>) -> Result<Shown> {
        let module = self.modules.get(MODULE_NAME).await?;
        let status = module.status.context("the GpuModule has no status")?;
        let chart_version = status
            .release
            .context("the status names no release")?
            .chart_version;

        let table = self.programs.kubectl(&["get", "gpumodule"]).await?;
        screen.command("kubectl get gpumodule", &table);
        let summary = &status.gpu_nodes.summary;
        for word in [status.state.as_str(), &chart_version, summary] {
            ensure!(
                table.split_whitespace().any(|found| found == word),
                "no '{word}' in it"
            );
        }

        let list = ["list", "-n", RELEASE_NAMESPACE];
        let table = self.programs.helm(&list).await?;
        screen.command("helm list -n gpu-operator", &table);
        let json = self.programs.helm(&[&list[..], &["-o", "json"]].concat()).await?;
        check_releases(&serde_json::from_str(&json)?, &chart_version)?;

        let nodes = self.nodes().await?;
        screen.say("The nodes:");
        nodes::show(screen, &nodes);
        Ok(Shown {
            usable: status.gpu_nodes.usable,
            chart_version,
            nodes,
        })
    }

    /// Deletes the module and follows it until it is gone.
    pub async fn delete(&self, screen: &mut Screen<'_>, deadline: Duration) -> Result<()> {
        let args = ["delete", "gpumodule", MODULE_NAME, "--wait=false"];
        let output = self.programs.kubectl(&args).await?;
        screen.command(&format!("kubectl {}", args.join(" ")), &output);
        follow(&self.modules, screen, deadline, |module| module.is_none()).await?;
        screen.progress("the GpuModule is gone");
        Ok(())
    }

    /// Looks at what is left, once everything is gone that must go.
    ///
    /// Pods need a moment after the DaemonSets that the operator waits for.
    pub async fn left(&self) -> Result<Left> {
        eventually("everything to be gone", REMOVAL_DEADLINE, async || {
            let left = Left::look(&self.client, &self.programs).await?;
            left.check()?;
            Ok(left)
        })
        .await
    }
}

/// Exactly one release, deployed, of that version.
fn check_releases(list: &Value, chart_version: &str) -> Result<()> {
    let releases = list.as_array().context("helm list gave no list")?;
    let wanted = format!("gpu-operator-v{chart_version}");
    let good = releases.len() == 1
        && releases[0]["name"] == RELEASE_NAME
        && releases[0]["status"] == "deployed"
        && releases[0]["chart"] == wanted.as_str();
    ensure!(good, "not one deployed release of {wanted}: {list}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_deployed_release_of_the_version_is_right() {
        let release =
            json!({ "name": "gpu-operator", "status": "deployed", "chart": "gpu-operator-v26.7.0" });
        assert!(check_releases(&json!([release]), "26.7.0").is_ok());
        assert!(check_releases(&json!([release]), "26.3.3").is_err());
        assert!(check_releases(&json!([release, release]), "26.7.0").is_err());
        assert!(check_releases(&json!([]), "26.7.0").is_err());
        let failed = json!({ "name": "gpu-operator", "status": "failed", "chart": "gpu-operator-v26.7.0" });
        assert!(check_releases(&json!([failed]), "26.7.0").is_err());
    }
}
