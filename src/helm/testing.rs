//! Helpers of the tests in this folder: waiting on conditions, looking at processes, and playing a role in a second
//! copy of the test program.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const LIMIT: Duration = Duration::from_secs(30);

/// Waits until a condition holds.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + LIMIT;
    while !condition() {
        assert!(
            Instant::now() < give_up,
            "{LIMIT:?} passed and it does not hold that {what}"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process runs. A zombie does not.
pub(super) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|state| state != "Z")
}

/// The number that a script has written into a file.
pub(super) fn read_number(path: &Path) -> i32 {
    let text = std::fs::read_to_string(path).expect("a file with a number");
    text.trim().parse().expect("a number")
}

/// Writes an executable script by a process of its own: were the file open for writing here, a process that another
/// thread forks just then would keep it so, and running it would fail with "text file busy".
#[expect(clippy::disallowed_methods, reason = "tests make their programs")]
pub(super) fn install_script(path: &Path, text: &str) {
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text)
        .status()
        .expect("a shell");
    assert!(status.success(), "cannot write {}: {status}", path.display());
}

/// A part that a second copy of this test program plays, as a process of its own.
pub(super) struct Role {
    /// Its name, as the value of [`Role::VARIABLE`].
    pub name: &'static str,
    /// Full name of the test that plays it and does nothing otherwise.
    pub test: &'static str,
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests start copies of themselves and tell them so by a variable"
)]
impl Role {
    const VARIABLE: &str = "GPU_MANAGER_TEST_ROLE";

    /// Whether this process is to play it.
    pub(super) fn is_ours(&self) -> bool {
        std::env::var(Self::VARIABLE).is_ok_and(|name| name == self.name)
    }

    /// Tells that it was played to its end: without the word, a test that ran nothing would look like a success.
    pub(super) fn done(&self) {
        println!("{}", self.last_word());
    }

    fn last_word(&self) -> String {
        format!("role {} played to its end", self.name)
    }

    /// Starts the copy, with more variables.
    pub(super) fn start(&self, under: &[&str], env: &[(&str, &str)]) -> Child {
        let program = std::env::current_exe().expect("the test program");
        let mut words = under.iter().map(Into::into).chain([program.into_os_string()]);
        Command::new(words.next().expect("a program"))
            .args(words)
            .args(["--exact", self.test, "--nocapture"])
            .env(Self::VARIABLE, self.name)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {under:?} for this test: {error}"))
    }

    /// Starts the copy under another program and expects that it plays to its end.
    pub(super) async fn play_under(&self, under: &[&str]) {
        self.play(under, &[]).await;
    }

    /// Starts the copy and expects that it plays to its end.
    pub(super) async fn play(&self, under: &[&str], env: &[(&str, &str)]) {
        let copy = self.start(under, env).wait_with_output();
        let output = timeout(2 * LIMIT, copy)
            .await
            .expect("the role ends")
            .expect("its output");
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success() && stdout.contains(&self.last_word()),
            "role {} under {under:?}: {}\n{stdout}\n{stderr}",
            self.name,
            output.status,
        );
    }
}
