//! Runs one process to its end. The only file of the project that starts processes.
//!
//! Every run has an own process group, a cleared environment, bounded output and a deadline. It is told to stop by
//! TERM and, when it does not, ended by KILL; both go to the whole group. When a run returns or is dropped, no member
//! of the group is left, not even as a zombie, also when this process is PID 1 of a container.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use super::interrupt::{Cause, Interrupt, OnShutdown};

mod capture;
mod group;
#[cfg(test)]
mod tests;

pub(super) use capture::Capture;
use group::Group;

/// How long readers may go on after the whole group is gone: only a process that left the group can hold a pipe then.
const READERS_LIMIT: Duration = Duration::from_secs(1);
/// How long the kernel may take to end a killed process.
pub(super) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// Absolute path of the program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// Its whole environment.
    pub env: &'a [(OsString, OsString)],
    /// Its working directory.
    pub cwd: &'a Path,
    /// Its standard input; nothing when `None`.
    pub stdin: Option<File>,
    /// Whether a shutdown stops it.
    pub on_shutdown: OnShutdown,
    /// Its bounds.
    pub limits: Limits,
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// TERM is sent after this time.
    pub deadline: Duration,
    /// KILL is sent this long after TERM.
    pub grace: Duration,
    /// Bytes of standard output that are kept, from its start.
    pub stdout: usize,
    /// Bytes of standard error that are kept, from its end.
    pub stderr: usize,
}

/// Why we told a run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its deadline passed.
    Deadline,
    /// The operator has to.
    Interrupted(Cause),
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Why it was told to stop, if it was.
    pub stopped: Option<Stop>,
    /// Whether it had to be killed.
    pub killed: bool,
    /// Standard output.
    pub stdout: Capture,
    /// Standard error.
    pub stderr: Capture,
    /// From start to end.
    pub elapsed: Duration,
}

/// Starts a process and stays with it until it and its group are gone.
pub(super) async fn run(job: Job<'_>, interrupt: &Interrupt) -> io::Result<Ended> {
    let start = Instant::now();
    let (on_shutdown, limits) = (job.on_shutdown, job.limits);
    let mut child = spawn(job)?;
    let group = Group::led_by(&child).ok_or_else(|| io::Error::other("the started process has no number"))?;
    tracing::debug!(group = group.id(), "process started");

    let mut stdout = Capture::head(limits.stdout);
    let mut stderr = Capture::tail(limits.stderr);
    let (stdout_pipe, stderr_pipe) = (child.stdout.take(), child.stderr.take());
    let end = {
        let readers = async { tokio::join!(stdout.fill(stdout_pipe), stderr.fill(stderr_pipe)) };
        let supervised = async {
            let end = supervise(&mut child, &group, on_shutdown, limits, interrupt).await?;
            group.end().await;
            Ok::<_, io::Error>(end)
        };
        tokio::pin!(readers, supervised);
        tokio::select! {
            end = &mut supervised => {
                // A failure here means output that is still held open by a stranger; what was read so far counts.
                let _ = timeout(READERS_LIMIT, &mut readers).await;
                end?
            }
            _ = &mut readers => supervised.await?,
        }
    };
    Ok(Ended {
        status: end.status,
        stopped: end.stopped,
        killed: end.killed,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        elapsed: start.elapsed(),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "this file is where processes are started"
)]
fn spawn(job: Job<'_>) -> io::Result<Child> {
    Command::new(job.program)
        .args(job.args)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .current_dir(job.cwd)
        .stdin(job.stdin.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

struct End {
    status: ExitStatus,
    stopped: Option<Stop>,
    killed: bool,
}

/// Waits for the leader, through TERM and KILL if need be.
async fn supervise(
    child: &mut Child,
    group: &Group,
    on_shutdown: OnShutdown,
    limits: Limits,
    interrupt: &Interrupt,
) -> io::Result<End> {
    let deadline = Instant::now() + limits.deadline;
    let stop = tokio::select! {
        biased;
        status = child.wait() => return Ok(End { status: status?, stopped: None, killed: false }),
        cause = interrupt.stops(on_shutdown) => Stop::Interrupted(cause),
        () = sleep_until(deadline) => Stop::Deadline,
    };
    tracing::info!(group = group.id(), reason = ?stop, "telling helm to stop");
    group.signal(Signal::TERM);
    tokio::select! {
        biased;
        status = child.wait() => return Ok(End { status: status?, stopped: Some(stop), killed: false }),
        () = interrupt.grace_ends(limits.grace) => {}
    }
    tracing::warn!(group = group.id(), reason = ?stop, "helm did not stop when told to, killing it");
    group.signal(Signal::KILL);
    let status = timeout(KILL_LIMIT, child.wait())
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the process is still there after KILL"))??;
    Ok(End {
        status,
        stopped: Some(stop),
        killed: true,
    })
}
