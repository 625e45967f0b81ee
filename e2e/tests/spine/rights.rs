//! Are all rights needed? The requests of a whole life are compared with the rules: one that no request needs is found.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{AuditEvent, POOL_LABEL};
use e2e::rbac::{CLUSTER, HOME, Own, RELEASE};
use e2e::tools::repository_root;
use gpu_manager::api::{ConditionType, RELEASE_NAMESPACE, State};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lab::objects::Objects;
use crate::lab::{Lab, STEP};

const USER: &str = "system:serviceaccount:gpu-manager:gpu-manager";

/// What this life does not come to, each with its reason. Those that it comes to after all are found, too.
const RARE: &[(&str, &str, &str)] = &[
    // No request has this verb; the API server asks for it when the manager binds the role.
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    // A GpuModule that a newer version of the module wrote, which this one cannot read.
    ("operator.kyma-project.io", "gpumodules", "get"),
    // A removal that leaves the namespace, since others have something in it.
    ("coordination.k8s.io", "leases", "delete"),
    ("rbac.authorization.k8s.io", "rolebindings", "delete"),
    ("rbac.authorization.k8s.io", "rolebindings", "get"),
    // A removal of the CRDs that meets NodeFeatures whose writers left them.
    ("nfd.k8s-sigs.io", "nodefeatures", "delete"),
];

/// A verb on a resource.
type Use = (String, String, String);

/// True where the rule's use, which may be about every kind, covers what was seen.
fn is_one(seen: &Use, rule: &Use) -> bool {
    let covers = |rule: &str, seen: &str| rule == "*" || rule == seen;
    covers(&rule.0, &seen.0) && covers(&rule.1, &seen.1) && rule.2 == seen.2
}

/// The manager's requests, each with namespace and name.
struct Seen(Vec<(Use, String, String)>);

impl Seen {
    fn of(events: &[AuditEvent]) -> Self {
        let mut seen = vec![];
        for event in events.iter().filter(|event| event.user.username == USER) {
            let Some(object) = &event.object_ref else { continue };
            let mut resource = object.resource.clone();
            if !object.subresource.is_empty() {
                resource = format!("{resource}/{}", object.subresource);
            }
            // An apply that makes the object needs both.
            let created = event
                .response_status
                .as_ref()
                .is_some_and(|answer| answer.code == 201);
            let verbs = [
                Some(event.verb.as_str()),
                (created && event.verb == "patch").then_some("create"),
            ];
            for verb in verbs.into_iter().flatten() {
                let used = (object.api_group.clone(), resource.clone(), verb.to_owned());
                seen.push((used, object.namespace.clone(), object.name.clone()));
            }
        }
        Self(seen)
    }

    fn has(&self, used: &Use, namespace: Option<&str>, names: &[&str]) -> bool {
        self.0.iter().any(|(seen, at, name)| {
            is_one(seen, used)
                && namespace.is_none_or(|namespace| namespace == at)
                && (names.is_empty() || names.contains(&name.as_str()))
        })
    }

    /// The verbs of each kind of which an object was made, in one namespace or in none.
    fn made(&self, namespace: &str) -> BTreeMap<(&str, &str), BTreeSet<&str>> {
        let mut verbs: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for ((group, resource, verb), at, _) in &self.0 {
            // A watch of all namespaces counts for each.
            if at == namespace || at.is_empty() {
                verbs
                    .entry((group.as_str(), resource.as_str()))
                    .or_default()
                    .insert(verb);
            }
        }
        verbs.retain(|_, verbs| verbs.contains("create"));
        verbs
    }
}

fn unseen(seen: &Seen, rules: &[Own], namespace: Option<&str>) -> Vec<Use> {
    let uses = rules.iter().flat_map(|rule| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().map(move |verb| {
                (
                    (rule.group.to_owned(), (*resource).to_owned(), (*verb).to_owned()),
                    rule.names,
                )
            })
        })
    });
    uses.filter(|(used, names)| !seen.has(used, namespace, names))
        .map(|(used, _)| used)
        .collect()
}

