//! One run of the demo's binary, with a temporary folder of its own, so that what it leaves can be found.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long killed processes may take to vanish.
const SOON: Duration = Duration::from_secs(20);

pub struct Run {
    child: Child,
    output: TempDir,
    temporary: TempDir,
}

impl Run {
    pub fn start(variables: &[(&str, &str)]) -> Result<Self> {
        let (output, temporary) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let file = File::create(output.path().join("output"))?;
        let child = Command::new(env!("CARGO_BIN_EXE_demo"))
            .env_remove("KEEP")
            .env("TMPDIR", temporary.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(Self {
            child,
            output,
            temporary,
        })
    }

    /// Everything it has printed.
    pub fn text(&self) -> String {
        std::fs::read_to_string(self.output.path().join("output")).unwrap_or_default()
    }

    /// Waits for a text, but not longer than the demo runs.
    pub async fn shows(&mut self, wanted: &str, deadline: Duration) -> Result<()> {
        let ended = eventually(&format!("'{wanted}'"), deadline, async || {
            let ended = self.child.try_wait()?;
            let shown = self.text().contains(wanted);
            ensure!(shown || ended.is_some(), "{}", self.text());
            Ok(ended)
        })
        .await?;
        match ended {
            Some(status) => bail!("it ended with {status}:\n{}", self.text()),
            None => Ok(()),
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Waits until it has ended.
    pub async fn end(&mut self, deadline: Duration) -> Result<ExitStatus> {
        eventually("the end of the demo", deadline, async || {
            self.child.try_wait()?.with_context(|| self.text())
        })
        .await
    }

    /// No file is left, and no process that was told of one: etcd, the API server, helm and all others are.
    pub async fn is_gone(&self) -> Result<()> {
        let folder = self.temporary.path();
        eventually("nothing to be left", SOON, async || {
            let files: Vec<_> = std::fs::read_dir(folder)?.flatten().collect();
            ensure!(files.is_empty(), "{files:?}");
            let processes = processes_with(folder)?;
            ensure!(processes.is_empty(), "{processes:?}");
            Ok(())
        })
        .await
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A test that failed early must not leave a cluster behind; the guardian of the cluster does the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Command lines of the processes that name a folder.
fn processes_with(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.to_str().context("a path that is no text")?;
    let processes = std::fs::read_dir("/proc")?.flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    Ok(lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(folder))
        .collect())
}
