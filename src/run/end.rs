//! How a leading replica ends: what may finish, what is stopped, and what the exit code says.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};

use crate::act::HOOK_TIMEOUT;
use crate::helm::{Interrupter, longest_change};
use crate::lease::Leadership;

/// How long what happens after the last helm may take: reading what it has led to, and the status.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long a pass, with its rollback or uninstall, may go on after a signal. The Pod's grace period is longer.
pub(super) const DRAIN_LIMIT: Duration = longest_change(HOOK_TIMEOUT).saturating_add(LAST_WORDS);

/// How long a helm that did not end within [`DRAIN_LIMIT`] may still live.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// Why a leading replica ends.
#[derive(Debug)]
pub(super) enum End {
    /// SIGTERM or SIGINT.
    Signal,
    /// Another replica may lead; nothing of ours may run at that time.
    LeaseLost(Instant),
    /// The work ended by itself, which it never should.
    Work(Result<(), JoinError>),
}

/// Waits for a reason to end.
pub(super) async fn reason(
    signals: &mut mpsc::Receiver<()>,
    leadership: &mut watch::Receiver<Leadership>,
    work: &mut JoinHandle<()>,
) -> End {
    tokio::select! {
        _ = signals.recv() => End::Signal,
        kill_by = lost(leadership) => End::LeaseLost(kill_by),
        ended = work => End::Work(ended),
    }
}

/// Ends when the Lease is lost, with the time by which no child may live.
async fn lost(leadership: &mut watch::Receiver<Leadership>) -> Instant {
    loop {
        if let Leadership::Lost { kill_by } = *leadership.borrow_and_update() {
            return kill_by;
        }
        if leadership.changed().await.is_err() {
            return Instant::now();
        }
    }
}

/// Install and upgrade are stopped, rollback and uninstall may finish. Fails when the Lease is lost meanwhile.
pub(super) async fn by_signal(
    mut work: JoinHandle<()>,
    interrupter: &Interrupter,
    leadership: &mut watch::Receiver<Leadership>,
) -> anyhow::Result<()> {
    tracing::info!("ending: no new pass begins, a helm rollback or uninstall may finish");
    interrupter.shutdown();
    let ended = tokio::select! {
        ended = timeout(DRAIN_LIMIT, &mut work) => ended,
        kill_by = lost(leadership) => return without_lease(work, interrupter, kill_by).await,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "the work broke off"),
        Err(_) => {
            tracing::warn!("the work did not end in time and is stopped");
            let kill_by = Instant::now() + KILL_GRACE;
            interrupter.lease_lost(kill_by.into_std());
            if timeout_at(kill_by, &mut work).await.is_err() {
                work.abort();
            }
        }
    }
    Ok(())
}

/// Stops everything in time for the next leader; always an error.
pub(super) async fn without_lease(
    work: JoinHandle<()>,
    interrupter: &Interrupter,
    kill_by: Instant,
) -> anyhow::Result<()> {
    tracing::error!("the Lease is lost: helm is stopped and the process ends");
    interrupter.lease_lost(kill_by.into_std());
    // Whether it ended well or not, the process ends, and helm with it.
    let _ = timeout_at(kill_by, work).await;
    anyhow::bail!("another replica may act now, so this one ends")
}

/// The error for work that ended by itself.
pub(super) fn broken_off(ended: Result<(), JoinError>) -> anyhow::Error {
    match ended {
        Ok(()) => anyhow::anyhow!("the reconciler ended by itself, which it never should"),
        Err(error) => anyhow::Error::new(error).context("the reconciler broke off"),
    }
}

#[cfg(test)]
mod tests;
