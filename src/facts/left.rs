//! What a helm uninstall leaves, by kind of thing, as read at one moment.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::drift::{Kind, ObjectRef};

/// Kinds of things that are taken away one after the other. The first two come before the release, the rest after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leavings {
    /// Driver upgrades that are not paused.
    DriverUpgrades,
    /// Nodes that NVIDIA's operator has cordoned for one.
    Cordons,
    /// Objects of the release, where Helm cannot be made to know it again.
    Release,
    /// What NVIDIA's operator made the stack of, and its DaemonSets.
    Stack,
    /// Pods of the stack.
    Pods,
    /// Objects of hooks that never came to their end, and Leases.
    Hooks,
    /// Labels and annotations on nodes.
    Nodes,
    /// The namespace of the release.
    Namespace,
    /// CRDs that the charts brought.
    Crds,
    /// The module's label that keeps NVIDIA's operator off a node.
    OwnLabels,
    /// The operator's own rights in the namespace, where that stays, and its labels on one that it did not make.
    Rights,
}

impl Leavings {
    /// Every kind of thing.
    pub const ALL: [Self; 11] = [
        Self::DriverUpgrades,
        Self::Cordons,
        Self::Release,
        Self::Stack,
        Self::Pods,
        Self::Hooks,
        Self::Nodes,
        Self::Namespace,
        Self::Crds,
        Self::OwnLabels,
        Self::Rights,
    ];

    /// True where a removal ends without what is refused. The stack itself and its Pods are never given up: what runs on the nodes would go on.
    pub const fn may_stay(self) -> bool {
        !matches!(self, Self::Release | Self::Stack | Self::Pods)
    }
}

/// What is left of a kind of thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// What has to go.
    pub objects: Vec<Leftover>,
    /// What stays, and why, in words.
    pub stays: Vec<String>,
}

/// What was read of each kind of thing in one pass.
pub type AllLeft = BTreeMap<Leavings, Left>;

/// An object that has to go, or something on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The object.
    pub object: ObjectRef,
    /// Its UID: another one of the same name is left alone.
    pub uid: String,
    /// What is done about it.
    pub remedy: Remedy,
}

/// How something goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The object is deleted.
    Delete,
    /// The CRD is deleted if there is still no object of its kind.
    DeleteUnused(InstanceKind),
    /// The object is changed by this JSON merge patch.
    Patch(Value),
    /// What the module has applied to the object is taken off, and nothing of anybody else's.
    Unapply,
    /// Kubernetes is about to remove it.
    Wait,
    /// It stays for now, for this reason. Where that does not end, it stays.
    Blocked(String),
}

/// The kind that a CRD declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceKind {
    /// The kind, in a version that is served.
    pub kind: Kind,
    /// Its name in URLs.
    pub plural: String,
}
