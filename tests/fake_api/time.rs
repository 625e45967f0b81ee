//! The test's time: it stands still unless a test moves it, also while helm processes run.
//!
//! Paused tokio time jumps to the next timer as soon as nothing is left to do. A running process is nothing to do for it,
//! so it would jump to that process's deadline. A blocking task that never ends before the test does prevents all jumps.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::Instant;

use crate::server::FakeApi;

/// How long real time may pass until everything that can happen has happened.
const REAL_LIMIT: Duration = Duration::from_mins(1);

/// Held by the one test that runs. Between fork and exec a process has copies of all pipes here, so that the output of one
/// test's helm would seem to go on as long as another test starts its own, and nothing would tell of it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Turns of the scheduler after which a chain of tasks that wait for each other has moved on.
const TURNS: usize = 64;

/// Time under the test's control.
pub struct StandingTime {
    start: Instant,
    _held: mpsc::Sender<()>,
    _holding: JoinHandle<()>,
    _alone: MutexGuard<'static, ()>,
}

impl StandingTime {
    /// Must be called with paused time. Waits until no other test has its own.
    pub fn begin() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, until_dropped) = mpsc::channel::<()>();
        let holding = spawn_blocking(move || {
            // The only message is that the sender is gone.
            let _ = until_dropped.recv();
        });
        Self {
            start: Instant::now(),
            _held: held,
            _holding: holding,
            _alone: alone,
        }
    }

    /// A wall clock that follows the test's time.
    pub fn clock(&self) -> impl Fn() -> Timestamp + Send + Sync + use<> {
        let start = self.start;
        let zero: Timestamp = "2026-11-30T08:00:00Z".parse().expect("a time");
        move || zero + SignedDuration::try_from(start.elapsed()).expect("a duration")
    }

    /// Waits until nothing more happens without time going on.
    pub async fn settle(&self, api: &FakeApi) {
        let give_up = std::time::Instant::now() + REAL_LIMIT;
        let mut quiet = 0;
        while quiet < 2 {
            let before = api.count();
            for _ in 0..TURNS {
                yield_now().await;
            }
            let busy = has_children();
            if busy {
                pause().await;
            }
            quiet = if busy || api.count() != before {
                0
            } else {
                quiet + 1
            };
            assert!(
                std::time::Instant::now() < give_up,
                "it never becomes quiet: {} requests, a process runs: {busy}",
                api.count()
            );
        }
    }

    /// Lets time go on in `step`s, each of them up to the end of what it has brought about.
    pub async fn advance(&self, api: &FakeApi, by: Duration, step: Duration) {
        let end = Instant::now() + by;
        self.settle(api).await;
        while Instant::now() < end {
            tokio::time::advance(step.min(end - Instant::now())).await;
            self.settle(api).await;
        }
    }
}

/// Whether this thread, on which all tasks of the test run, has child processes.
fn has_children() -> bool {
    let path = "/proc/thread-self/children";
    let children = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    !children.trim().is_empty()
}

/// Gives processes a little real time.
async fn pause() {
    let (_never, silence) = mpsc::channel::<()>();
    let waited = spawn_blocking(move || silence.recv_timeout(Duration::from_millis(1)).is_err());
    waited.await.expect("a pause");
}
