//! Ctrl-C and SIGTERM for programs that must clean up before they end.

use std::fmt;
use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a program to end.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// Why a program ended early: somebody asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted(SignalKind);

impl Signals {
    /// Takes the signals over from the system, whose answer would be to kill this process.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Interrupted {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupted(SignalKind::interrupt()),
            _ = self.terminate.recv() => Interrupted(SignalKind::terminate()),
            _ = self.hangup.recv() => Interrupted(SignalKind::hangup()),
        }
    }

    /// Works until the end or until the next signal, which drops the work and makes [`Interrupted`] the error.
    pub async fn run<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            interrupted = self.next() => Err(interrupted.into()),
        }
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by signal {}", self.0.as_raw_value())
    }
}

impl std::error::Error for Interrupted {}

/// Runs a program and says how it ended: errors on standard error, a signal as the exit code that shells use for it.
pub fn main(program: impl Future<Output = Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let result = runtime.block_on(program);
    // A build on a blocking thread cannot be cancelled, and need not be waited for.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    match error.downcast_ref::<Interrupted>() {
        Some(Interrupted(kind)) => {
            u8::try_from(128 + kind.as_raw_value()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        None => ExitCode::FAILURE,
    }
}
