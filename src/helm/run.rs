//! Runs helm commands for [`Helm`]: whose turn it is, bounds, logs, and how an end becomes a result.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use semver::Version;
use tokio::sync::MutexGuard;

use super::interrupt::{Cause, OnShutdown, Phase};
use super::process::{self, Ended, Job, Limits, Stop};
use super::workdir::{Lock, LockError};
use super::{Finished, Helm, HelmError, OpenError, args, output, version};

/// Our own deadline is so much later than helm's, so that helm ends first and records it.
const DEADLINE_MARGIN: Duration = Duration::from_secs(20);
/// Bound of commands that only read.
const READ_LIMIT: Duration = Duration::from_mins(1);
/// From TERM to KILL: helm writes the failed revision meanwhile.
const GRACE: Duration = Duration::from_secs(15);
/// The largest result is the CRDs of a chart, about half a megabyte for gpu-operator.
const MAX_STDOUT: usize = 4 * 1024 * 1024;
const MAX_STDERR: usize = 64 * 1024;

/// How many steps a change has that helm waits for one after the other, each within helm's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// At most one hook.
    One = 1,
    /// A hook before and one after.
    Two = 2,
}

/// Our own deadline for a change; `timeout` is helm's, which bounds each step alone.
pub(super) const fn deadline(timeout: Duration, steps: Steps) -> Duration {
    timeout
        .saturating_mul(steps as u32)
        .saturating_add(DEADLINE_MARGIN)
}

/// After this time no change that was started with `timeout` runs any more, however badly it went.
pub const fn longest_change(timeout: Duration) -> Duration {
    deadline(timeout, Steps::Two)
        .saturating_add(GRACE)
        .saturating_add(process::KILL_LIMIT)
}

/// The right to run one change.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    lock: Lock,
    _among_us: MutexGuard<'a, ()>,
}

struct Command<'a> {
    verb: &'static str,
    args: &'a [OsString],
    deadline: Duration,
    on_shutdown: OnShutdown,
    stdin: Option<File>,
}

