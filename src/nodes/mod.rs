//! What is to be expected of each GPU node, pure: whether there is a driver for it, and whether it takes part at all.
//!
//! `plan` labels nodes by it and `status` says it, so both tell the same. The rules about drivers are those of the Garden Linux
//! NVIDIA installer, as data in `chart-values/drivers.yaml`; everything that is not surely impossible is tried.

mod support;
mod verdict;

pub use support::{IMAGE_SUFFIX, Impossible, Support, driver_image};
pub use verdict::{KeptOut, NodeRules, Verdict};

#[cfg(test)]
mod tests;
