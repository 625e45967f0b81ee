//! `spec.driver.kernelModuleType`, in the words of NVIDIA's objects.

use super::typed::Typed;
use crate::api::{DriverSpec, KernelModuleType};
use crate::catalogue::DriverLayout;

/// Where the ClusterPolicy describes the driver.
pub fn typed(driver: &DriverSpec, layout: DriverLayout) -> Option<Typed> {
    let word = word(driver)?;
    (layout == DriverLayout::ClusterPolicy)
        .then(|| Typed::new("spec.driver.kernelModuleType", "driver.kernelModuleType", word))
}

/// As NVIDIA's objects have it.
pub fn word(driver: &DriverSpec) -> Option<&'static str> {
    Some(match driver.kernel_module_type? {
        KernelModuleType::Auto => "auto",
        KernelModuleType::Open => "open",
        KernelModuleType::Proprietary => "proprietary",
    })
}
