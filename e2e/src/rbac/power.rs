//! What could be done with the rights that hold in the whole cluster, by whoever has the operator's token: what the roles
//! allow, whatever the operator does with it.
//!
//! Every right to write needs its words here, so that a chart that grants more fails the generation until a person has looked
//! at what that means.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::RuleSet;

/// What some rights can do.
#[derive(Clone, Copy, Debug)]
pub struct Power {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Plural names.
    pub resources: &'static [&'static str],
    /// What is done with them.
    pub verbs: &'static [&'static str],
    /// What that can do, in one or more sentences.
    pub can: &'static str,
}

/// Verbs that change nothing, and show what is there.
const READING: [&str; 3] = ["get", "list", "watch"];

/// Rights to read that do more than that: a kubelet takes a WebSocket, and with it a command, for a `get`.
const MORE_THAN_READING: [(&str, &str, &str); 1] = [("", "nodes/proxy", "get")];

/// Rights with which something can be done, of all that are bound in the whole cluster. What is limited to names counts as
/// well, under the resource's name.
pub fn powerful(rights: &RuleSet) -> RuleSet {
    rights.filter(|group, resource, verb| {
        !READING.contains(&verb) || MORE_THAN_READING.contains(&(group, resource, verb))
    })
}

/// Refuses a right that nobody has said anything about, and words about a right that is not held.
pub fn check(rights: &RuleSet) -> Result<()> {
    let mut told = RuleSet::default();
    for power in POWERS {
        for resource in power.resources {
            told.allow(power.group, resource, &[], power.verbs);
        }
    }
    let held = powerful(&rights.without_names());
    let (untold, stale) = (held.without(&told), told.without(&held));
    ensure!(
        untold.rules().is_empty() && stale.rules().is_empty(),
        "e2e/src/rbac/power.rs must say what can be done with the rights in the whole cluster: nothing is said about {}, and \
         not held are {}",
        in_words(&untold),
        in_words(&stale)
    );
    Ok(())
}

fn in_words(rights: &RuleSet) -> String {
    let rules = rights.rules().into_iter().map(|rule| {
        let resources = rule.resources.unwrap_or_default().join(", ");
        let groups = rule.api_groups.unwrap_or_default().join(", ");
        format!("{} on {resources} of {groups:?}", rule.verbs.join(", "))
    });
    let rules: Vec<String> = rules.collect();
    if rules.is_empty() {
        "none".to_owned()
    } else {
        rules.join("; ")
    }
}

/// The rows of the table.
pub fn rows(out: &mut String) -> Result<()> {
    out.push_str("| API group | resources | verbs | what can be done |\n| --- | --- | --- | --- |\n");
    for power in POWERS {
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            if power.group.is_empty() {
                "core"
            } else {
                power.group
            },
            power.resources.join(", "),
            power.verbs.join(", "),
            power.can
        )?;
    }
    Ok(())
}

const fn power(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    can: &'static str,
) -> Power {
    Power {
        group,
        resources,
        verbs,
        can,
    }
}

