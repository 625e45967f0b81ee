//! Processes of a local cluster, and the guardian that ends them when nobody else can.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::wait::eventually;

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 20;

/// Reads orders until its input ends, which happens when the process that holds the other end is gone for
/// whatever reason; then it ends every process group that is still on its list and removes the folder.
/// Removal is tried twice because a killed process may write a last file meanwhile.
const GUARDIAN: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r order group; do
  case $order in
    watch) groups="$groups$group " ;;
    forget) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
"#;

/// A small process beside the cluster that outlives its maker just long enough to clean up.
///
/// Without it a test that is killed (by a timeout, by Ctrl-C) would leave an API server behind, since `Drop`
/// does not run then.
pub(super) struct Guardian {
    child: Child,
    orders: Mutex<Option<ChildStdin>>,
}

impl Guardian {
    /// Starts a guardian that removes `dir` at the end.
    pub(super) fn start(dir: &Path) -> Result<Arc<Self>> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARDIAN, "guardian"]).arg(dir);
        // A group of its own, so that Ctrl-C in a terminal does not reach it.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command
            .spawn()
            .context("cannot start /bin/sh, which guards the local cluster")?;
        let orders = Mutex::new(child.stdin.take());
        Ok(Arc::new(Self { child, orders }))
    }

    fn order(&self, order: &str, group: Pid) -> Result<()> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = orders
            .as_mut()
            .context("the guardian of the local cluster is gone")?;
        writeln!(pipe, "{order} {group}").context("the guardian of the local cluster is gone")
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // Closing the pipe is the order to clean up.
        drop(self.orders.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.child.wait();
    }
}

/// A running process in a process group of its own, with its output in a log file.
///
/// It is killed with its whole group and reaped when dropped.
pub struct Process {
    name: String,
    child: Child,
    group: Pid,
    log: PathBuf,
    guardian: Arc<Guardian>,
}

impl Process {
    pub(super) fn spawn(
        name: &str,
        mut command: Command,
        log: PathBuf,
        guardian: Arc<Guardian>,
    ) -> Result<Self> {
        let file = File::options().create(true).append(true).open(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let group = Pid::from_child(&child);
        let process = Self {
            name: name.to_owned(),
            child,
            group,
            log,
            guardian,
        };
        process.guardian.order("watch", group)?;
        Ok(process)
    }

    /// The process id, which is the id of its group too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process group.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process_group(self.group, signal)
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Whether the process has ended, and how.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("cannot ask for the state of {}", self.name))
    }

    /// Waits until the process has ended by itself.
    pub async fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        eventually(&what, deadline, async || self.try_wait()?.context("it runs")).await
    }

    /// An error with the end of the log, unless the process runs.
    pub fn ensure_running(&mut self) -> Result<()> {
        let status = self.try_wait()?;
        ensure!(
            status.is_none(),
            "{} ended with {}; its log says:\n{}",
            self.name,
            status.unwrap_or_default(),
            self.log_tail()
        );
        Ok(())
    }

    /// Everything the process has printed so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map_or_else(
            |error| format!("cannot read {}: {error}", self.log.display()),
            |log| String::from_utf8_lossy(&log).into_owned(),
        )
    }

    /// The last lines of the log.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killing before reaping: until then the id cannot belong to a stranger. A group whose leader was
        // reaped earlier may still hold its children, which keep the id taken as well.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        let _ = self.guardian.order("forget", self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A shell that starts a second process in its group and waits for it.
    fn family(dir: &Path, guardian: &Arc<Guardian>) -> Process {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        Process::spawn("family", command, dir.join("family.log"), Arc::clone(guardian)).unwrap()
    }

    async fn grandchild_of(process: &Process) -> u32 {
        let printed = eventually("the second process", SOON, async || {
            Ok(process.log().trim().parse()?)
        });
        printed.await.unwrap()
    }

    /// A zombie counts as gone: whoever became its parent may be slow to reap it.
    async fn is_gone(id: u32) -> Result<()> {
        eventually("the end of the second process", SOON, async || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            ensure!(stat.is_empty() || stat.contains(") Z "), "{stat}");
            Ok(())
        })
        .await
    }

    #[tokio::test]
    async fn a_dropped_process_takes_its_group_along() {
        let dir = tempfile::tempdir().unwrap();
        let guardian = Guardian::start(dir.path()).unwrap();
        let process = family(dir.path(), &guardian);
        let grandchild = grandchild_of(&process).await;
        drop(process);
        is_gone(grandchild).await.unwrap();
    }

    /// The pipe to the guardian ends when this process ends, however that happens.
    #[tokio::test]
    async fn the_guardian_cleans_up_when_its_pipe_ends() {
        let dir = tempfile::tempdir().unwrap();
        let guardian = Guardian::start(dir.path()).unwrap();
        let mut process = family(dir.path(), &guardian);
        let grandchild = grandchild_of(&process).await;
        let forgotten = family(dir.path(), &guardian);
        drop(forgotten);

        drop(guardian.orders.lock().unwrap().take());
        assert_eq!(
            process.wait(SOON).await.unwrap().signal(),
            Some(Signal::KILL.as_raw())
        );
        is_gone(grandchild).await.unwrap();
        eventually("the folder to be gone", SOON, async || {
            ensure!(!dir.path().exists(), "it is there");
            Ok(())
        })
        .await
        .unwrap();
    }
}
