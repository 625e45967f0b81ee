//! `make demo`: shows the module's whole life on a local cluster. With `KEEP=1` the cluster stays until Ctrl-C.

use std::io::stdout;
use std::process::ExitCode;

use anyhow::Result;
use e2e::demo::{self, Local, Screen};
use e2e::interrupt::{self, Interrupted, Signals};

fn main() -> ExitCode {
    interrupt::main(demo())
}

async fn demo() -> Result<()> {
    let keep = std::env::var("KEEP").is_ok_and(|value| value == "1");
    let mut signals = Signals::listen()?;
    let mut screen = Screen::new(stdout());
    let mut local = None;
    let mut result = signals.run(show(&mut local, &mut screen)).await;

    let interrupted = |result: &Result<()>| matches!(result, Err(error) if error.is::<Interrupted>());
    if let (true, false, Some(local)) = (keep, interrupted(&result), &local) {
        if let Err(error) = &result {
            screen.headline("FAILED");
            screen.say(&format!("{error:#}"));
        }
        screen.durations();
        screen.headline("The cluster is kept");
        local.say_how_to_use(&mut screen);
        signals.next().await;
    }
    screen.phase("Stop everything");
    if let Some(local) = local {
        // A second signal does not wait for a helm that may finish.
        let stopped = signals.run(local.stop()).await;
        result = result.and(stopped);
    }
    screen.progress("nothing is left running");
    if !keep && result.is_ok() {
        screen.durations();
    }
    result
}

async fn show(local: &mut Option<Local>, screen: &mut Screen<'_>) -> Result<()> {
    screen.headline("The GPU module's life on a local cluster");
    let local = local.insert(Local::start(screen, &demo::default_chart_version()?).await?);
    demo::run(local, screen).await
}
