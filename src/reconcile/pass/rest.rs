//! How a pass came to rest.

use std::time::Duration;

use kube::runtime::controller::Action as Requeue;

use crate::plan::Plan;

/// How a pass came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left to do before something happens.
    Until {
        /// What was decided last.
        plan: Plan,
        /// How long to wait at most.
        pause: Duration,
    },
    /// The GpuModule was let go.
    Gone,
    /// The operator itself is ending.
    Interrupted,
}

impl From<Rest> for Requeue {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::Until { pause, .. } => Self::requeue(pause),
            Rest::Gone | Rest::Interrupted => Self::await_change(),
        }
    }
}
