//! The Kyma GPU module.

pub mod helm;
