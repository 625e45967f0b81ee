//! Whether a node takes part, and who wants it so.

use super::{Impossible, Support};
use crate::api::NodesSpec;
use crate::catalogue::DriverMatrix;
use crate::desired::ResolvedDriver;
use crate::facts::NodeFacts;

/// By what nodes are judged.
#[derive(Clone, Copy, Debug)]
pub struct NodeRules<'a> {
    /// `spec.nodes`.
    pub spec: Option<&'a NodesSpec>,
    /// The driver that is wanted; `None` while the spec is refused.
    pub driver: Option<&'a ResolvedDriver>,
    /// For which nodes there are drivers.
    pub matrix: &'a DriverMatrix,
}

/// What is to be expected of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether there is a driver for it.
    pub support: Support,
    /// Why it is to take no part; `None`: it is to take part.
    pub kept_out: Option<KeptOut>,
}

/// Why a node is to take no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptOut {
    /// Somebody else's label says so.
    BySomebody,
    /// `spec.nodes.include` or `exclude` says so.
    BySpec,
    /// It cannot work.
    Impossible(Impossible),
}

impl NodeRules<'_> {
    /// Judges a GPU node.
    pub fn judge(&self, node: &NodeFacts) -> Verdict {
        let driver = self.driver;
        let support = driver.map_or(Support::Unjudged, |driver| {
            Support::of(&node.system, driver, self.matrix)
        });
        let kept_out = match (&node.operands, &support) {
            // Another value than that is somebody's wish to have the node take part.
            (Some(label), _) if !label.is_ours => label.keeps_off().then_some(KeptOut::BySomebody),
            _ if !self.selects(node.pool.as_deref()) => Some(KeptOut::BySpec),
            (_, Support::Impossible(why)) => Some(KeptOut::Impossible(*why)),
            _ => None,
        };
        Verdict { support, kept_out }
    }

    /// True for a worker pool that takes part as far as the spec is concerned.
    fn selects(&self, pool: Option<&str>) -> bool {
        let Some(spec) = self.spec else {
            return true;
        };
        let names = |pools: &[String]| pool.is_some_and(|pool| pools.iter().any(|named| named == pool));
        (spec.include.is_empty() || names(&spec.include)) && !names(&spec.exclude)
    }
}
