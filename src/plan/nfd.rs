//! Whose Node Feature Discovery labels the nodes. A second one would only get in the way of one that the cluster has already.
//!
//! What runs is changed only when the world has been another for a while, and only to one that does the work: without labels
//! NVIDIA's operator takes drivers off nodes. Nothing that the module does makes somebody else's come or go, so nothing swings.

use jiff::{SignedDuration, Timestamp};

use crate::api::{NFD_WORKER, NodeFeatureDiscovery};
use crate::facts::{CrdFacts, Neighbour, NeighbourKind, Observed, ReleaseFacts};

/// Suffix of the names of Node Feature Discovery's CRDs.
const NFD_GROUP: &str = ".nfd.k8s-sigs.io";

/// For how long the world has to be another one.
pub const SETTLING: SignedDuration = SignedDuration::from_mins(1);

/// Since when the world has asked for another Node Feature Discovery than the release has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settling {
    since: Option<Timestamp>,
}

impl Settling {
    /// Whose it should be now.
    pub fn settle(&mut self, observed: &Observed, now: Timestamp) -> NodeFeatureDiscovery {
        let Some(installed) = installed(observed) else {
            self.since = None;
            return wanted(observed, None);
        };
        let wanted = wanted(observed, Some(installed));
        if wanted == installed {
            self.since = None;
            return installed;
        }
        let since = *self.since.get_or_insert(now);
        if now >= since + SETTLING {
            wanted
        } else {
            installed
        }
    }

    /// When the answer changes by itself.
    pub fn due(&self) -> Option<Timestamp> {
        self.since.map(|since| since + SETTLING)
    }
}

/// Which CRDs of Node Feature Discovery the module applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfdCrds {
    /// All of the chart's: nobody else has a use for them.
    All,
    /// Those that are missing or that it applied before: somebody else's runs beside the module's.
    Own,
    /// None: they belong to somebody else's.
    None,
}

impl NfdCrds {
    /// Decides it for a release with this Node Feature Discovery.
    pub fn of(wanted: NodeFeatureDiscovery, observed: &Observed) -> Self {
        match wanted {
            NodeFeatureDiscovery::Cluster => Self::None,
            NodeFeatureDiscovery::Module if theirs(observed).next().is_some() => Self::Own,
            NodeFeatureDiscovery::Module => Self::All,
        }
    }

    /// The same, and what somebody else has made stays as it is.
    #[must_use]
    pub const fn without_others(self) -> Self {
        match self {
            Self::All | Self::Own => Self::Own,
            Self::None => Self::None,
        }
    }

    /// True where the module applies the CRD of that name, which may be there. NVIDIA's are of use to no one else.
    pub fn includes(self, name: &str, present: Option<&CrdFacts>) -> bool {
        if !name.ends_with(NFD_GROUP) {
            return true;
        }
        match self {
            Self::All => true,
            Self::Own => present.is_none_or(|crd| crd.spec_digest.is_some()),
            Self::None => false,
        }
    }
}

/// Workers of somebody else's.
fn theirs(observed: &Observed) -> impl Iterator<Item = &Neighbour> {
    let neighbours = observed.neighbours.iter();
    neighbours.filter(|neighbour| neighbour.kind == NeighbourKind::NodeFeatureDiscovery)
}

/// What the module's release has; `None` where there is none yet.
fn installed(observed: &Observed) -> Option<NodeFeatureDiscovery> {
    let ReleaseFacts::Read(history) = &observed.release else {
        return None;
    };
    let latest = history.latest().filter(|_| history.is_marked())?;
    Some(latest.node_feature_discovery.unwrap_or_default())
}

fn wanted(observed: &Observed, installed: Option<NodeFeatureDiscovery>) -> NodeFeatureDiscovery {
    if theirs(observed).next().is_none() {
        return NodeFeatureDiscovery::Module;
    }
    if installed != Some(NodeFeatureDiscovery::Module) {
        return NodeFeatureDiscovery::Cluster;
    }
    // Taints may keep it off the GPU nodes. Two that run side by side do no harm: both publish what both have found.
    let theirs: i32 = theirs(observed).map(|neighbour| neighbour.ready).sum();
    let mut sets = observed.daemon_sets.iter();
    let ours = sets.find(|set| set.name == NFD_WORKER).map_or(0, |set| set.ready);
    if theirs >= ours.max(1) {
        NodeFeatureDiscovery::Cluster
    } else {
        NodeFeatureDiscovery::Module
    }
}
