//! A helm that a test can slow down, kill and count: a script around the pinned binary, for `--helm`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::tools::Tool;
use e2e::wait::eventually;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use tokio::process::{Child, Command};

use super::Lab;

/// How long a started helm may take to show up.
const SOON: Duration = Duration::from_secs(30);

/// Commands that only read go straight to helm. Of two changes at once the second one leaves a note. On TERM,
/// which its whole group gets, the shell waits for helm.
const SCRIPT: &str = r#"#!/bin/sh
dir='@DIR@'
case "$1" in
  upgrade|rollback|uninstall) ;;
  *) exec '@HELM@' "$@" ;;
esac
trap : TERM
mkdir "$dir/busy" 2>/dev/null || echo "$*" >> "$dir/overlaps"
echo "$*" >> "$dir/changes"
echo $$ > "$dir/process.new"; mv "$dir/process.new" "$dir/process"
if [ -e "$dir/impatient" ]; then
  for arg do
    shift
    case "$arg" in --timeout=*) arg=--timeout=3s ;; esac
    set -- "$@" "$arg"
  done
fi
[ -e "$dir/slow" ] && export HELM_QPS=4 HELM_BURST_LIMIT=1
'@HELM@' "$@"
code=$?
rmdir "$dir/busy"
exit $code
"#;

/// The script and the folder by which it is told what to do.
pub struct WrappedHelm {
    dir: PathBuf,
}

impl WrappedHelm {
    /// Makes the script in the cluster's folder.
    pub fn new(lab: &Lab) -> Result<Self> {
        let dir = lab.cluster.dir().join("wrapped-helm");
        std::fs::create_dir_all(&dir)?;
        let helm = lab.cluster.tools().path(Tool::Helm);
        let script = SCRIPT
            .replace("@DIR@", &dir.display().to_string())
            .replace("@HELM@", &helm.display().to_string());
        let wrapped = Self { dir };
        // Written by another process: were the file open for writing here while another thread forks, running it would
        // fail with "text file busy".
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(wrapped.binary())
            .arg(script)
            .status()?;
        ensure!(status.success(), "cannot write {}", wrapped.binary().display());
        Ok(wrapped)
    }

    /// For `--helm`.
    pub fn binary(&self) -> PathBuf {
        self.dir.join("helm")
    }

    /// Runs it as an administrator does by hand, in the background.
    pub fn by_hand(&self, lab: &Lab, args: &[&str]) -> Result<Child> {
        let mut command = Command::new(self.binary());
        command
            .env_clear()
            .env("HOME", &self.dir)
            .env("HELM_NO_PLUGINS", "1");
        command.env("KUBECONFIG", lab.cluster.kubeconfig());
        command.args(args).process_group(0).kill_on_drop(true);
        Ok(command.stdout(Stdio::null()).spawn()?)
    }

    /// Changes take about ten seconds: helm sends four requests a second.
    pub fn slow_down(&self) -> Result<()> {
        Ok(std::fs::write(self.dir.join("slow"), "")?)
    }

    /// From now on helm waits for a hook three seconds only.
    pub fn be_impatient(&self) -> Result<()> {
        Ok(std::fs::write(self.dir.join("impatient"), "")?)
    }

    /// The next changes have their usual speed.
    pub fn let_go(&self) {
        let _ = std::fs::remove_file(self.dir.join("slow"));
    }

    /// The arguments of every change so far, one line each.
    pub fn changes(&self) -> Vec<String> {
        lines(&self.dir.join("changes"))
    }

    /// Fails if two changes ever ran at once.
    pub fn ensure_one_by_one(&self) -> Result<()> {
        let overlaps = lines(&self.dir.join("overlaps"));
        ensure!(
            overlaps.is_empty(),
            "these changes began while another one ran: {overlaps:?}"
        );
        Ok(())
    }

    /// Waits until the helm that was started last is dead, whether it was killed or came to its end.
    pub async fn until_dead(&self) -> Result<()> {
        let group = self.group()?;
        eventually("helm to be dead", SOON, async || {
            ensure!(
                test_kill_process_group(group).is_err(),
                "process group {group:?} lives"
            );
            Ok(())
        })
        .await?;
        self.unmark()
    }

    /// A helm that was killed leaves the mark of a running change behind; one that ended in time took it away itself.
    fn unmark(&self) -> Result<()> {
        match std::fs::remove_dir(self.dir.join("busy")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn group(&self) -> Result<Pid> {
        let text = std::fs::read_to_string(self.dir.join("process"))?;
        Pid::from_raw(text.trim().parse()?).context("no process id")
    }

    /// Waits for the start of the change after the first `known` ones.
    pub async fn until_started(&self, known: usize) -> Result<()> {
        eventually("helm to start", SOON, async || {
            let changes = self.changes();
            ensure!(changes.len() > known, "{} changes: {changes:?}", changes.len());
            Ok(())
        })
        .await
    }

    /// Kills the helm that changes something now, as the kernel does for want of memory.
    pub fn kill(&self) -> Result<()> {
        kill_process_group(self.group()?, Signal::KILL)?;
        self.unmark()
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
