//! `spec.monitoring`: whether there are metrics of the GPUs, and who is told of them.

use serde_json::json;

use super::typed::Typed;
use crate::api::GpuModuleSpec;

pub fn typed(spec: &GpuModuleSpec) -> Vec<Typed> {
    let monitoring = spec.monitoring.as_ref();
    let exporter = monitoring.and_then(|monitoring| {
        let wanted = monitoring.dcgm_exporter?;
        Some(Typed::new(
            "spec.monitoring.dcgmExporter",
            "dcgmExporter.enabled",
            wanted,
        ))
    });
    let monitor = monitoring.and_then(|monitoring| {
        let wanted = monitoring.service_monitor?;
        let mut typed = Typed::new(
            "spec.monitoring.serviceMonitor",
            "dcgmExporter.serviceMonitor.enabled",
            wanted,
        );
        if wanted {
            typed.excludes = vec![("dcgmExporter.enabled", Some(json!(false)))];
        }
        Some(typed)
    });
    exporter.into_iter().chain(monitor).collect()
}
