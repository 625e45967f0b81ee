//! The custom resource `GpuModule` and the names the module goes by.
//!
//! Only data: no I/O, no client, no decisions. The CRD in `crds/` is generated from these types.

mod bounded;
mod deletion;
mod driver;
mod driver_upgrade;
mod gpu_module;
mod images;
mod names;
mod nfd;
mod nodes;
mod operands;
mod pools;
mod readable;
mod status;

pub use bounded::{DriverBranch, UnknownBranch};
pub use deletion::{DeletionCrds, DeletionSpec, DeletionWorkloads};
pub use driver::{DriverMode, DriverSpec, KernelModuleType};
pub use driver_upgrade::{DrainSpec, DriverUpgradeSpec, PodDeletionSpec};
pub use gpu_module::{DriftMode, DriftSpec, GpuModule, GpuModuleSpec, UpgradePolicy, UpgradeSpec};
pub use images::ImagesSpec;
pub use names::*;
pub use nfd::NodeFeatureDiscovery;
pub use nodes::{NodesSpec, TaintEffect, Toleration, TolerationOperator};
pub use operands::{MigSpec, MigStrategy, MonitoringSpec, SharingSpec, TimeSlicingSpec};
pub use pools::{
    GpuCounts, MAX_NAMES, MAX_POOLS, MAX_PROBLEMS, MAX_TEXT, MAX_VALUES, NodeProblem, WorkerPoolStatus,
};
pub use status::{
    AdoptionStatus, ConditionType, DriverStatus, GpuModuleStatus, GpuNodesStatus, Operation, OperationKind,
    Outcome, ReleaseStatus, State, condition,
};

#[cfg(test)]
mod tests;
