//! Local cluster, simulated NVIDIA operator and end-to-end tests of gpu-manager.

pub mod simulated;