impl Helm {
    /// Waits until no other change runs, neither ours nor one that a killed operator left behind. The latter may
    /// take up to `limit`.
    pub(super) async fn turn(&self, verb: &'static str, limit: Duration) -> Result<Turn<'_>, HelmError> {
        let interrupted = |cause| HelmError::Interrupted {
            verb,
            cause,
            killed: false,
        };
        let among_us = self.change.lock().await;
        if let Some(cause) = self.interrupt.refuses_changes() {
            return Err(interrupted(cause));
        }
        match self.work_dir.lock(limit, &self.interrupt).await {
            Ok(lock) => Ok(Turn {
                lock,
                _among_us: among_us,
            }),
            Err(LockError::Held) => Err(HelmError::LeftOver { verb, waited: limit }),
            Err(LockError::Interrupted(cause)) => Err(interrupted(cause)),
            Err(LockError::Io(source)) => Err(HelmError::Run { verb, source }),
        }
    }

    /// Runs a command that changes a release.
    pub(super) async fn change(
        &self,
        verb: &'static str,
        args: &[OsString],
        deadline: Duration,
        on_shutdown: OnShutdown,
        turn: Turn<'_>,
    ) -> Result<Finished, HelmError> {
        let stdin = turn
            .lock
            .stdin()
            .map_err(|source| HelmError::Run { verb, source })?;
        let ended = self
            .run(Command {
                verb,
                args,
                deadline,
                on_shutdown,
                stdin: Some(stdin),
            })
            .await?;
        Ok(Finished {
            elapsed: ended.elapsed,
        })
    }

    /// Runs a command that only reads, and reads its result.
    pub(super) async fn read<T>(
        &self,
        verb: &'static str,
        args: &[OsString],
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, HelmError> {
        let on_shutdown = OnShutdown::Finish;
        let ended = self
            .run(Command {
                verb,
                args,
                deadline: READ_LIMIT,
                on_shutdown,
                stdin: None,
            })
            .await?;
        let result = if ended.stdout.truncated() {
            Err(format!("more than {MAX_STDOUT} bytes"))
        } else {
            parse(&ended.stdout.text())
        };
        result.map_err(|reason| HelmError::Output { verb, reason })
    }

    /// Asks the binary for its version and refuses what is too old.
    pub(super) async fn ask_version(&self) -> Result<Version, OpenError> {
        let binary = || self.binary.clone();
        let unusable = |reason| OpenError::Unusable {
            binary: binary(),
            reason,
        };
        let parse = |stdout: &str| {
            version::parse(stdout).ok_or_else(|| "its version cannot be read from that".to_owned())
        };
        let found = self
            .read("version", &args::version(), parse)
            .await
            .map_err(|error| match error {
                HelmError::Missing { .. } => OpenError::Missing { binary: binary() },
                other => unusable(other.to_string()),
            })?;
        if found.major < version::MINIMUM_MAJOR {
            return Err(OpenError::TooOld {
                binary: binary(),
                found,
            });
        }
        Ok(found)
    }

    async fn run(&self, command: Command<'_>) -> Result<Ended, HelmError> {
        let Command {
            verb,
            args,
            deadline,
            on_shutdown,
            stdin,
        } = command;
        if matches!(self.interrupt.phase(), Phase::LeaseLost { .. }) {
            return Err(HelmError::Interrupted {
                verb,
                cause: Cause::LeaseLost,
                killed: false,
            });
        }
        let changes = stdin.is_some();
        // Values are never part of it, only the name of their file.
        let line = args.join(OsStr::new(" ")).display().to_string();
        if changes {
            tracing::info!(args = line, "helm starts");
        }
        let job = Job {
            program: &self.binary,
            args,
            env: &self.environment,
            cwd: self.work_dir.root(),
            stdin,
            on_shutdown,
            limits: Limits {
                deadline,
                grace: GRACE,
                stdout: MAX_STDOUT,
                stderr: MAX_STDERR,
            },
        };
        let ended = process::run(job, &self.interrupt)
            .await
            .map_err(|source| match source.kind() {
                // A missing working directory looks the same.
                io::ErrorKind::NotFound if !self.binary.exists() => HelmError::Missing {
                    verb,
                    binary: self.binary.clone(),
                },
                _ => HelmError::Run { verb, source },
            })?;
        let elapsed_ms = ended.elapsed.as_millis();
        let truncated = ended.stdout.truncated() || ended.stderr.truncated();
        if changes {
            tracing::info!(args = line, end = %ended.status, elapsed_ms, truncated, "helm ended");
        } else {
            tracing::debug!(args = line, end = %ended.status, elapsed_ms, truncated, "helm ended");
        }
        outcome(verb, deadline, ended)
    }
}

/// Success counts even when the run was told to stop: it was faster.
fn outcome(verb: &'static str, limit: Duration, ended: Ended) -> Result<Ended, HelmError> {
    let killed = ended.killed;
    match (ended.status.code(), ended.stopped) {
        (Some(0), _) => Ok(ended),
        (_, Some(Stop::Deadline)) => Err(HelmError::Timeout { verb, limit, killed }),
        (_, Some(Stop::Interrupted(cause))) => Err(HelmError::Interrupted { verb, cause, killed }),
        (Some(code), None) => Err(failure(verb, code, output::error_message(&ended.stderr.text()))),
        (None, None) => Err(HelmError::Signaled {
            verb,
            signal: ended.status.signal().unwrap_or_default(),
        }),
    }
}

fn failure(verb: &'static str, code: i32, message: String) -> HelmError {
    if output::is_not_found(&message) {
        HelmError::NotFound { verb, message }
    } else if output::is_undecodable(&message) {
        HelmError::Undecodable { verb, message }
    } else if output::is_in_progress(&message) {
        HelmError::OperationInProgress { verb, message }
    } else if output::is_unreachable(&message) {
        HelmError::Unreachable { verb, message }
    } else {
        HelmError::Failed { verb, code, message }
    }
}
