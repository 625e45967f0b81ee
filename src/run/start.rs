//! What has to be known before the first pass.

use std::time::Duration;

use kube::Client;
use tokio::time::timeout;

use crate::act::HOOK_TIMEOUT;
use crate::catalogue::MinorVersion;
use crate::helm::{self, Helm};
use crate::observe::{self, Views};

/// How often a cluster that does not answer at the start is asked again.
const START_RETRY: Duration = Duration::from_secs(5);

/// How long the first pass waits for the watches. It must not wait for ever: one kind that cannot be listed would keep
/// the GpuModule without any status.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// Kinds without which there is no first pass: somebody else's gpu-operator would be overlooked and installed over, and
/// what a removal leaves behind would look gone.
const NEEDED: [&str; 3] = ["CustomResourceDefinitions", "ClusterPolicies", "NVIDIADrivers"];

/// How long a helm process of an earlier operator may go on before the first pass.
const LEFT_OVER_LIMIT: Duration = helm::longest_change(HOOK_TIMEOUT);

/// Waits for everything that the first pass relies on; gives back the version of the API server.
pub(super) async fn ready(client: &Client, views: &Views, helm: &Helm) -> MinorVersion {
    let version = kubernetes_version(client).await;
    settled(views).await;
    if let Err(error) = helm.await_left_over(LEFT_OVER_LIMIT).await {
        tracing::warn!(%error, "going on beside it");
    }
    version
}

/// Waits until the API server has told its version.
async fn kubernetes_version(client: &Client) -> MinorVersion {
    loop {
        match observe::kubernetes_version(client).await {
            Ok(version) => {
                tracing::info!(kubernetes = %version, "the API server answers");
                return version;
            }
            Err(error) => {
                tracing::warn!(%error, "the API server does not answer; asked again in {} s", START_RETRY.as_secs());
                tokio::time::sleep(START_RETRY).await;
            }
        }
    }
}

/// Waits until each watch has been answered, but no longer than [`SETTLE_LIMIT`] for those that are not [`NEEDED`].
async fn settled(views: &Views) {
    let mut changes = views.changes();
    loop {
        let all = async { while !views.are_settled() && changes.changed().await.is_ok() {} };
        if timeout(SETTLE_LIMIT, all).await.is_ok() {
            tracing::info!("watching the cluster");
            return;
        }
        let unsettled = views.unsettled();
        let unanswered = unsettled.join(", ");
        if !unsettled.iter().any(|kind| NEEDED.contains(kind)) {
            tracing::warn!(unanswered, "going on without what some watches would tell");
            return;
        }
        tracing::warn!(unanswered, "nothing begins yet: some watches are not answered");
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;
    use tower::BoxError;

    use super::*;
    use crate::contact::Contacts;

    /// Views of a cluster that lists nothing, and is silent where the path ends as `silent` until `from` has passed.
    fn views(silent: &'static str, from: Duration) -> Views {
        let start = Instant::now();
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let watch = request.uri().query().unwrap_or_default().contains("watch=true");
            if watch {
                std::future::pending::<()>().await;
            }
            if request.uri().path().ends_with(silent) {
                tokio::time::sleep_until(start + from).await;
            }
            let nothing =
                r#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#;
            Ok::<_, BoxError>(Response::new(Body::from(nothing.as_bytes().to_vec())))
        });
        Views::start(
            &Client::new(service, "default"),
            &Contacts::default(),
            &TaskTracker::new(),
            &CancellationToken::new(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn answered_watches_are_not_waited_for() {
        let start = Instant::now();
        settled(&views("/none", Duration::ZERO)).await;
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn one_silent_watch_delays_the_first_pass_only_so_long() {
        let start = Instant::now();
        let views = views("/nodes", Duration::from_hours(1));
        settled(&views).await;
        assert_eq!(views.unsettled(), ["Nodes"]);
        assert!(start.elapsed() >= SETTLE_LIMIT, "{:?}", start.elapsed());
        assert!(start.elapsed() < SETTLE_LIMIT * 2, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_begins_before_the_crds_are_known() {
        let start = Instant::now();
        let views = views("/customresourcedefinitions", SETTLE_LIMIT * 4);
        settled(&views).await;
        assert!(views.are_settled(), "{:?}", views.unsettled());
        assert!(start.elapsed() >= SETTLE_LIMIT * 4, "{:?}", start.elapsed());
    }
}
