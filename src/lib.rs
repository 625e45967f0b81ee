//! The Kyma GPU module.
