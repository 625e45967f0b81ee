//! `status.workerPools`: what there is to know of each worker pool, in lists that do not grow with the number of nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Affair, Judged, NodeReason, Nodes, Standing};
use crate::api::{
    GpuCounts, MAX_NAMES, MAX_POOLS, MAX_PROBLEMS, MAX_TEXT, MAX_VALUES, NodeProblem, WorkerPoolStatus,
};
use crate::facts::{Part, PodState};
use crate::nodes::{Support, driver_image};

/// Stands for the pool of nodes without one. No label can have that value.
const NO_POOL: &str = "(none)";

impl Nodes<'_> {
    /// The worker pools, at most [`MAX_POOLS`] in the order of their names, and how many more there are. Those with problems go first
    /// where not all fit.
    pub fn pools(&self) -> (Vec<WorkerPoolStatus>, u32) {
        let mut pools: BTreeMap<&str, Pool<'_>> = BTreeMap::new();
        for judged in self
            .all
            .iter()
            .filter(|judged| judged.standing != Standing::Leaving)
        {
            let name = judged.node.pool.as_deref().unwrap_or(NO_POOL);
            let pool = pools.entry(name).or_default();
            pool.add(judged);
            for (reason, image) in self.problems(judged) {
                pool.problems
                    .entry((reason, image))
                    .or_default()
                    .push(&judged.node.name);
            }
        }
        let more = pools.len().saturating_sub(MAX_POOLS);
        let mut told: Vec<_> = pools.into_iter().collect();
        told.sort_by_key(|(_, pool)| pool.problems.is_empty());
        told.truncate(MAX_POOLS);
        told.sort_by_key(|(name, _)| *name);
        let told = told.into_iter().map(|(name, pool)| pool.status(name));
        (told.collect(), count(more))
    }

    /// What is told of a node, each with the image that it is about.
    fn problems(&self, judged: &Judged<'_>) -> Vec<(NodeReason, Option<String>)> {
        let found = match &judged.standing {
            Standing::Usable | Standing::Leaving => None,
            Standing::Excluded => Some((NodeReason::Excluded, None)),
            Standing::Starting { .. } => Some((NodeReason::Starting, None)),
            Standing::Changing => Some((NodeReason::UpgradeInProgress, None)),
            Standing::Rolling { why, .. } | Standing::Lost(why) => {
                Some((why.reason, why.image.as_deref().map(ToOwned::to_owned)))
            }
        };
        // Before there is a release, everything is missing everywhere.
        let found = found.filter(|(reason, _)| self.is_installed || reason.affair() == Affair::User);
        let is_missing = |(reason, _): &(NodeReason, _)| *reason == NodeReason::DriverImageMissing;
        let unknown = self
            .unknown_image(judged)
            .filter(|_| !found.as_ref().is_some_and(is_missing));
        let unknown = unknown.map(|image| (NodeReason::DriverImageUnknown, Some(image)));
        found.into_iter().chain(unknown).collect()
    }

    /// The driver image that the node asks for or will ask for, where nobody knows whether there is one. One that runs is there.
    fn unknown_image(&self, judged: &Judged<'_>) -> Option<String> {
        if judged.support != Support::Unknown || judged.standing == Standing::Excluded {
            return None;
        }
        let image = driver_image(&judged.node.system, self.desired?)?;
        let pods = self
            .pods
            .map(|pods| pods.on(&judged.node.name))
            .unwrap_or_default();
        let runs = pods.iter().any(|pod| {
            let driver = pod.driver.as_ref().filter(|_| pod.part == Part::Driver);
            pod.state == PodState::Ready && driver.is_some_and(|driver| *driver.image == *image)
        });
        (!runs).then_some(image)
    }
}

/// What has been gathered of a pool.
#[derive(Default)]
struct Pool<'a> {
    nodes: usize,
    usable: usize,
    capacity: u64,
    allocatable: u64,
    operating_systems: BTreeSet<&'a str>,
    kernels: BTreeSet<&'a str>,
    instance_types: BTreeSet<&'a str>,
    products: BTreeSet<&'a str>,
    driver_versions: BTreeSet<&'a str>,
    cuda_versions: BTreeSet<&'a str>,
    sharing: BTreeSet<String>,
    problems: BTreeMap<(NodeReason, Option<String>), Vec<&'a str>>,
}

impl<'a> Pool<'a> {
    fn add(&mut self, judged: &Judged<'a>) {
        let node = judged.node;
        self.nodes += 1;
        self.usable += usize::from(judged.standing == Standing::Usable);
        self.capacity += node.capacity;
        self.allocatable += node.allocatable;
        for (values, value) in [
            (&mut self.operating_systems, Some(node.system.os_image.as_str())),
            (&mut self.kernels, Some(node.system.kernel.as_str())),
            (&mut self.instance_types, node.instance_type.as_deref()),
            (&mut self.products, node.gpu.product.as_deref()),
            (&mut self.driver_versions, node.gpu.driver_version.as_deref()),
            (&mut self.cuda_versions, node.gpu.cuda_version.as_deref()),
        ] {
            values.extend(value.filter(|value| !value.is_empty()));
        }
        let strategy = node
            .gpu
            .sharing_strategy
            .as_deref()
            .filter(|strategy| *strategy != "none");
        self.sharing
            .extend(strategy.map(|strategy| match node.gpu.replicas {
                Some(replicas) => format!("{strategy} by {replicas}"),
                None => strategy.to_owned(),
            }));
    }

    fn status(self, name: &str) -> WorkerPoolStatus {
        WorkerPoolStatus {
            name: short(name),
            nodes: count(self.nodes),
            usable: count(self.usable),
            gpus: GpuCounts {
                capacity: u32::try_from(self.capacity).unwrap_or(u32::MAX),
                allocatable: u32::try_from(self.allocatable).unwrap_or(u32::MAX),
            },
            operating_systems: first(&self.operating_systems),
            kernels: first(&self.kernels),
            instance_types: first(&self.instance_types),
            products: first(&self.products),
            driver_versions: first(&self.driver_versions),
            cuda_versions: first(&self.cuda_versions),
            sharing: first(&self.sharing),
            problems: self.problems.iter().take(MAX_PROBLEMS).map(problem).collect(),
        }
    }
}

fn problem(((reason, image), names): (&(NodeReason, Option<String>), &Vec<&str>)) -> NodeProblem {
    NodeProblem {
        reason: reason.as_str().to_owned(),
        message: format!("{}: {}", reason.what(), reason.todo()),
        nodes: count(names.len()),
        names: names.iter().take(MAX_NAMES).map(|name| short(name)).collect(),
        image: image.as_deref().map(short),
    }
}

fn first(values: &BTreeSet<impl AsRef<str>>) -> Vec<String> {
    values
        .iter()
        .take(MAX_VALUES)
        .map(|value| short(value.as_ref()))
        .collect()
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
