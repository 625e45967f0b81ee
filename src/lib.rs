//! The Kyma GPU module.
pub mod admin;
pub mod api;
pub mod catalogue;
pub mod contact;
pub mod crds;
pub mod desired;
pub mod facts;
pub mod helm;
pub mod kube_api;
pub mod lease;
pub mod metrics;
pub mod plan;
pub mod status;
pub mod telemetry;
