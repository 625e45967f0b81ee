//! The metrics of the manager, in the OpenMetrics text format.
//!
//! What is not known is absent rather than zero: no node counts without a GpuModule, no last success before the
//! first one. Changes and scrapes exclude each other, so a scrape never sees half of a change.

mod labels;
mod maybe;
mod pools;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

pub use self::labels::{HelmOperation, HelmResult, ReleaseLabels, Verb, VerbLabel};
use self::labels::{KindLabel, NoLabels, OperationLabel, OperationResultLabels, StateLabel};
use self::maybe::Maybe;
use self::pools::PoolGauges;
use crate::api::{ConditionType, GpuModuleStatus, State, condition};
use crate::status::is_held;

/// Media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds for the duration of helm operations: hooks and slow API servers make minutes normal.
const HELM_BUCKETS: [f64; 10] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0];

/// Counts the requests to the API server by verb; filled by [`crate::contact::Contacts`].
pub type ApiRequests = Family<VerbLabel, Counter>;

/// All metrics of the process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<Families>>);

#[derive(Debug)]
struct Families {
    registry: Registry,
    state: Family<StateLabel, Gauge>,
    release: Family<ReleaseLabels, Gauge>,
    operations: Family<OperationResultLabels, Counter>,
    durations: Family<OperationLabel, Histogram, fn() -> Histogram>,
    nodes: Maybe,
    usable_nodes: Maybe,
    pools: PoolGauges,
    driver_change_since: Maybe,
    deletion_since: Maybe,
    deletion_held: Maybe,
    last_success: Family<NoLabels, Gauge<f64, AtomicU64>>,
    leader: Gauge,
    requests: ApiRequests,
    corrections: Family<KindLabel, Counter>,
}

