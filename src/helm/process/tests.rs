//! The runner against small shell scripts. They run as `/bin/sh -c`, so no file is written and then executed: that
//! fails with "text file busy" when another thread forks in between.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::helm::interrupt::interrupt;
use crate::helm::testing::{is_running, read_number, until};

mod pid_one;
mod stopping;

const LIMITS: Limits = Limits {
    deadline: Duration::from_mins(1),
    grace: Duration::from_secs(20),
    stdout: 64 * 1024,
    stderr: 4 * 1024,
};
const TERM: i32 = Signal::TERM.as_raw();
const KILL: i32 = Signal::KILL.as_raw();

/// A script, the folder that it runs in, and how it is to be run.
struct Script {
    dir: TempDir,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    on_shutdown: OnShutdown,
    limits: Limits,
}

impl Script {
    fn new(text: &str) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
            args: vec!["-c".into(), text.into()],
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            on_shutdown: OnShutdown::Stop,
            limits: LIMITS,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits until the script has made a file.
    async fn makes(&self, name: &str) {
        until(&format!("the script makes {name}"), || self.file(name).exists()).await;
    }

    async fn run(&self, interrupt: &Interrupt) -> Ended {
        let job = Job {
            program: Path::new("/bin/sh"),
            args: &self.args,
            env: &self.env,
            cwd: self.dir.path(),
            stdin: None,
            on_shutdown: self.on_shutdown,
            limits: self.limits,
        };
        run(job, interrupt).await.expect("the script starts")
    }

    async fn run_alone(&self) -> Ended {
        let (_interrupter, interrupt) = interrupt();
        self.run(&interrupt).await
    }
}

#[tokio::test]
async fn code_output_and_empty_stdin() {
    let ended = Script::new("cat; echo out; echo err >&2; exit 3")
        .run_alone()
        .await;
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!((ended.stopped, ended.killed), (None, false));
    assert_eq!(
        (ended.stdout.text(), ended.stdout.truncated()),
        ("out\n".to_owned(), false)
    );
    assert_eq!(
        (ended.stderr.text(), ended.stderr.truncated()),
        ("err\n".to_owned(), false)
    );
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let mut script = Script::new(r"tr '\0' '\n' < /proc/$$/environ");
    script.env.push(("NAME".into(), "a value".into()));
    assert_eq!(
        script.run_alone().await.stdout.text(),
        "NAME=a value\nPATH=/usr/bin:/bin\n"
    );
}

#[tokio::test]
async fn a_missing_program_is_told_apart() {
    let (_interrupter, interrupt) = interrupt();
    let job = Job {
        program: Path::new("/nonexistent/helm"),
        args: &[],
        env: &[],
        cwd: Path::new("/"),
        stdin: None,
        on_shutdown: OnShutdown::Stop,
        limits: LIMITS,
    };
    let error = run(job, &interrupt).await.expect_err("nothing to run");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_flood_on_both_pipes_is_cut_and_blocks_nobody() {
    let script = Script::new(
        "head -c 100000000 /dev/zero | tr '\\0' o & head -c 100000000 /dev/zero | tr '\\0' e >&2; wait; \
         echo end >&2; exit 1",
    );
    let before = peak_memory();
    let ended = script.run_alone().await;
    let grown = peak_memory().saturating_sub(before);

    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stdout.truncated() && ended.stderr.truncated());
    assert_eq!(ended.stdout.text().len(), LIMITS.stdout);
    assert_eq!(ended.stderr.text().len(), LIMITS.stderr);
    assert!(ended.stderr.text().ends_with("eend\n"));
    assert!(grown < 40_000_000, "{grown} more bytes of memory");
}

#[tokio::test]
async fn an_orphan_that_holds_the_pipes_is_ended() {
    let script = Script::new("sleep 1000 & echo $! > orphan; echo done");
    let ended = script.run_alone().await;
    assert_eq!(
        (ended.status.code(), ended.stdout.text()),
        (Some(0), "done\n".to_owned())
    );
    assert!(ended.elapsed < Duration::from_secs(10), "{:?}", ended.elapsed);
    let orphan = read_number(&script.file("orphan"));
    until("the orphan is gone", || !is_running(orphan)).await;
}

#[tokio::test]
async fn a_stranger_that_holds_the_pipes_is_waited_for_shortly() {
    let script = Script::new("setsid sleep 1000 & echo $! > stranger; echo done");
    let ended = script.run_alone().await;
    let stranger = read_number(&script.file("stranger"));
    let pid = rustix::process::Pid::from_raw(stranger).expect("a process number");
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    assert_eq!(
        (ended.status.code(), ended.stdout.text()),
        (Some(0), "done\n".to_owned())
    );
    assert!(ended.elapsed < Duration::from_secs(10), "{:?}", ended.elapsed);
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing_behind() {
    let script = Script::new("trap '' TERM; echo $$ > leader; sleep 1000 & echo $! > child; : > ready; wait");
    let (_interrupter, interrupt) = interrupt();
    tokio::select! {
        ended = script.run(&interrupt) => panic!("ended by itself: {ended:?}"),
        () = script.makes("ready") => {}
    }
    for file in ["leader", "child"] {
        let process = read_number(&script.file(file));
        until(&format!("the {file} is gone"), || !is_running(process)).await;
    }
}

/// The most memory this process ever used, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("a peak");
    let kilobytes: u64 = line
        .split_whitespace()
        .nth(1)
        .expect("a value")
        .parse()
        .expect("a number");
    kilobytes * 1024
}
