//! The Kyma GPU module.
pub mod api;
pub mod catalogue;
pub mod crds;
pub mod desired;
pub mod kube_api;
pub mod lease;
