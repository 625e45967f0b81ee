//! Settings of `cleanup`.

use clap::{Args, ValueEnum};

use crate::api::{DeletionCrds, DeletionWorkloads};

/// Settings of `cleanup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct CleanupArgs {
    /// Take the steps; without it they are only told.
    #[arg(long)]
    pub yes: bool,

    /// Whether Pods that use GPUs keep the module; without it as the GpuModule says, else block.
    #[arg(long, value_enum, value_name = "WORKLOADS")]
    workloads: Option<Workloads>,

    /// Whether the CRDs of NVIDIA and of Node Feature Discovery go; without it as the GpuModule says, else keep.
    #[arg(long, value_enum, value_name = "CRDS")]
    crds: Option<Crds>,

    /// Seconds after which it ends, also where something is left.
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..=86_400), value_name = "SECONDS")]
    pub timeout: u64,
}

/// `spec.deletion.workloads` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workloads {
    /// Pods that use GPUs keep the module.
    Block,
    /// It is removed whatever runs.
    Ignore,
}

/// `spec.deletion.crds` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Crds {
    /// They stay.
    Keep,
    /// They go, unless somebody else needs them.
    Delete,
}

impl CleanupArgs {
    /// What takes the place of `spec.deletion.workloads`.
    pub fn workloads(self) -> Option<DeletionWorkloads> {
        self.workloads.map(|workloads| match workloads {
            Workloads::Block => DeletionWorkloads::Block,
            Workloads::Ignore => DeletionWorkloads::Ignore,
        })
    }

    /// What takes the place of `spec.deletion.crds`.
    pub fn crds(self) -> Option<DeletionCrds> {
        self.crds.map(|crds| match crds {
            Crds::Keep => DeletionCrds::Keep,
            Crds::Delete => DeletionCrds::Delete,
        })
    }
}
