//! `gpu-manager cleanup`: finishes a removal for which no operator is left. The same steps by the same decisions, once, by hand.

mod lease;
mod subject;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::end::{self, End};
use super::open::Opened;
use super::{Lead, finish, signals};
use crate::config::{CleanupArgs, RunArgs};
use crate::lease::{Leadership, Lookout};
use crate::plan::{Plan, Wait};
use crate::publish::{Publisher, Say};
use crate::reconcile::{Context, Rest, now, rehearse, remove};
use subject::Subject;

/// How often the cluster is looked at again without any event.
const LOOK: Duration = Duration::from_secs(2);

/// How many passes in a row may fail; the API server may be away for a moment.
const FAILED_PASSES: u32 = 5;

/// Says what a removal would do, or takes it to its end. `say` gets a plain line for each step.
pub async fn cleanup(args: RunArgs, wishes: CleanupArgs, say: Say) -> anyhow::Result<()> {
    let mut signals = signals()?;
    let opened = Opened::open(&args).await?;
    let found = Subject::find(&opened.client).await?;
    if wishes.yes {
        found.ensure_may_go()?;
    }
    let (sender, idle) = watch::channel(Leadership::Waiting { holder: None });
    let held = if wishes.yes {
        Some(lease::take(&opened.client, &args, &say).await?)
    } else {
        lease::tell(&opened.client, &say).await?;
        None
    };
    let mut leadership = held.as_ref().map_or(idle, |held| held.leadership.clone());
    let lookout = held.as_ref().map(|held| held.lookout.clone());
    let interrupter = opened.interrupter.clone();
    let (outcome, ended) = oneshot::channel();
    let publisher = Publisher::new(opened.client.clone(), args.identity()).aloud(Arc::clone(&say));
    let mandates = leadership.clone();
    let mut lead = Lead::begin(
        args,
        opened,
        mandates,
        publisher,
        move |_, context, stop| async move {
            let result = match lookout {
                Some(lookout) => execute(&context, wishes, &lookout, &say, &stop).await,
                None => dry_run(&found, &context, wishes, &say).await,
            };
            // Whoever waits for it may be gone.
            let _ = outcome.send(result);
        },
    );
    let end = end::reason(&mut signals, &mut leadership, &mut lead.work).await;
    lead.stop.cancel();
    let result = match end {
        End::Signal => {
            end::by_signal(lead.work, &interrupter, &mut leadership).await?;
            bail_interrupted()
        }
        End::LeaseLost(kill_by) => return end::without_lease(lead.work, &interrupter, kill_by).await,
        End::Work(_) => ended.await.context("the cleanup broke off")?,
    };
    finish(&lead.watches).await;
    if let Some(held) = held {
        held.release().await;
    }
    drop(sender);
    result
}

fn bail_interrupted() -> anyhow::Result<()> {
    bail!("interrupted before the end, run it again to go on")
}

/// Tells every step and changes nothing.
async fn dry_run(found: &Subject, context: &Context, wishes: CleanupArgs, say: &Say) -> anyhow::Result<()> {
    if let Err(why) = found.ensure_may_go() {
        say(&format!("{why:#}; this is what would be done then:"));
    }
    let steps = Arc::new(AtomicUsize::new(0));
    let counted: Say = {
        let (say, steps) = (Arc::clone(say), Arc::clone(&steps));
        Arc::new(move |line| {
            steps.fetch_add(1, Ordering::Relaxed);
            say(line);
        })
    };
    rehearse(&found.as_going(wishes, now()), context, &counted).await?;
    if found.is_there() {
        counted("take the module's finalizer off the GpuModule");
    }
    let steps = steps.load(Ordering::Relaxed);
    ensure!(
        steps == 0,
        "this was a dry run and nothing was changed; run it again with --yes to take these {steps} steps"
    );
    say("nothing of the module is in the cluster");
    Ok(())
}

/// Takes passes until nothing is left.
async fn execute(
    context: &Context,
    wishes: CleanupArgs,
    lookout: &Lookout,
    say: &Say,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let limit = Instant::now() + Duration::from_secs(wishes.timeout);
    let mut changes = context.views.changes();
    let mut failed = 0;
    while !stop.is_cancelled() {
        changes.mark_unchanged();
        // An operator that is installed meanwhile may take a Lease of its own elsewhere.
        lease::ensure_alone(lookout).await?;
        let found = Subject::find(&context.actor.client).await?;
        found.ensure_may_go()?;
        let pause = match remove(&found.as_going(wishes, now()), context).await {
            Ok(Rest::Gone) => {
                found.ensure_is_gone(&context.actor.client).await?;
                say("clean: nothing of the module is left in the cluster but what was named");
                return Ok(());
            }
            Ok(Rest::Until { plan, pause }) => {
                failed = 0;
                ensure_goes_on(&plan)?;
                pause
            }
            Ok(Rest::Interrupted) => return bail_interrupted(),
            // Normal after each write to the GpuModule: the pass is taken again with the newer one.
            Err(error) => {
                failed += 1;
                ensure!(failed < FAILED_PASSES, "{error}");
                LOOK
            }
        };
        ensure!(
            Instant::now() < limit,
            "not at its end after {} s, what it waits for is said above; run it again to go on",
            wishes.timeout
        );
        // Whether something has changed or not.
        let _ = timeout(pause.min(LOOK), changes.changed()).await;
    }
    bail_interrupted()
}

/// Fails where only a person can make it go on.
fn ensure_goes_on(plan: &Plan) -> anyhow::Result<()> {
    match plan {
        Plan::Hold(hold) => bail!("{hold}"),
        Plan::Wait { why: Wait::Work, .. } => {
            bail!(
                "the removal is held, as said above, and nothing is changed; end the Pods that use GPUs, or give --workloads ignore"
            )
        }
        _ => Ok(()),
    }
}
