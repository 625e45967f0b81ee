//! NVIDIA's stack as it stands in the cluster.

use jiff::Timestamp;
use semver::Version;

use crate::api::{RELEASE_NAME, RELEASE_NAMESPACE};

/// The Helm release that an object says it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmOwner {
    /// Annotation `meta.helm.sh/release-name`.
    pub release: String,
    /// Annotation `meta.helm.sh/release-namespace`.
    pub namespace: String,
}

impl HelmOwner {
    /// True for the module's release, by name and namespace.
    pub fn is_module_release(&self) -> bool {
        self.release == RELEASE_NAME && self.namespace == RELEASE_NAMESPACE
    }

    fn of_module_release(owner: Option<&Self>) -> bool {
        owner.is_some_and(Self::is_module_release)
    }
}

/// A ClusterPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFacts {
    /// Its name.
    pub name: String,
    /// The release it belongs to.
    pub owner: Option<HelmOwner>,
    /// Version of the chart that made it (label `helm.sh/chart`).
    pub chart: Option<Version>,
    /// NVIDIA's operator may run drivers (`spec.driver.enabled`).
    pub drivers_enabled: bool,
    /// `status.state`: ready or notReady; `None` before NVIDIA's operator has seen it.
    pub state: Option<String>,
    /// Reason and message of the condition `Error`, where it is True.
    pub error: Option<(String, String)>,
}

impl PolicyFacts {
    /// True where it belongs to the module's release, by name and namespace.
    pub fn is_of_module_release(&self) -> bool {
        HelmOwner::of_module_release(self.owner.as_ref())
    }
}

/// An NVIDIADriver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFacts {
    /// Its name.
    pub name: String,
    /// The release it belongs to.
    pub owner: Option<HelmOwner>,
    /// `status.state`.
    pub state: Option<String>,
    /// Reason and message of the condition `Error`, where it is True.
    pub error: Option<(String, String)>,
}

impl DriverFacts {
    /// True where it belongs to the module's release, by name and namespace.
    pub fn is_of_module_release(&self) -> bool {
        HelmOwner::of_module_release(self.owner.as_ref())
    }
}

/// A DaemonSet in the release's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetFacts {
    /// Its name.
    pub name: String,
    /// Pods that should run.
    pub desired: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that run its newest template.
    pub updated: i32,
    /// It is being deleted. Its Pods may take long to end, those of a node that is gone for ever.
    pub terminating: bool,
    /// The driver that it runs; `None` where it is no driver's.
    pub driver: Option<DriverImage>,
}

/// The driver of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverImage {
    /// UID of the DaemonSet.
    pub uid: String,
    /// Name of the NVIDIADriver or ClusterPolicy that asked for it.
    pub owner: String,
    /// Reference of its image: `<repository>/driver:<version>-<kernel>-<system>`.
    pub image: String,
}

/// A CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFacts {
    /// Annotation [`crate::api::ANNOTATION_SPEC_DIGEST`], where the module applied it.
    pub spec_digest: Option<String>,
    /// Nobody has changed its spec since: annotation [`crate::api::ANNOTATION_SPEC_GENERATION`] names its generation.
    pub as_applied: bool,
    /// How often its spec was written, from 1.
    pub generation: i64,
    /// It is being deleted, and every object of its kind with it.
    pub terminating: bool,
}

impl CrdFacts {
    /// A CRD that the module has just applied and that no watch has told of yet.
    pub const fn applied() -> Self {
        Self {
            spec_digest: Some(String::new()),
            as_applied: true,
            generation: 1,
            terminating: false,
        }
    }
}

/// The namespace of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurroundingNamespace {
    /// There is none.
    Absent,
    /// The module made it.
    Ours,
    /// Somebody else made it.
    Foreign,
    /// It is being deleted; nothing can be created in it.
    Terminating,
}

/// The namespace of the release on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Since when.
    pub since: Timestamp,
    /// What Kubernetes says of why it is still there, the worst first.
    pub held_by: Vec<NamespaceHold>,
}

/// Why Kubernetes has not removed a namespace yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceHold {
    /// The kind of reason.
    pub cause: HoldCause,
    /// Kubernetes' own words, or ours where it has none.
    pub message: String,
}

/// Kinds of reasons why a namespace stays (`pkg/controller/namespace/deletion` of Kubernetes), the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldCause {
    /// An API cannot be listed, so nobody knows what is in the namespace.
    ApiUnlisted,
    /// An object in it could not be deleted.
    DeletionFailed,
    /// Finalizers are left, on objects in it or on itself.
    Finalizers,
    /// Objects are left.
    Objects,
}

/// What has to be read from the API server just before acting, since no watch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The namespace of the release.
    pub namespace: SurroundingNamespace,
    /// How far it is with going, where it is [`SurroundingNamespace::Terminating`].
    pub departure: Option<Departure>,
    /// Owner of ClusterRole `gpu-operator`, which every release of NVIDIA's chart has; outer `None`: there is none.
    pub cluster_role: Option<Option<HelmOwner>>,
}

impl Surroundings {
    /// True where the ClusterRole belongs to the module's release, by name and namespace.
    pub fn has_role_of_module_release(&self) -> bool {
        let owner = self.cluster_role.as_ref().and_then(Option::as_ref);
        HelmOwner::of_module_release(owner)
    }
}
