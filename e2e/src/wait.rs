//! Waiting on conditions instead of on the clock.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// Pause between two looks at a condition. An API server on loopback answers in a few milliseconds.
const INTERVAL: Duration = Duration::from_millis(100);

/// Looks at a condition until it holds, and returns what it found.
///
/// `condition` answers `Ok` when it holds and otherwise an error that describes the state it saw, which
/// `anyhow::ensure!` makes short. Errors of the API count as "not yet" too. After `deadline` the result is an
/// error with `what` and the last state seen; a look that hangs does not delay it.
///
/// ```no_run
/// # async fn example(pods: kube::Api<k8s_openapi::api::core::v1::Pod>) -> anyhow::Result<()> {
/// use std::time::Duration;
/// e2e::wait::eventually("three Pods", Duration::from_secs(30), async || {
///     let count = pods.list(&Default::default()).await?.items.len();
///     anyhow::ensure!(count == 3, "{count} Pods");
///     Ok(())
/// })
/// .await
/// # }
/// ```
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut last = anyhow!("the first look did not return");
    while let Ok(seen) = timeout_at(end, condition()).await {
        match seen {
            Ok(found) => return Ok(found),
            Err(state) => last = state,
        }
        if Instant::now() + INTERVAL >= end {
            break;
        }
        sleep(INTERVAL).await;
    }
    bail!("waited {deadline:?} in vain for {what}; last state seen: {last:#}")
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn the_value_comes_back_once_the_condition_holds() {
        let mut looks = 0;
        let found = eventually("the third look", Duration::from_secs(5), async || {
            looks += 1;
            ensure!(looks >= 3, "look {looks}");
            Ok(looks)
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn the_error_names_the_last_state() {
        let error = eventually("a miracle", Duration::from_millis(150), async || {
            ensure!(false, "all is as ever");
            Ok(())
        });
        let text = error.await.unwrap_err().to_string();
        assert!(
            text.contains("a miracle") && text.contains("all is as ever"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_look_that_hangs_meets_the_deadline() {
        let hang = async || {
            std::future::pending::<()>().await;
            Ok(())
        };
        let text = eventually("an answer", Duration::from_millis(50), hang)
            .await
            .unwrap_err()
            .to_string();
        assert!(text.contains("did not return"), "{text}");
    }
}
