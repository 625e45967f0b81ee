//! What the operator itself does at the API server, and why: the part of its rights that no chart tells.
//!
//! The spine's test of the rights compares this list with the requests of a whole life, so an entry that nothing
//! needs any more is found.

use super::RuleSet;

/// One rule of the operator's own.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Plural names.
    pub resources: &'static [&'static str],
    /// Names of the only objects it is about; empty: all.
    pub names: &'static [&'static str],
    /// What is done with them.
    pub verbs: &'static [&'static str],
    /// Why, in a sentence.
    pub reason: &'static str,
}

impl Own {
    /// The rights that it gives.
    pub fn rights(&self) -> RuleSet {
        let mut rights = RuleSet::default();
        for resource in self.resources {
            rights.allow(self.group, resource, self.names, self.verbs);
        }
        rights
    }
}

/// The rights of several rules.
pub fn rights(rules: &[Own]) -> RuleSet {
    let mut all = RuleSet::default();
    for rule in rules {
        all.join(&rule.rights());
    }
    all
}

/// In the whole cluster: ClusterRole `gpu-manager`.
///
/// `create` is limited to names where that is possible. An apply (PATCH) carries the object's name, so the API server
/// checks it; a POST would be refused.
pub const CLUSTER: &[Own] = &[
    Own {
        group: "operator.kyma-project.io",
        resources: &["gpumodules"],
        names: &[],
        verbs: &["get", "list", "patch", "watch"],
        reason: "The module's own resource. Finalizers are set by patching the object itself.",
    },
    Own {
        group: "operator.kyma-project.io",
        resources: &["gpumodules/status"],
        names: &[],
        verbs: &["patch"],
        reason: "What the operator reports.",
    },
    Own {
        group: "",
        resources: &["nodes"],
        names: &[],
        verbs: &["list", "patch", "watch"],
        reason: "Facts about the cluster, the label that keeps NVIDIA's operator off a node, and what a removal takes off: cordons of driver upgrades, labels and annotations of the stack.",
    },
    Own {
        group: "",
        resources: &["pods"],
        names: &[],
        verbs: &["list"],
        reason: "GPU work that another driver or a removal would interrupt; asked for per GPU node, only while one is wanted.",
    },
    Own {
        group: "",
        resources: &["configmaps"],
        names: &["shoot-info"],
        verbs: &["get"],
        reason: "Gardener's ConfigMap in kube-system with the maintenance window. No Role there: kustomize would move it into the manager's namespace.",
    },
    Own {
        group: "nvidia.com",
        resources: &["clusterpolicies", "nvidiadrivers"],
        names: &[],
        verbs: &["get", "list", "watch"],
        reason: "What NVIDIA's operator says, and stacks that someone else installed.",
    },
    Own {
        group: "nvidia.com",
        resources: &["gpuclusters"],
        names: &[],
        verbs: &["list"],
        reason: "An uninstall whose hooks hang may leave them out only where there is none.",
    },
    Own {
        group: "resource.nvidia.com",
        resources: &["computedomaincliques", "computedomains"],
        names: &[],
        verbs: &["list"],
        reason: "Before CRDs are deleted: whether there are objects of their kinds.",
    },
    Own {
        group: "nfd.k8s-sigs.io",
        resources: &["nodefeaturegroups", "nodefeaturerules"],
        names: &[],
        verbs: &["list"],
        reason: "As above.",
    },
    Own {
        group: "nfd.k8s-sigs.io",
        resources: &["nodefeatures"],
        names: &[],
        verbs: &["delete", "list"],
        reason: "As above; what Node Feature Discovery has left of them goes first.",
    },
    Own {
        group: "apps",
        resources: &["daemonsets"],
        names: &[],
        verbs: &["list", "watch"],
        reason: "What others run beside the release: device plugins, Node Feature Discovery.",
    },
    Own {
        group: "rbac.authorization.k8s.io",
        resources: &["clusterroles"],
        names: &["gpu-operator"],
        verbs: &["get"],
        reason: "A stack that someone else installed shows in who owns this ClusterRole.",
    },
    Own {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        names: &[],
        verbs: &["list", "watch"],
        reason: "Another GPU module shows in its CRD; NVIDIA's objects are watched once theirs are there.",
    },
    Own {
        group: "",
        resources: &["namespaces"],
        names: &["gpu-operator"],
        verbs: &["create", "delete", "get", "patch"],
        reason: "The namespace of the release.",
    },
    Own {
        group: "rbac.authorization.k8s.io",
        resources: &["rolebindings"],
        names: &["gpu-manager-release"],
        verbs: &["create", "delete", "get", "patch"],
        reason: "The manager's own rights in that namespace, which it binds once the namespace is there, and gives back at the end of a removal.",
    },
    Own {
        group: "rbac.authorization.k8s.io",
        resources: &["clusterroles"],
        names: &["gpu-manager-release"],
        verbs: &["bind"],
        reason: "Lets it bind this one role without holding it everywhere.",
    },
    Own {
        group: "node.k8s.io",
        resources: &["runtimeclasses"],
        names: &[],
        verbs: &["delete", "list"],
        reason: "A removal takes away those that NVIDIA's operator has made, where Kubernetes does not.",
    },
    Own {
        group: "events.k8s.io",
        resources: &["events"],
        names: &[],
        verbs: &["create", "patch"],
        reason: "Events about the cluster-scoped GpuModule land in the namespace default.",
    },
];

/// In the manager's namespace: Role `gpu-manager`.
pub const HOME: &[Own] = &[
    Own {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &[],
        verbs: &["create"],
        reason: "The Lease that keeps a second replica waiting; it is made with a POST, which names cannot limit.",
    },
    Own {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &["gpu-manager"],
        verbs: &["get", "patch"],
        reason: "Renewed and passed on.",
    },
];

/// In the namespace of the release, besides what the charts make: a part of ClusterRole `gpu-manager-release`.
pub const RELEASE: &[Own] = &[
    Own {
        group: "",
        resources: &["secrets"],
        names: &[],
        verbs: &["create", "delete", "get", "list", "update", "watch"],
        reason: "helm keeps each revision in a Secret; the operator watches them.",
    },
    Own {
        group: "",
        resources: &["pods"],
        names: &[],
        verbs: &["list", "watch"],
        reason: "Readiness is judged by the Pods of the stack.",
    },
    Own {
        group: "coordination.k8s.io",
        resources: &["leases"],
        names: &[],
        verbs: &["delete", "get"],
        reason: "Leases of NVIDIA's operator and of Node Feature Discovery, which an uninstall leaves.",
    },
    Own {
        group: "*",
        resources: &["*"],
        names: &[],
        verbs: &["list"],
        reason: "Whether others have put something, of whatever kind, into the namespace, before it is deleted.",
    },
    Own {
        group: "",
        resources: &["services"],
        names: &[],
        verbs: &["delete"],
        reason: "A removal takes away what NVIDIA's operator has made, where Kubernetes does not.",
    },
];
