//! What can go wrong with helm, in words for users.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use semver::Version;

use super::interrupt::Cause;

/// Helm cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No file at the path.
    #[error("there is no helm binary at {binary}; put helm 4 there or name another path")]
    Missing {
        /// Where it was looked for.
        binary: PathBuf,
    },
    /// A version whose flags and defaults do not fit.
    #[error("helm {found} at {binary} is too old; version 4 or newer is needed")]
    TooOld {
        /// The binary.
        binary: PathBuf,
        /// Its version.
        found: Version,
    },
    /// It does not run, or is no helm.
    #[error("{binary} does not work as helm: {reason}")]
    Unusable {
        /// The binary.
        binary: PathBuf,
        /// What happened, without a full stop.
        reason: String,
    },
    /// The working directory cannot be made or locked.
    #[error("helm's working directory {path} cannot be used; name one that this user can create: {source}")]
    WorkDir {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A helm command did not do its work. The state of the release is to be read again, not to be guessed from this.
#[derive(Debug, thiserror::Error)]
pub enum HelmError {
    /// The binary is gone since the start.
    #[error("helm {verb} could not start: there is no helm binary at {binary} any more")]
    Missing {
        /// The command.
        verb: &'static str,
        /// Where it was.
        binary: PathBuf,
    },
    /// The process or its files could not be set up or followed.
    #[error("helm {verb} could not be run: {source}")]
    Run {
        /// The command.
        verb: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A helm process of an earlier operator still runs; nothing was started.
    #[error("helm {verb} could not start: a helm process of an earlier operator still ran after {} s", waited.as_secs())]
    LeftOver {
        /// The command.
        verb: &'static str,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The run took too long and was stopped.
    #[error("helm {verb} did not end within {} s and was stopped", limit.as_secs())]
    Timeout {
        /// The command.
        verb: &'static str,
        /// The deadline.
        limit: Duration,
        /// Whether KILL was needed; helm then had no chance to record the end.
        killed: bool,
    },
    /// The operator stopped the run, or did not start it.
    #[error("helm {verb} was stopped because {cause}")]
    Interrupted {
        /// The command.
        verb: &'static str,
        /// Why.
        cause: Cause,
        /// Whether KILL was needed; helm then had no chance to record the end.
        killed: bool,
    },
    /// Someone else ended it by a signal, most likely the kernel for want of memory.
    #[error("helm {verb} was ended by signal {signal} from outside; it may have run out of memory")]
    Signaled {
        /// The command.
        verb: &'static str,
        /// Number of the signal.
        signal: i32,
    },
    /// There is no such release or revision.
    #[error("helm {verb} found nothing: {message}")]
    NotFound {
        /// The command.
        verb: &'static str,
        /// Helm's own words.
        message: String,
    },
    /// The Secret of the revision is there, and what is in it is no release.
    #[error("helm {verb} failed: {message}")]
    Undecodable {
        /// The command.
        verb: &'static str,
        /// Helm's own words.
        message: String,
    },
    /// The API server does not answer helm, or not with its credentials.
    #[error("helm {verb} failed: {message}")]
    Unreachable {
        /// The command.
        verb: &'static str,
        /// Helm's own words.
        message: String,
    },
    /// Helm refuses because the newest revision is pending, or another helm was faster.
    #[error("helm {verb} was refused: {message}")]
    OperationInProgress {
        /// The command.
        verb: &'static str,
        /// Helm's own words.
        message: String,
    },
    /// Helm says no.
    #[error("helm {verb} failed: {message}")]
    Failed {
        /// The command.
        verb: &'static str,
        /// Exit code.
        code: i32,
        /// Helm's own last error: one line, at most 512 characters.
        message: String,
    },
    /// Helm succeeded but its output cannot be read.
    #[error("helm {verb} printed something unexpected: {reason}")]
    Output {
        /// The command.
        verb: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}