impl Metrics {
    /// Registers everything. Each helm operation and result, and each verb, starts at 0, so that the first one shows
    /// as an increase.
    pub fn new() -> Self {
        let families = Families {
            registry: Registry::with_prefix("gpu_manager"),
            state: Family::default(),
            release: Family::default(),
            operations: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(HELM_BUCKETS)),
            nodes: Maybe::default(),
            usable_nodes: Maybe::default(),
            pools: PoolGauges::default(),
            driver_change_since: Maybe::default(),
            deletion_since: Maybe::default(),
            deletion_held: Maybe::default(),
            last_success: Family::default(),
            leader: Gauge::default(),
            requests: Family::default(),
            corrections: Family::default(),
        };
        families.initialise();
        Self(Arc::new(Mutex::new(families.registered())))
    }

    /// The counter that the API client fills.
    pub fn api_requests(&self) -> ApiRequests {
        self.families().requests.clone()
    }

    /// What the GpuModule's status says, and since when it is being deleted; `None` if there is no GpuModule.
    pub fn show(&self, status: Option<&GpuModuleStatus>, deleting: Option<Timestamp>) {
        self.set_module(status.map(|status| status.state));
        let release = status.and_then(|status| {
            let (release, driver) = (status.release.as_ref()?, status.driver.as_ref());
            let branch = driver.and_then(|driver| driver.branch);
            Some(ReleaseLabels {
                chart_version: release.chart_version.clone(),
                app_version: release.app_version.clone(),
                driver_branch: branch.map(|branch| branch.to_string()).unwrap_or_default(),
            })
        });
        self.set_release(release.as_ref());
        self.set_gpu_nodes(status.map(|status| (status.gpu_nodes.total, status.gpu_nodes.usable)));
        self.families()
            .pools
            .show(status.map_or(&[], |status| &status.worker_pools));
        let pending = status
            .and_then(|status| condition(status, ConditionType::DriverChangePending))
            .filter(|pending| pending.status == "True");
        self.set_driver_change(pending.map(|pending| pending.last_transition_time.0));
        let deleted = status.and_then(|status| condition(status, ConditionType::Deleted));
        let held = deleted.is_some_and(|deleted| is_held(&deleted.reason));
        self.set_deletion(deleting.map(|since| (since, held)));
    }

    /// Since when the GpuModule is being deleted, and whether that is held; `None` while it is not.
    pub fn set_deletion(&self, since_and_held: Option<(Timestamp, bool)>) {
        let families = self.families();
        families
            .deletion_since
            .set(since_and_held.map(|(since, _)| since.as_second()));
        families
            .deletion_held
            .set(since_and_held.map(|(_, held)| held.into()));
    }

    /// The state that the GpuModule's status shows; `None` if there is no GpuModule.
    pub fn set_module(&self, state: Option<State>) {
        let families = self.families();
        for candidate in State::ALL {
            let gauge = families.state.get_or_create_owned(&StateLabel {
                state: candidate.as_str(),
            });
            gauge.set(i64::from(state == Some(candidate)));
        }
    }

    /// The release as installed; `None` if there is none of ours.
    pub fn set_release(&self, release: Option<&ReleaseLabels>) {
        let families = self.families();
        families.release.clear();
        if let Some(labels) = release {
            families.release.get_or_create(labels).set(1);
        }
    }

    /// One helm process that changed the release, or tried to, has ended after `took`.
    pub fn record_helm(&self, operation: HelmOperation, result: HelmResult, took: Duration) {
        let families = self.families();
        families
            .operations
            .get_or_create(&OperationResultLabels { operation, result })
            .inc();
        families
            .durations
            .get_or_create(&OperationLabel { operation })
            .observe(took.as_secs_f64());
    }

    /// An object of the release that others had changed was put right.
    pub fn record_correction(&self, kind: &str) {
        let kind = kind.to_owned();
        self.families()
            .corrections
            .get_or_create(&KindLabel { kind })
            .inc();
    }

    /// Nodes with an NVIDIA GPU, and those of them on which a Pod can use one now; `None` while nobody counts them.
    pub fn set_gpu_nodes(&self, total_and_usable: Option<(u32, u32)>) {
        let families = self.families();
        families
            .nodes
            .set(total_and_usable.map(|(total, _)| total.into()));
        families
            .usable_nodes
            .set(total_and_usable.map(|(_, usable)| usable.into()));
    }

    /// Since when a driver change waits; `None` while none does.
    pub fn set_driver_change(&self, since: Option<Timestamp>) {
        let since = since.map(Timestamp::as_second);
        self.families().driver_change_since.set(since);
    }

    /// When a pass last found the release as the GpuModule wants it, with nothing left to do.
    pub fn set_last_success(&self, at: Timestamp) {
        let seconds = at.as_duration().as_secs_f64();
        self.families()
            .last_success
            .get_or_create(&NoLabels {})
            .set(seconds);
    }

    /// Whether this replica holds the Lease.
    pub fn set_leader(&self, leads: bool) {
        self.families().leader.set(i64::from(leads));
    }

    /// The exposition, to be sent as [`CONTENT_TYPE`].
    pub fn encode(&self) -> String {
        let mut exposition = String::new();
        match text::encode(&mut exposition, &self.families().registry) {
            Ok(()) => exposition,
            Err(error) => {
                // Writing into a String cannot fail; a metric that cannot be encoded could.
                tracing::error!(%error, "the metrics cannot be encoded");
                String::from("# EOF\n")
            }
        }
    }

    fn families(&self) -> MutexGuard<'_, Families> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Families {
    fn initialise(&self) {
        for state in State::ALL {
            self.state
                .get_or_create(&StateLabel {
                    state: state.as_str(),
                })
                .set(0);
        }
        for operation in HelmOperation::ALL {
            for result in HelmResult::ALL {
                self.operations
                    .get_or_create(&OperationResultLabels { operation, result })
                    .inc_by(0);
            }
        }
        for verb in Verb::ALL {
            self.requests.get_or_create(&verb.into()).inc_by(0);
        }
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        let state = "State in the GpuModule's status: 1 for the one that holds";
        registry.register("module_state", state, self.state.clone());
        let release = "The gpu-operator release as installed, always 1";
        registry.register("release_info", release, self.release.clone());
        let operations = "Helm processes that were to change the release";
        registry.register("helm_operations", operations, self.operations.clone());
        let durations = "How long the Helm processes that were to change the release ran";
        registry.register(
            "helm_operation_duration_seconds",
            durations,
            self.durations.clone(),
        );
        self.nodes
            .register(registry, "gpu_nodes", "Nodes with an NVIDIA GPU that take part");
        let usable = "Nodes whose NVIDIA GPUs Pods can use now";
        self.usable_nodes.register(registry, "gpu_nodes_usable", usable);
        self.pools.register(registry);
        let since = "Unix time since which a driver change waits; absent while none does";
        let name = "driver_change_pending_since_timestamp_seconds";
        self.driver_change_since.register(registry, name, since);
        let deletion = "Unix time since which the GpuModule is being deleted; absent while it is not";
        let name = "deletion_since_timestamp_seconds";
        self.deletion_since.register(registry, name, deletion);
        let held =
            "1 while a deletion waits for running work or for rights, 0 while it goes on; absent without one";
        self.deletion_held.register(registry, "deletion_held", held);
        let success = "Unix time at which the release was last found as the GpuModule wants it, with nothing left to do";
        registry.register(
            "last_success_timestamp_seconds",
            success,
            self.last_success.clone(),
        );
        registry.register(
            "leader",
            "1 while this replica holds the Lease and acts",
            self.leader.clone(),
        );
        let requests = "Requests to the Kubernetes API by the manager itself, without Helm's";
        registry.register("api_requests", requests, self.requests.clone());
        let corrections = "Objects of the release that others had changed and that were put right";
        registry.register("drift_corrections", corrections, self.corrections.clone());
        self
    }
}

#[cfg(test)]
mod tests;
