//! The Kyma GPU module.
pub mod api;
pub mod catalogue;
pub mod crds;
pub mod desired;
