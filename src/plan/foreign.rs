//! Finds a stack that somebody else runs. It is never touched, whatever it is called.

use super::{Situation, unrecorded};
use crate::api::{
    GPU_DRIVER_CRD, NODE_FEATURE_RULE_CRD, NodeFeatureDiscovery, OTHER_GPU_MODULE_CRD, STACK_CLUSTER_ROLE,
};
use crate::desired::Desired;
use crate::facts::{HelmOwner, Neighbour, NeighbourKind, PolicyFacts, ReleaseFacts};

/// Somebody else's stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// The other GPU module is in the cluster.
    #[error(
        "the GPU module of API group gpu.kyma-project.io is in this cluster (CRD {OTHER_GPU_MODULE_CRD}), remove one of the two modules"
    )]
    OtherModule,
    /// The earlier Kyma module, or a part of it, is in the cluster.
    #[error(
        "{found} is of the Kyma module gpu-driver, which brings another driver onto the nodes; delete its GpuDrivers, remove that module, and replace its GPU nodes"
    )]
    GpuDriver {
        /// What was found.
        found: String,
    },
    /// A device plugin that is no part of a stack.
    #[error(
        "{0} also tells the kubelets of NVIDIA's GPUs, remove it, the module brings a device plugin of its own"
    )]
    DevicePlugin(Neighbour),
    /// A Node Feature Discovery that cannot be told about Garden Linux.
    #[error(
        "{0} labels the nodes and its Node Feature Discovery knows no NodeFeatureRules (CRD {NODE_FEATURE_RULE_CRD} is missing), without which no Garden Linux node gets a driver; upgrade it to 0.10 or newer, or remove it"
    )]
    NfdWithoutRules(Neighbour),
    /// A release under the module's own name that the module did not make and Helm cannot read.
    #[error(
        "Helm release {} was not made by this module and Helm cannot decode its revision {revision}, delete that revision's Secret",
        Desired::release_path()
    )]
    Undecodable {
        /// The revision.
        revision: u32,
    },
    /// Objects of a release under the module's own name that Helm knows nothing of.
    #[error(
        "{kind} belongs to Helm release {}, whose Secrets are gone, so nobody knows its values; set spec.adoptExistingRelease to true to install over what is there",
        Desired::release_path()
    )]
    Unrecorded {
        /// The object by which it was found.
        kind: &'static str,
    },
    /// An object of the stack that belongs to a release of another name or namespace.
    #[error(
        "{kind} {name} belongs to Helm release {}/{}, which this module did not make, migrate it as the module's documentation says, or uninstall it",
        owner.namespace,
        owner.release
    )]
    OtherRelease {
        /// Kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The release.
        owner: HelmOwner,
    },
    /// An object of the stack that no Helm release has made.
    #[error(
        "{kind} {name} belongs to no Helm release, migrate it as the module's documentation says, or delete it with all that was made beside it"
    )]
    Unmanaged {
        /// Kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl Foreign {
    /// The reason of condition `Configured`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::OtherModule => "OtherGpuModule",
            Self::GpuDriver { .. } => "GpuDriverModule",
            Self::NfdWithoutRules(_) => "NodeFeatureRulesMissing",
            Self::DevicePlugin(_) => "ForeignDevicePlugin",
            Self::OtherRelease { .. } => "ForeignRelease",
            Self::Undecodable { .. } => "ReleaseUnreadable",
            Self::Unrecorded { .. } => "ReleaseUnrecorded",
            Self::Unmanaged { .. } => "UnmanagedStack",
        }
    }

    /// True for NVIDIA's operator itself, false for what does a part of its work.
    pub const fn is_stack(&self) -> bool {
        !matches!(
            self,
            Self::OtherModule | Self::GpuDriver { .. } | Self::DevicePlugin(_) | Self::NfdWithoutRules(_)
        )
    }

    fn object(kind: &'static str, name: &str, owner: Option<&HelmOwner>) -> Self {
        let name = name.to_owned();
        match owner.cloned() {
            Some(owner) => Self::OtherRelease { kind, name, owner },
            None => Self::Unmanaged { kind, name },
        }
    }
}

/// True where the release, or what is left of it, is the module's.
///
/// Helm carries the module's labels from revision to revision, also through changes by hand, so a release without them is another
/// one, whatever the status recorded of its predecessor. Only where no revision can be seen does the record count.
pub fn is_ours(s: &Situation<'_>) -> bool {
    match &s.observed.release {
        ReleaseFacts::Read(history) if !history.is_empty() => history.is_marked(),
        ReleaseFacts::Read(_) | ReleaseFacts::Unreadable => s.recorded.is_some(),
    }
}

/// Finds what forbids the module to act.
pub fn find(s: &Situation<'_>) -> Option<Foreign> {
    if s.observed.crds.contains_key(OTHER_GPU_MODULE_CRD) {
        return Some(Foreign::OtherModule);
    }
    gpu_driver(s)
        .or_else(|| stack(s))
        .or_else(|| device_plugin(s))
        .or_else(|| nfd_without_rules(s))
}

fn neighbour<'a>(s: &Situation<'a>, kind: NeighbourKind) -> Option<&'a Neighbour> {
    s.observed.neighbours.iter().find(|found| found.kind == kind)
}

fn gpu_driver(s: &Situation<'_>) -> Option<Foreign> {
    let part = neighbour(s, NeighbourKind::GpuDriver).map(ToString::to_string);
    let crd = || {
        let is_there = s.observed.crds.contains_key(GPU_DRIVER_CRD);
        is_there.then(|| format!("CRD {GPU_DRIVER_CRD}"))
    };
    part.or_else(crd).map(|found| Foreign::GpuDriver { found })
}

fn device_plugin(s: &Situation<'_>) -> Option<Foreign> {
    neighbour(s, NeighbourKind::DevicePlugin)
        .cloned()
        .map(Foreign::DevicePlugin)
}

fn nfd_without_rules(s: &Situation<'_>) -> Option<Foreign> {
    let asks_for_rule = s
        .desired
        .is_ok_and(|desired| desired.node_feature_discovery == NodeFeatureDiscovery::Cluster);
    let has_rules = s.observed.crds.contains_key(NODE_FEATURE_RULE_CRD);
    let found = neighbour(s, NeighbourKind::NodeFeatureDiscovery).filter(|_| asks_for_rule && !has_rules)?;
    Some(Foreign::NfdWithoutRules(found.clone()))
}

/// A stack of NVIDIA's that the module did not make.
fn stack(s: &Situation<'_>) -> Option<Foreign> {
    if is_ours(s) {
        return None;
    }
    // A release of the module's own name may be adopted, whoever made it; see `adoption`.
    let mut policies = s.observed.policies.iter();
    if let Some(policy) = policies.find(|policy| !policy.is_of_module_release()) {
        return Some(Foreign::object(
            "ClusterPolicy",
            &policy.name,
            policy.owner.as_ref(),
        ));
    }
    let surroundings = s.observed.surroundings.as_ref()?;
    let owner = surroundings.cluster_role.as_ref()?.as_ref();
    let is_foreign = !surroundings.has_role_of_module_release();
    is_foreign.then(|| Foreign::object("ClusterRole", STACK_CLUSTER_ROLE, owner))
}

/// By which object a release of the module's name shows although no revision of it is left.
pub fn stands_without_record(s: &Situation<'_>) -> Option<&'static str> {
    if s.observed.policies.iter().any(PolicyFacts::is_of_module_release) {
        return Some("ClusterPolicy cluster-policy");
    }
    unrecorded::stands(s).then_some("ClusterRole gpu-operator")
}
