//! How the rest of the operator stops running helm processes.
//!
//! An [`Interrupter`] raises the process-wide [`Phase`]; every run of helm watches it through its [`Interrupt`].
//! Phases only get more severe: a lost lease cannot turn back into a mere shutdown.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// KILL goes out this long before the instant at which nothing of ours may run any more.
const KILL_MARGIN: Duration = Duration::from_millis(250);

/// What running helm processes have to know about this operator process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is wrong.
    Run,
    /// The operator ends: install and upgrade are told to stop (helm records them as `failed`); everything else
    /// that runs may finish, because helm has no signal handler there and would leave `uninstalling` or
    /// `pending-rollback` behind.
    Shutdown,
    /// Another replica may act from `kill_by` on, so no helm of ours may live then.
    LeaseLost {
        /// The instant by which every helm process is dead.
        kill_by: std::time::Instant,
    },
}

/// Why a run of helm was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The operator is shutting down.
    Shutdown,
    /// The operator lost its lease.
    LeaseLost,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Shutdown => "the operator is shutting down",
            Self::LeaseLost => "the operator lost its lease",
        })
    }
}

/// Whether a run is stopped by a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnShutdown {
    /// TERM at once: helm handles it and ends cleanly.
    Stop,
    /// Let it end by itself.
    Finish,
}

/// Makes the two connected ends, in [`Phase::Run`].
pub fn interrupt() -> (Interrupter, Interrupt) {
    let (sender, receiver) = watch::channel(Phase::Run);
    (Interrupter(sender), Interrupt(receiver))
}

/// The end that stops helm processes.
#[derive(Clone, Debug)]
pub struct Interrupter(watch::Sender<Phase>);

impl Interrupter {
    /// Stops what can be stopped cleanly and lets no new change start.
    pub fn shutdown(&self) {
        self.0.send_if_modified(|phase| {
            let raise = *phase == Phase::Run;
            if raise {
                *phase = Phase::Shutdown;
            }
            raise
        });
    }

    /// Stops everything: TERM now, KILL in time for `kill_by`.
    pub fn lease_lost(&self, kill_by: std::time::Instant) {
        self.0.send_if_modified(|phase| {
            let later = matches!(*phase, Phase::LeaseLost { kill_by: known } if known <= kill_by);
            if !later {
                *phase = Phase::LeaseLost { kill_by };
            }
            !later
        });
    }
}

/// The end that runs of helm watch. When every [`Interrupter`] is gone, the last phase stays.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<Phase>);

impl Interrupt {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Why nothing new may be changed, if so.
    pub(super) fn refuses_changes(&self) -> Option<Cause> {
        cause(self.phase(), OnShutdown::Stop)
    }

    /// Ends when a run with this behaviour has to stop.
    pub(super) async fn stops(&self, on_shutdown: OnShutdown) -> Cause {
        let mut phases = self.0.clone();
        loop {
            let phase = *phases.borrow_and_update();
            if let Some(cause) = cause(phase, on_shutdown) {
                return cause;
            }
            if phases.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends when a process that was told to stop now has to be killed: after `grace`, or earlier when the lease is
    /// lost, also if that happens during the grace.
    pub(super) async fn grace_ends(&self, grace: Duration) {
        let end = Instant::now() + grace;
        let mut phases = self.0.clone();
        loop {
            let kill_at = match *phases.borrow_and_update() {
                Phase::LeaseLost { kill_by } => end.min(Instant::from_std(
                    kill_by.checked_sub(KILL_MARGIN).unwrap_or(kill_by),
                )),
                Phase::Run | Phase::Shutdown => end,
            };
            tokio::select! {
                () = sleep_until(kill_at) => return,
                changed = phases.changed() => if changed.is_err() {
                    return sleep_until(kill_at).await;
                },
            }
        }
    }
}

fn cause(phase: Phase, on_shutdown: OnShutdown) -> Option<Cause> {
    match phase {
        Phase::LeaseLost { .. } => Some(Cause::LeaseLost),
        Phase::Shutdown if on_shutdown == OnShutdown::Stop => Some(Cause::Shutdown),
        Phase::Shutdown | Phase::Run => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_get_more_severe() {
        let (interrupter, interrupt) = interrupt();
        let early = std::time::Instant::now();
        let late = early + Duration::from_secs(1);

        interrupter.lease_lost(late);
        interrupter.shutdown();
        assert_eq!(interrupt.phase(), Phase::LeaseLost { kill_by: late });
        interrupter.lease_lost(early);
        interrupter.lease_lost(late);
        assert_eq!(interrupt.phase(), Phase::LeaseLost { kill_by: early });
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_lost_during_the_grace_shortens_it() {
        let (interrupter, interrupt) = interrupt();
        interrupter.shutdown();
        let start = Instant::now();
        let lose = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            interrupter.lease_lost((start + Duration::from_secs(3)).into_std());
        };
        tokio::join!(interrupt.grace_ends(Duration::from_mins(1)), lose);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_gone_interrupter_stops_nothing() {
        let (interrupter, interrupt) = interrupt();
        drop(interrupter);
        let stopped = tokio::time::timeout(Duration::from_hours(1), interrupt.stops(OnShutdown::Stop)).await;
        assert!(stopped.is_err(), "stopped because of {stopped:?}");
    }
}
