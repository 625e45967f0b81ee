//! Follows the GpuModule and shows each change of its state.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use gpu_manager::api::{GpuModule, MODULE_NAME, State};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use tokio::time::{Instant, timeout_at};

use super::Screen;

/// Lines with that many equal characters in front say the same with other details.
const SAME_BEGINNING: usize = 60;

/// How often such a line is shown again.
const NOW_AND_THEN: Duration = Duration::from_secs(10);

/// Shows state and description as they change, until `done` holds of the module or, with `None`, of its absence.
pub async fn follow(
    modules: &Api<GpuModule>,
    screen: &mut Screen<'_>,
    deadline: Duration,
    done: impl Fn(Option<&GpuModule>) -> bool,
) -> Result<Option<GpuModule>> {
    let end = Instant::now() + deadline;
    let mut events = pin!(watch_object(modules.clone(), MODULE_NAME).default_backoff());
    let mut shown: Option<(Instant, String)> = None;
    let mut trouble = None;
    while let Ok(Some(event)) = timeout_at(end, events.next()).await {
        match event {
            Ok(module) => {
                let line = module.as_ref().and_then(line);
                if let Some(line) = line.filter(|line| is_news(shown.as_ref(), line)) {
                    screen.progress(&line);
                    shown = Some((Instant::now(), line));
                }
                if done(module.as_ref()) {
                    return Ok(module);
                }
            }
            // A watch that broke is opened again.
            Err(error) => trouble = Some(error),
        }
    }
    let shown = shown.map_or_else(|| "nothing".to_owned(), |(_, line)| line);
    let trouble = trouble.map_or_else(String::new, |error| format!(" ({error})"));
    bail!("waited {deadline:?} in vain; the GpuModule last said: {shown}{trouble}")
}

/// Whether a line is worth showing. One that begins like the last goes on with a list, and is shown now and then.
fn is_news(shown: Option<&(Instant, String)>, line: &str) -> bool {
    let Some((at, shown)) = shown else { return true };
    let common = shown
        .chars()
        .zip(line.chars())
        .take_while(|(a, b)| a == b)
        .count();
    shown != line && (common < SAME_BEGINNING || at.elapsed() >= NOW_AND_THEN)
}

fn line(module: &GpuModule) -> Option<String> {
    let status = module.status.as_ref()?;
    let deleting = module.metadata.deletion_timestamp.is_some();
    if deleting && !matches!(status.state, State::Deleting | State::Error) {
        // From before the deletion.
        return None;
    }
    Some(format!("{:<10}  {}", status.state.as_str(), status.description))
}

/// Whether the status belongs to the spec as it is now and says Ready.
pub fn is_ready(module: Option<&GpuModule>) -> bool {
    let Some((module, status)) = module.and_then(|module| Some((module, module.status.as_ref()?))) else {
        return false;
    };
    status.state == State::Ready && Some(status.observed_generation) == module.metadata.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_shrinks_is_no_news() {
        let removing = "Deleting    Helm release gpu-operator/gpu-operator is uninstalled, Kubernetes is still removing ";
        let shown = (Instant::now(), format!("{removing}DaemonSet a, DaemonSet b"));
        assert!(!is_news(Some(&shown), &shown.1));
        assert!(!is_news(Some(&shown), &format!("{removing}DaemonSet b")));
        assert!(is_news(Some(&shown), "Error       helm does not answer"));
        assert!(is_news(None, "Processing  0 of 2 GPU nodes can be used"));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_shown_again_after_a_while() {
        let shown = (Instant::now(), format!("{} 3", "x".repeat(70)));
        tokio::time::advance(NOW_AND_THEN).await;
        assert!(is_news(Some(&shown), &format!("{} 2", "x".repeat(70))));
    }
}
