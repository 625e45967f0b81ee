//! What is told once a GpuModule is gone.

use super::{Situation, stays};

/// What came of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// What was the module's is taken away.
    Removed {
        /// What stays of it in the cluster, in words.
        stays: Vec<String>,
    },
    /// What is there is somebody else's, and was left alone.
    Untouched,
}

/// What is to be told; `None` where there was nothing at all.
pub fn farewell(s: &Situation<'_>) -> Option<Farewell> {
    if s.removal.is_some_and(|removal| removal.began.is_some()) {
        return Some(Farewell::Removed { stays: stays(s) });
    }
    let is_there = s.removal.is_some() || s.observed.release.latest().is_some();
    is_there.then_some(Farewell::Untouched)
}
