//! Replicas against one fake API server, on tokio's paused clock.

mod fake;
mod one_by_one;
mod others;
mod storm;

use jiff::SignedDuration;
use tokio::time::{sleep, timeout};

use self::fake::{FakeApi, HOME, Link};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A wall clock that is this many seconds off the true time.
fn clock_that_is_off_by(seconds: i64) -> impl Fn() -> Timestamp {
    let (started, epoch) = (
        Instant::now(),
        Timestamp::from_second(1_800_000_000 + seconds).unwrap(),
    );
    move || epoch + SignedDuration::try_from(started.elapsed()).unwrap()
}

/// One running manager as far as the Lease is concerned.
struct Replica {
    name: String,
    leadership: watch::Receiver<Leadership>,
    handle: Option<LeaseHandle>,
    link: Link,
}

impl Replica {
    fn start(api: &FakeApi, name: &str) -> Self {
        Self::start_with_clock(api, name, clock_that_is_off_by(0))
    }

    fn start_with_clock(
        api: &FakeApi,
        name: &str,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        let (client, link) = api.client();
        let (leadership, handle) = spawn(client, HOME, name, Timing::default(), clock);
        Self {
            name: name.to_owned(),
            leadership,
            handle: Some(handle),
            link,
        }
    }

    fn now(&self) -> Leadership {
        self.leadership.borrow().clone()
    }

    /// Whether a helm process of this replica could be running.
    fn may_act(&self) -> bool {
        match self.now() {
            Leadership::Lost { kill_by } => Instant::now() < kill_by,
            leadership => leadership.mandate_at(Instant::now()).is_some(),
        }
    }

    async fn until(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl FnMut(&Leadership) -> bool,
    ) -> Leadership {
        if let Ok(Ok(state)) = timeout(limit, self.leadership.wait_for(wanted)).await {
            return state.clone();
        }
        panic!("{} is not {what} after {limit:?}: {:?}", self.name, self.now());
    }

    async fn until_leading(&mut self, limit: Duration) -> Leadership {
        self.until("leading", limit, |state| {
            matches!(state, Leadership::Leading { .. })
        })
        .await
    }

    async fn until_waiting_for(&mut self, holder: &str) {
        let wanted = Leadership::Waiting {
            holder: Some(holder.to_owned()),
        };
        self.until("waiting", 10 * SECOND, |state| *state == wanted).await;
    }

    async fn release(&mut self) -> Result<(), ApiError> {
        self.handle.take().unwrap().release().await
    }

    /// Dies as by SIGKILL.
    async fn crash(&mut self) {
        let handle = self.handle.take().unwrap();
        handle.task.abort();
        sleep(Duration::ZERO).await;
    }
}
