//! The process group of one run: signals to all of it, and no zombies after it.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

/// How long killed members may take to be gone.
const SWEEP_LIMIT: Duration = Duration::from_secs(2);
/// How often it is tried meanwhile: no signal tells it, as tokio's own handler looks at its own children only.
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

/// A process group with a child of ours as leader. Dropping it kills what is left of it.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    ended: bool,
}

impl Group {
    /// The group of a child that was started as a leader and was not yet waited for (afterwards its id is unknown).
    pub(super) fn led_by(child: &Child) -> Option<Self> {
        let id = i32::try_from(child.id()?).ok().and_then(Pid::from_raw)?;
        Some(Self { id, ended: false })
    }

    /// Number of the group, for logs.
    pub(super) fn id(&self) -> i32 {
        self.id.as_raw_nonzero().get()
    }

    /// Sends a signal to every member. That none is left is no error.
    pub(super) fn signal(&self, signal: Signal) {
        // ESRCH: all are gone. EPERM: the kernel knows better than we do. Either way nothing else can be done.
        let _ = kill_process_group(self.id, signal);
    }

    /// Kills and reaps what the leader left behind. Only after the leader was waited for: the sweep would take its
    /// exit status away otherwise. The kernel hands out process numbers in turn, so the group's number cannot have
    /// come back to a stranger in the moment between the two.
    pub(super) async fn end(mut self) {
        self.signal(Signal::KILL);
        sweep(self.id).await;
        self.ended = true;
    }
}

impl Drop for Group {
    /// The run was dropped half way: nothing of it may live on, and it must not leave zombies either.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.signal(Signal::KILL);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(sweep(self.id));
        }
    }
}

/// Waits for those members of the group that the kernel has made our children: as PID 1 we inherit orphans, and
/// tokio waits for none but the children it started. Elsewhere there are none and this ends at once.
async fn sweep(id: Pid) {
    let give_up = Instant::now() + SWEEP_LIMIT;
    loop {
        match waitpgid(id, WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) if Instant::now() < give_up => sleep(SWEEP_PAUSE).await,
            Ok(None) | Err(_) => return,
        }
    }
}
