//! What is counted of each worker pool that the status shows.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::PoolLabel;
use crate::api::WorkerPoolStatus;

/// The gauges, by worker pool. A pool that is gone has none.
#[derive(Debug, Default)]
pub(super) struct PoolGauges {
    nodes: Family<PoolLabel, Gauge>,
    participating: Family<PoolLabel, Gauge>,
    usable: Family<PoolLabel, Gauge>,
    capacity: Family<PoolLabel, Gauge>,
    allocatable: Family<PoolLabel, Gauge>,
}

impl PoolGauges {
    /// Shows these pools and no others.
    pub fn show(&self, pools: &[WorkerPoolStatus]) {
        for gauges in [
            &self.nodes,
            &self.participating,
            &self.usable,
            &self.capacity,
            &self.allocatable,
        ] {
            gauges.clear();
        }
        for pool in pools {
            let label = PoolLabel {
                pool: pool.name.clone(),
            };
            for (gauges, number) in [
                (&self.nodes, pool.nodes),
                (&self.participating, pool.participating),
                (&self.usable, pool.usable),
                (&self.capacity, pool.gpus.capacity),
                (&self.allocatable, pool.gpus.allocatable),
            ] {
                gauges.get_or_create(&label).set(i64::from(number));
            }
        }
    }

    /// Makes them part of the exposition.
    pub fn register(&self, registry: &mut Registry) {
        for (name, help, gauges) in [
            (
                "pool_gpu_nodes",
                "Nodes with an NVIDIA GPU in the worker pool, those that are left out too",
                &self.nodes,
            ),
            (
                "pool_gpu_nodes_participating",
                "Nodes with an NVIDIA GPU in the worker pool that take part",
                &self.participating,
            ),
            (
                "pool_gpu_nodes_usable",
                "Nodes of the worker pool whose NVIDIA GPUs Pods can use now",
                &self.usable,
            ),
            (
                "pool_gpus",
                "GPUs that the nodes of the worker pool know of",
                &self.capacity,
            ),
            (
                "pool_gpus_allocatable",
                "GPUs of the worker pool that Pods can ask for",
                &self.allocatable,
            ),
        ] {
            registry.register(name, help, gauges.clone());
        }
    }
}
