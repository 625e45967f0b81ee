//! `spec.mig.strategy`, in the words of the chart.

use super::typed::Typed;
use crate::api::{GpuModuleSpec, MigStrategy};

pub fn typed(spec: &GpuModuleSpec) -> Option<Typed> {
    let strategy = match spec.mig.as_ref()?.strategy? {
        MigStrategy::None => "none",
        MigStrategy::Single => "single",
        MigStrategy::Mixed => "mixed",
    };
    Some(Typed::new("spec.mig.strategy", "mig.strategy", strategy))
}
