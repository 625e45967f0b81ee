//! The runner as PID 1 of a PID namespace, as in a container: orphans of its children become its own children there,
//! and nobody else removes them.

use super::*;
use crate::helm::testing::Role;

const ROLE: Role = Role {
    name: "pid-one",
    test: "helm::process::tests::pid_one::as_pid_one",
};

#[tokio::test]
async fn no_zombies_as_pid_one() {
    ROLE.play_under(&["unshare", "--pid", "--fork", "--mount-proc"])
        .await;
}

/// The part that plays in the namespace. Does nothing elsewhere.
#[tokio::test]
async fn as_pid_one() {
    if !ROLE.is_ours() {
        return;
    }
    assert_eq!(std::process::id(), 1, "not PID 1");

    // Orphans that sleep, one that has a child itself, and one that ended long before.
    let orphans = "sleep 1000 & (sleep 1000 & sleep 1000 & wait) & true & sleep 0.05";
    let ended = Script::new(&format!("{orphans}; exit 0")).run_alone().await;
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(others(), Vec::<String>::new(), "left by a run that ended");

    let mut script = Script::new(&format!("trap '' TERM; {orphans}; wait"));
    script.limits.deadline = Duration::from_millis(200);
    script.limits.grace = Duration::from_millis(100);
    assert!(script.run_alone().await.killed);
    assert_eq!(others(), Vec::<String>::new(), "left by a run that was killed");

    let script = Script::new(&format!("{orphans}; : > ready; wait"));
    let (_interrupter, interrupt) = interrupt();
    tokio::select! {
        ended = script.run(&interrupt) => panic!("ended by itself: {ended:?}"),
        () = script.makes("ready") => {}
    }
    until("a dropped run leaves nothing", || others().is_empty()).await;
    ROLE.done();
}

/// All processes but this one, zombies included, as the kernel lists them.
fn others() -> Vec<String> {
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name != "1" && name.parse::<u32>().is_ok())
        })
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .collect()
}
