//! `kubectl` and `helm` against the cluster of the demo or of the acceptance test.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use crate::cluster::Cluster;
use crate::tools::{Tool, Tools};

/// How long one command may take.
const DEADLINE: Duration = Duration::from_mins(2);

/// The two programs, with the cluster they talk to.
#[derive(Clone, Debug)]
pub struct Programs {
    tools: Tools,
    local: Option<Local>,
}

/// The local cluster: its kubeconfig, and a home so that helm leaves nothing in the user's.
#[derive(Clone, Debug)]
struct Local {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Programs {
    /// For a local cluster; nothing of the caller's environment reaches them.
    pub fn local(cluster: &Cluster) -> Self {
        Self {
            tools: cluster.tools().clone(),
            local: Some(Local {
                kubeconfig: cluster.kubeconfig().to_owned(),
                home: cluster.dir().to_owned(),
            }),
        }
    }

    /// For the cluster that `KUBECONFIG` names. They see the caller's whole environment, since a login of the
    /// kubeconfig may need it.
    pub fn from_environment(tools: Tools) -> Self {
        Self { tools, local: None }
    }

    /// Runs `kubectl` and returns what it printed; a failure carries its error output.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run(Tool::Kubectl, args).await
    }

    /// Runs `helm` and returns what it printed; a failure carries its error output.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.run(Tool::Helm, args).await
    }

    async fn run(&self, tool: Tool, args: &[&str]) -> Result<String> {
        let mut command = Command::new(self.tools.path(tool));
        if let Some(local) = &self.local {
            command
                .env_clear()
                .env("HOME", &local.home)
                .env("KUBECONFIG", &local.kubeconfig);
        }
        let shown = format!("{} {}", tool.file_name(), args.join(" "));
        let output = tokio::time::timeout(DEADLINE, command.args(args).kill_on_drop(true).output())
            .await
            .with_context(|| format!("'{shown}' took longer than {DEADLINE:?}"))?
            .with_context(|| format!("cannot run '{shown}'"))?;
        ensure!(
            output.status.success(),
            "'{shown}' ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