/// The gravest first.
pub const POWERS: &[Power] = &[
    power(
        "",
        &["pods"],
        &["patch"],
        "Change the image of any Pod, and so run code as its ServiceAccount, in every namespace.",
    ),
    power(
        "",
        &["nodes/proxy"],
        &["get"],
        "Reach the API of every kubelet: the logs of all Pods, and commands in their containers, since a kubelet takes a WebSocket for a `get`.",
    ),
    power(
        "admissionregistration.k8s.io",
        &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        &["create", "delete", "update"],
        "Take away every admission policy, the operator's own among them. Make one that refuses everything to everybody, administrators and the control plane among them: then only policies and bindings can still be written, which the API server exempts.",
    ),
    power(
        "rbac.authorization.k8s.io",
        &["clusterrolebindings", "clusterroles"],
        &["create", "delete", "patch", "update"],
        "Give away rights that it holds itself, no more. The admission policy leaves the charts' names, and their ServiceAccounts as those who get them.",
    ),
    power(
        "rbac.authorization.k8s.io",
        &["clusterroles"],
        &["bind"],
        "Only `gpu-manager-release`: bind it to others.",
    ),
    power(
        "rbac.authorization.k8s.io",
        &["rolebindings"],
        &["create", "delete", "patch"],
        "Only those named `gpu-manager-release`. The admission policy leaves the namespace `gpu-operator`.",
    ),
    power(
        "",
        &["namespaces"],
        &["create", "delete", "patch", "update"],
        "Make and delete `gpu-operator` alone. Change the labels of every namespace: take Pod Security off it, or put it under somebody else's NetworkPolicies and admission rules.",
    ),
    power(
        "",
        &["nodes"],
        &["patch", "update"],
        "Cordon any node, taint it so that its Pods are evicted, or label it so that other Pods come to it.",
    ),
    power(
        "",
        &["nodes/status"],
        &["patch", "update"],
        "Report any node as broken, so that its Pods are evicted, as full or as larger than it is; name another address of its kubelet, to which the API server then sends logs and commands.",
    ),
    power(
        "",
        &["pods/eviction"],
        &["create"],
        "End any Pod, as far as PodDisruptionBudgets let it go.",
    ),
    power(
        "coordination.k8s.io",
        &["leases"],
        &["create", "update"],
        "Take any leader election, that of kube-controller-manager, kube-scheduler or another operator among them, which then does nothing; keep a dead node alive in `kube-node-lease`, or make a living one look dead.",
    ),
    power(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &["create", "delete", "patch", "update"],
        "Delete the charts' CRDs alone, with all objects of their kinds. Make any other, and change any, and so the schema of its objects and the webhook that converts them; the admission policy leaves the charts'.",
    ),
    power(
        "scheduling.k8s.io",
        &["priorityclasses"],
        &["create"],
        "Make a class above those of all users, which pushes their Pods out, or one that all Pods without a class get.",
    ),
    power(
        "node.k8s.io",
        &["runtimeclasses"],
        &["create", "delete", "update"],
        "Decide by which runtime of the node the Pods that name a RuntimeClass are started, or that they cannot start.",
    ),
    power(
        "resource.k8s.io",
        &["deviceclasses", "resourceclaimtemplates", "resourceslices"],
        &["create", "delete", "update"],
        "Decide which devices Pods with resource claims get, of all drivers and in every namespace, also with administrative access where a namespace allows that.",
    ),
    power(
        "",
        &["events"],
        &["create", "delete"],
        "Invent Events, and remove those that tell what has happened, in every namespace.",
    ),
    power(
        "events.k8s.io",
        &["events"],
        &["create", "patch"],
        "The same, without removing.",
    ),
    power(
        "nvidia.com",
        &["clusterpolicies", "gpuclusters", "nvidiadrivers"],
        &["create", "delete", "deletecollection", "patch", "update"],
        "Have NVIDIA's operator run images of one's choice, privileged, on every GPU node.",
    ),
    power(
        "nvidia.com",
        &[
            "clusterpolicies/finalizers",
            "clusterpolicies/status",
            "gpuclusters/finalizers",
            "gpuclusters/status",
            "nvidiadrivers/finalizers",
            "nvidiadrivers/status",
        ],
        &["create", "delete", "deletecollection", "patch", "update"],
        "Report of NVIDIA's stack what is not so.",
    ),
    power(
        "nfd.k8s-sigs.io",
        &["nodefeaturerules"],
        &["create", "delete", "patch"],
        "Have Node Feature Discovery label every node, or give it extended resources.",
    ),
    power(
        "nfd.k8s-sigs.io",
        &["nodefeatures"],
        &["delete"],
        "Have nodes lose the labels that Node Feature Discovery gives them, until its workers look again.",
    ),
    power(
        "nfd.k8s-sigs.io",
        &["nodefeaturegroups/status"],
        &["patch", "update"],
        "Report other members of a group of nodes.",
    ),
    power(
        "operator.kyma-project.io",
        &["gpumodules"],
        &["patch"],
        "All that an editor of the GpuModule can do.",
    ),
    power(
        "operator.kyma-project.io",
        &["gpumodules/status"],
        &["patch"],
        "Report of the module what is not so.",
    ),
    power(
        "resource.nvidia.com",
        &["computedomaincliques"],
        &["create", "patch", "update"],
        "Where NVIDIA's DRA driver runs, which the module never starts: change which nodes share memory over NVLink.",
    ),
    power(
        "resource.nvidia.com",
        &["computedomains", "computedomains/status"],
        &["patch", "update"],
        "The same.",
    ),
    power(
        "topology.node.k8s.io",
        &["noderesourcetopologies"],
        &["delete"],
        "Where a topology updater runs, which the module never starts: take away what it says, until it says it again.",
    ),
    power(
        "security.openshift.io",
        &["securitycontextconstraints"],
        &["create", "delete", "patch", "update", "use"],
        "Nothing on Gardener; on OpenShift any right of Pods.",
    ),
];
