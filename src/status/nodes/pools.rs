//! `status.workerPools`: what there is to know of each worker pool, in lists that do not grow with the number of nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::cause::{Cause, Image, ImageTrouble};
use super::{Affair, Judged, NodeReason, Nodes, Standing};
use crate::api::{
    GpuCounts, MAX_NAMES, MAX_POOLS, MAX_PROBLEMS, MAX_TEXT, MAX_VALUES, NodeProblem, WorkerPoolStatus,
};
use crate::facts::{DriverChange, Part, PodState};
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
            pool.driver_images.extend(self.driver_image(judged));
            for cause in self.problems(judged) {
                pool.problems.entry(cause).or_default().push(&judged.node.name);
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

    /// What is told of a node.
    fn problems(&self, judged: &Judged<'_>) -> Vec<Cause> {
        let found = match &judged.standing {
            Standing::Usable | Standing::Leaving => None,
            Standing::Excluded(reason) => Some(Cause::from(*reason)),
            Standing::Starting { .. } => Some(NodeReason::Starting.into()),
            Standing::Changing => Some(NodeReason::UpgradeInProgress.into()),
            Standing::Rolling { why, .. } | Standing::Lost(why) => Some(why.cause.clone()),
        };
        // Before there is a release, everything is missing everywhere.
        let found = found.filter(|cause| self.is_installed || cause.affair() == Affair::User);
        let told = |reason| found.as_ref().is_some_and(|cause| cause.reason == reason);
        let failed = (judged.change == Some(DriverChange::Failed)).then_some(NodeReason::UpgradeFailed);
        let failed = failed.filter(|reason| !told(*reason)).map(Cause::from);
        let unknown = self
            .unknown_image(judged)
            .filter(|_| !told(NodeReason::DriverImageMissing));
        found.iter().cloned().chain(failed).chain(unknown).collect()
    }

    /// The driver image that the node asks for or will ask for with what is wanted.
    fn driver_image(&self, judged: &Judged<'_>) -> Option<String> {
        let takes_part = match &judged.standing {
            Standing::Leaving | Standing::Excluded(NodeReason::Excluded) => false,
            _ => !matches!(judged.support, Support::Impossible(_)) && !judged.node.has_own_driver,
        };
        driver_image(&judged.node.system, self.desired.filter(|_| takes_part)?)
    }

    /// That nobody knows whether there is the image that the node asks for. One that runs is there.
    fn unknown_image(&self, judged: &Judged<'_>) -> Option<Cause> {
        let image = self
            .driver_image(judged)
            .filter(|_| judged.support == Support::Unknown)?;
        let pods = self
            .pods
            .map(|pods| pods.on(&judged.node.name))
            .unwrap_or_default();
        let runs = pods.iter().any(|pod| {
            let driver = pod.driver.as_ref().filter(|_| pod.part == Part::Driver);
            pod.state == PodState::Ready && driver.is_some_and(|driver| *driver.image == *image)
        });
        (!runs).then(|| Cause {
            reason: NodeReason::DriverImageUnknown,
            image: Some(Image {
                name: image.into(),
                trouble: ImageTrouble::Unknown,
            }),
        })
    }
}

/// What has been gathered of a pool.
#[derive(Default)]
struct Pool<'a> {
    nodes: usize,
    participating: usize,
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
    driver_images: BTreeSet<String>,
    problems: BTreeMap<Cause, Vec<&'a str>>,
}

impl<'a> Pool<'a> {
    fn add(&mut self, judged: &Judged<'a>) {
        let node = judged.node;
        self.nodes += 1;
        self.participating += usize::from(judged.standing.counts());
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
            participating: count(self.participating),
            usable: count(self.usable),
            gpus: GpuCounts {
                capacity: u32::try_from(self.capacity).unwrap_or(u32::MAX),
                allocatable: u32::try_from(self.allocatable).unwrap_or(u32::MAX),
            },
            operating_systems: first(&self.operating_systems),
            kernels: first(&self.kernels),
            instance_types: first(&self.instance_types),
            driver_images: first(&self.driver_images),
            products: first(&self.products),
            driver_versions: first(&self.driver_versions),
            cuda_versions: first(&self.cuda_versions),
            sharing: first(&self.sharing),
            problems: self.problems.iter().take(MAX_PROBLEMS).map(problem).collect(),
        }
    }
}

fn problem((cause, names): (&Cause, &Vec<&str>)) -> NodeProblem {
    NodeProblem {
        reason: cause.reason.as_str().to_owned(),
        message: short(&format!("{}: {}", cause.what_briefly(), cause.todo())),
        nodes: count(names.len()),
        names: names.iter().take(MAX_NAMES).map(|name| short(name)).collect(),
        image: cause.image.as_ref().map(|image| short(&image.name)),
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
