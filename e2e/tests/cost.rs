//! What a reconcile costs that changes nothing, and one that fails: bounded, however many there are.
//!
//! `make bench` measures the same over a hundred of each.

use anyhow::{Result, ensure};
use e2e::bench::repeat::{facts, failing, unchanged};
use e2e::bench::{HISTORY, World};
use e2e::manager::binary;

/// Reconciles of each kind; more than Helm keeps revisions.
const RECONCILES: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn reconciles_that_change_nothing_and_that_fail_are_bounded() -> Result<()> {
    let program = tokio::task::spawn_blocking(binary).await??;
    let mut world = World::start(program).await?;

    let cost = unchanged(&mut world, RECONCILES).await?;
    println!("nothing changes: {cost:#?}");
    ensure!(cost.revisions == 0, "{} revisions", cost.revisions);
    ensure!(cost.helm_starts_each() <= 2.0, "{} helm starts", cost.helm_starts);
    // Each is asked for by the annotation, so every object of the release is read and tried as a dry run.
    ensure!(cost.requests_each() <= 60.0, "{:?}", cost.requests);

    let cost = facts(&mut world, RECONCILES).await?;
    println!("a node changes: {cost:#?}");
    ensure!(cost.helm_starts == 0, "{} helm starts", cost.helm_starts);
    ensure!(cost.requests_each() <= 4.0, "{:?}", cost.requests);

    let cost = failing(&mut world, RECONCILES).await?;
    println!("each fails: {cost:#?}");
    ensure!(cost.secrets <= HISTORY, "{} release Secrets", cost.secrets);
    ensure!(cost.helm_starts_each() <= 3.0, "{} helm starts", cost.helm_starts);
    ensure!(cost.requests_each() <= 90.0, "{:?}", cost.requests);
    world.stop_manager().await
}
