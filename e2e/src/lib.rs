//! Local cluster, simulated NVIDIA operator and end-to-end tests of gpu-manager.

pub mod acceptance;
pub mod bench;
pub mod catalogue;
pub mod charts;
pub mod cluster;
pub mod demo;
pub mod documents;
pub mod goldens;
pub mod interrupt;
pub mod inventory;
pub mod manager;
pub mod manifests;
pub mod pki;
pub mod pod;
pub mod rbac;
pub mod render;
pub mod simulated;
pub mod tools;
pub mod update;
pub mod wait;
