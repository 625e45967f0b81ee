//! The folder that helm works in: its home, the files with values, and the lock of whoever changes releases.
//!
//! The lock outlives this process on purpose. Every helm process that changes something gets the locked file as its
//! (empty) standard input; the lock belongs to the open file, so it is held until the last of both is gone. When
//! the operator was killed and its helm lives on, the next operator finds the lock taken and waits.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempPath;
use tokio::time::{Instant, sleep};

use super::interrupt::{Cause, Interrupt, OnShutdown};
use super::values;

/// Folders below the working directory, each for one of helm's or client-go's variables.
pub(super) const HOME: &str = "home";
pub(super) const CACHE: &str = "cache";
pub(super) const CONFIG: &str = "config";
pub(super) const DATA: &str = "data";
pub(super) const KUBE_CACHE: &str = "kube-cache";
pub(super) const TEMP: &str = "tmp";

const LOCK_FILE: &str = "helm.lock";
const VALUES_PREFIX: &str = "values-";
const VALUES_SUFFIX: &str = ".json";
/// How often a lock that a left-over process holds is tried again; the kernel has no waiting with a deadline for it.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// The folder, usable by nobody else.
#[derive(Debug)]
pub(super) struct WorkDir {
    root: PathBuf,
}

/// The right to change releases. Ends when this and every standard input made from it is closed.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// The standard input that carries the lock into a child.
    pub(super) fn stdin(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another process still holds it.
    Held,
    /// The operator has to stop.
    Interrupted(Cause),
    /// The file cannot be used.
    Io(io::Error),
}

/// A file with values; gone when dropped.
#[derive(Debug)]
pub(super) struct ValuesFile(TempPath);

impl ValuesFile {
    /// Its name in the working directory. Helm reads a path given by flag as CSV and then as a URL, so a bare name
    /// of known letters is all it gets.
    pub(super) fn name(&self) -> &OsStr {
        self.0.file_name().unwrap_or(self.0.as_os_str())
    }
}

impl WorkDir {
    /// Makes what is missing and takes all rights from others.
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        for folder in ["", HOME, CACHE, CONFIG, DATA, KUBE_CACHE, TEMP] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(root.join(folder))?;
        }
        fs::set_permissions(&root, Permissions::from_mode(0o700))?;
        Ok(Self { root })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the lock if nobody holds it. Files with values that lie around then belong to nobody and are removed.
    pub(super) fn try_lock(&self) -> Result<Lock, LockError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.root.join(LOCK_FILE))
            .map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held),
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        self.remove_values().map_err(LockError::Io)?;
        Ok(Lock(file))
    }

    /// Takes the lock, waiting up to `limit` for a helm process that an earlier operator left behind.
    ///
    /// A first failure alone says nothing: a child that we start just now has copies of all our files between its
    /// fork and its exec, also of a lock that was dropped meanwhile.
    pub(super) async fn lock(&self, limit: Duration, interrupt: &Interrupt) -> Result<Lock, LockError> {
        let start = Instant::now();
        let mut tries = 0_u32;
        loop {
            match self.try_lock() {
                Err(LockError::Held) if start.elapsed() < limit => tries += 1,
                outcome => {
                    if tries > 1 {
                        let waited_s = start.elapsed().as_secs();
                        tracing::info!(
                            waited_s,
                            got_it = outcome.is_ok(),
                            "waited for the helm of an earlier operator"
                        );
                    }
                    return outcome;
                }
            }
            if tries == 2 {
                tracing::warn!(
                    ?limit,
                    "a helm process that an earlier operator started still runs, waiting for it"
                );
            }
            tokio::select! {
                cause = interrupt.stops(OnShutdown::Stop) => return Err(LockError::Interrupted(cause)),
                () = sleep(LOCK_PAUSE) => {}
            }
        }
    }

    /// Writes values into a new file that only we can read.
    pub(super) fn write_values(&self, values: &serde_json::Value) -> io::Result<ValuesFile> {
        let mut file = tempfile::Builder::new()
            .prefix(VALUES_PREFIX)
            .suffix(VALUES_SUFFIX)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(&self.root)?;
        file.write_all(&values::to_json(values)?)?;
        Ok(ValuesFile(file.into_temp_path()))
    }

    fn remove_values(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            if name.starts_with(VALUES_PREFIX.as_bytes()) && name.ends_with(VALUES_SUFFIX.as_bytes()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Path of one of the folders.
    pub(super) fn folder(&self, name: &str) -> OsString {
        self.root.join(name).into_os_string()
    }
}