/// The values that make the charts render more kinds, without those that are the module's.
fn options() -> Result<Value> {
    let path = repository_root().join("hack/deploy/rbac/values/options.yaml");
    let mut values: Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
    let operator = values.as_object_mut().context("no map")?;
    operator.remove("operator");
    Ok(values)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_of_the_operators_own_is_used_in_one_life() -> Result<()> {
    let lab = Lab::start().await?;
    lab.cluster.serve_pod_monitors().await?;
    let start = lab.cluster.audit().mark()?;
    let mut manager = lab.manager().await?;
    lab.apply(json!({ "values": options()? })).await?;
    lab.until(State::Ready).await?;

    // Something is put right.
    let objects = Objects::of(&lab).await?;
    let snapshot = objects.snapshot().await?;
    objects
        .delete(&objects.find("ServiceAccount", "gpu-operator")?)
        .await?;
    objects.until_restored(&lab, &snapshot).await?;
    // A driver change waits for the maintenance window, then for running work; a pool is left out.
    let change = |policy: &str| json!({ "driver": { "branch": 590 }, "upgrade": { "policy": policy } });
    lab.apply(change("Window")).await?;
    lab.until_status("a driver change that waits for the window", |status| {
        crate::lab::reason(status, ConditionType::DriverChangePending) != "NoDriverChange"
    })
    .await?;
    lab.apply(change("WhenIdle")).await?;
    lab.until_drivers_run(|pod| pod.image.contains(":590-")).await?;
    lab.until(State::Ready).await?;
    lab.cluster
        .kubectl(&[
            "label",
            "node",
            "gpu-1",
            &format!("{POOL_LABEL}=other"),
            "--overwrite",
        ])
        .await?;
    let mut without = change("WhenIdle");
    without["nodes"] = json!({ "exclude": ["other"] });
    without["deletion"] = json!({ "crds": "Delete" });
    lab.apply(without).await?;
    lab.until_status("one GPU node that takes part", |status| {
        status.gpu_nodes.summary == "1/1"
    })
    .await?;
    lab.delete().await?;
    manager.process.signal(Signal::TERM)?;
    manager.process.wait(STEP).await?;

    let events = lab.cluster.audit().since(start)?;
    // In the namespace of the release its rights come after the namespace, and go with it.
    let refused = events.iter().filter(|event| {
        let object = event.object_ref.as_ref();
        let elsewhere = object.is_none_or(|object| object.namespace != RELEASE_NAMESPACE);
        let code = event.response_status.as_ref().map(|answer| answer.code);
        event.user.username == USER && elsewhere && code == Some(403)
    });
    let refused: Vec<_> = refused
        .map(|event| format!("{} {}", event.verb, event.request_uri))
        .collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");

    let seen = Seen::of(&events);
    let mut unneeded: Vec<Use> = vec![];
    for (rules, namespace) in [
        (CLUSTER, None),
        (HOME, Some("gpu-manager")),
        (RELEASE, Some(RELEASE_NAMESPACE)),
    ] {
        unneeded.extend(unseen(&seen, rules, namespace));
    }
    let rare: BTreeSet<Use> = RARE
        .iter()
        .map(|(group, resource, verb)| ((*group).to_owned(), (*resource).to_owned(), (*verb).to_owned()))
        .collect();
    let unneeded: BTreeSet<Use> = unneeded.into_iter().collect();
    ensure!(
        unneeded == rare,
        "no request needs {unneeded:#?}\nknown as rare are {rare:#?}"
    );

    let all = ["create", "delete", "get", "list", "patch", "watch"];
    let own = |group: &str, resource: &str| {
        let mut rules = [CLUSTER, HOME, RELEASE].into_iter().flatten();
        rules.any(|rule| {
            rule.group == group && rule.resources.contains(&resource) && rule.verbs.contains(&"create")
        })
    };
    for namespace in [RELEASE_NAMESPACE, ""] {
        for ((group, resource), verbs) in seen.made(namespace) {
            if own(group, resource) || resource == "customresourcedefinitions" {
                continue;
            }
            let missing: Vec<_> = all.iter().filter(|verb| !verbs.contains(**verb)).collect();
            ensure!(
                missing.is_empty(),
                "objects of the chart: nobody needs {missing:?} on {resource} of {group:?}"
            );
        }
    }
    Ok(())
}
