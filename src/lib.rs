//! The Kyma GPU module.
pub mod kube_api;
pub mod lease;
