//! TERM, KILL and what leads to them.

use super::*;

#[tokio::test]
async fn term_is_honoured() {
    let script =
        Script::new("trap 'echo cancelled >&2; exit 1' TERM; : > ready; while :; do sleep 0.02; done");
    let (interrupter, interrupt) = interrupt();
    let (ended, ()) = tokio::join!(script.run(&interrupt), async {
        script.makes("ready").await;
        interrupter.shutdown();
    });
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        (ended.stopped, ended.killed),
        (Some(Stop::Interrupted(Cause::Shutdown)), false)
    );
    assert!(
        ended.stderr.text().ends_with("cancelled\n"),
        "{}",
        ended.stderr.text()
    );
}

#[tokio::test]
async fn ignored_term_leads_to_kill_after_the_grace() {
    let mut script = Script::new("trap '' TERM; sleep 1000 & echo $! > child; : > ready; wait");
    script.limits.grace = Duration::from_millis(300);
    let (interrupter, interrupt) = interrupt();
    let (ended, told) = tokio::join!(script.run(&interrupt), async {
        script.makes("ready").await;
        interrupter.shutdown();
        Instant::now()
    });
    let took = told.elapsed();
    assert_eq!(ended.status.signal(), Some(KILL));
    assert_eq!(
        (ended.stopped, ended.killed),
        (Some(Stop::Interrupted(Cause::Shutdown)), true)
    );
    assert!(took >= script.limits.grace, "killed after {took:?}");
    assert!(took < Duration::from_secs(10), "killed only after {took:?}");
    let child = read_number(&script.file("child"));
    until("the child that ignored TERM is gone too", || !is_running(child)).await;
}

#[tokio::test]
async fn the_deadline_ends_a_run() {
    let mut script = Script::new("sleep 1000");
    script.limits.deadline = Duration::from_millis(200);
    let ended = script.run_alone().await;
    assert_eq!(ended.status.signal(), Some(TERM));
    assert_eq!((ended.stopped, ended.killed), (Some(Stop::Deadline), false));
    assert!(ended.elapsed >= script.limits.deadline, "{:?}", ended.elapsed);
}

#[tokio::test]
async fn a_shutdown_lets_a_run_finish_that_cannot_be_stopped_cleanly() {
    let mut script = Script::new(": > ready; while ! [ -e go ]; do sleep 0.02; done; echo finished");
    script.on_shutdown = OnShutdown::Finish;
    let (interrupter, interrupt) = interrupt();
    let (ended, ()) = tokio::join!(script.run(&interrupt), async {
        script.makes("ready").await;
        interrupter.shutdown();
        std::fs::write(script.file("go"), "").expect("the go file");
    });
    assert_eq!((ended.status.code(), ended.stopped), (Some(0), None));
    assert_eq!(ended.stdout.text(), "finished\n");
}

#[tokio::test]
async fn a_lost_lease_kills_everything_in_time() {
    let mut script = Script::new("trap '' TERM; : > ready; while :; do sleep 0.02; done");
    script.on_shutdown = OnShutdown::Finish;
    let (interrupter, interrupt) = interrupt();
    let (ended, kill_by) = tokio::join!(script.run(&interrupt), async {
        script.makes("ready").await;
        let kill_by = std::time::Instant::now() + Duration::from_secs(3);
        interrupter.lease_lost(kill_by);
        kill_by
    });
    // A busy machine may tell of the end late; without the KILL there would be none.
    let late = kill_by.elapsed();
    assert!(late < Duration::from_secs(5), "late by {late:?}");
    assert_eq!(ended.status.signal(), Some(KILL));
    assert_eq!(
        (ended.stopped, ended.killed),
        (Some(Stop::Interrupted(Cause::LeaseLost)), true)
    );
}
