//! Renders the CRD that `crds/` holds.

use kube::CustomResourceExt;

use crate::api::GpuModule;

/// The CRD of [`GpuModule`] as YAML.
pub fn render() -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(&GpuModule::crd())
}
