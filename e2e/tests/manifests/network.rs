//! What the NetworkPolicies let through where everything else is denied.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use e2e::manifests::Flavour;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::files::{Files, MANIFESTS, pod};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Way to the API server",
        avoided: the_api_server_is_reached,
        ways_in: &[
            |files| ports(files, "allow-to-apiserver", 443, 80),
            |files| ports(files, "allow-to-apiserver", 6443, 6444),
            |files| without(files, "allow-to-apiserver"),
            |files| {
                policy(files, "allow-to-apiserver", |policy| {
                    policy["spec"]["egress"][0]["to"] = json!([{ "ipBlock": { "cidr": "10.0.0.0/8" } }]);
                });
            },
        ],
    },
    Trap {
        name: "Way to DNS",
        avoided: dns_is_reached,
        ways_in: &[
            |files| ports(files, "allow-to-dns", 8053, 53),
            |files| ports(files, "allow-to-dns", 53, 54),
            |files| without(files, "allow-to-dns"),
            |files| block(files, "/0/ipBlock/cidr", &json!("10.0.0.0/8")),
            |files| {
                block(
                    files,
                    "/0/ipBlock",
                    &json!({ "cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"] }),
                );
            },
            |files| block(files, "/1/ipBlock/cidr", &json!("fd00::/8")),
        ],
    },
    Trap {
        name: "Metrics for everybody",
        avoided: metrics_are_for_labelled_pods,
        ways_in: &[
            |files| {
                policy(files, "allow-metrics", |policy| {
                    policy["spec"]["ingress"][0]["from"] = json!([]);
                });
            },
            |files| {
                policy(files, "allow-metrics", |policy| {
                    policy["spec"]["ingress"][0]["from"][0]["podSelector"] = json!({});
                });
            },
            |files| ports(files, "allow-metrics", 0, 8081),
            |files| without(files, "allow-metrics"),
        ],
    },
    Trap {
        name: "Other ways",
        avoided: nothing_else_is_let_through,
        ways_in: &[
            |files| {
                policy(files, "allow-to-dns", |policy| {
                    policy["spec"]["egress"][0]["ports"] = json!([]);
                });
            },
            |files| {
                policy(files, "allow-to-apiserver", |policy| {
                    policy["spec"]["egress"] = json!([{}]);
                });
            },
            |files| {
                policy(files, "allow-to-apiserver", |policy| {
                    policy["spec"]["policyTypes"] = json!(["Egress", "Ingress"]);
                });
            },
        ],
    },
];

/// Changes the policy of a purpose.
fn policy(files: &mut Files, purpose: &str, change: impl Fn(&mut Value)) {
    files.each("NetworkPolicy", |policy| {
        if policy["metadata"]["labels"]["purpose"] == purpose {
            change(policy);
        }
    });
}

/// Changes the addresses of the way to DNS; the pointer begins at the list of peers.
fn block(files: &mut Files, pointer: &str, value: &Value) {
    policy(files, "allow-to-dns", |policy| {
        if let Some(at) = policy["spec"]["egress"][0]["to"].pointer_mut(pointer) {
            at.clone_from(value);
        }
    });
}

fn without(files: &mut Files, purpose: &str) {
    for flavour in MANIFESTS {
        files.edit(flavour, |all| {
            all.retain(|object| object["metadata"]["labels"]["purpose"] != purpose);
        });
    }
}

/// Puts another port in the place of one; of the only, named one where that is 0.
fn ports(files: &mut Files, purpose: &str, from: i32, to: i32) {
    policy(files, purpose, |policy| {
        for way in ["egress", "ingress"] {
            for rule in policy["spec"][way].as_array_mut().into_iter().flatten() {
                for port in rule["ports"].as_array_mut().into_iter().flatten() {
                    if port["port"] == from || from == 0 {
                        port["port"] = json!(to);
                    }
                }
            }
        }
    });
}

/// Whom a rule is about.
#[derive(Clone, Copy)]
enum Peer<'a> {
    /// Every address outside of the Pods' network, of the family that this range is all of.
    All(&'a str),
    /// One of these addresses, whichever.
    Any,
    /// A Pod, by the labels of its namespace and of itself.
    Pod(&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]),
}

/// Clusters are IPv4, IPv6, or both.
const FAMILIES: [Peer<'_>; 2] = [Peer::All("0.0.0.0/0"), Peer::All("::/0")];
const KUBE_SYSTEM: &[(&str, &str)] = &[("gardener.cloud/purpose", "kube-system")];
const COREDNS: Peer<'_> = Peer::Pod(KUBE_SYSTEM, &[("k8s-app", "kube-dns")]);
const NODE_LOCAL_DNS: Peer<'_> = Peer::Pod(KUBE_SYSTEM, &[("k8s-app", "node-local-dns")]);
const SCRAPER: Peer<'_> = Peer::Pod(&[], &[("networking.kyma-project.io/metrics-scraping", "allowed")]);
const STRANGER: Peer<'_> = Peer::Pod(&[("team", "a")], &[("app", "shop")]);

/// The policies of a manifest, as Kubernetes reads them, and the names of the manager's ports.
struct Wall {
    policies: Vec<NetworkPolicy>,
    ports: BTreeMap<String, i32>,
}

impl Wall {
    fn of(files: &Files, flavour: Flavour) -> Result<Self> {
        let all = files
            .objects(flavour)
            .into_iter()
            .filter(|object| object["kind"] == "NetworkPolicy");
        let policies = all.map(serde_json::from_value).collect::<Result<_, _>>()?;
        let declared = pod(files, flavour)["spec"]["containers"][0]["ports"].clone();
        let ports = declared.as_array().into_iter().flatten();
        let ports = ports.filter_map(|port| {
            let number = i32::try_from(port["containerPort"].as_i64()?).ok()?;
            Some((port["name"].as_str()?.to_owned(), number))
        });
        Ok(Self {
            policies,
            ports: ports.collect(),
        })
    }

    /// Whether the manager may open a connection, where everything is denied that no policy allows.
    fn lets_out(&self, to: Peer<'_>, protocol: &str, port: i32) -> bool {
        let rules = self.policies.iter().filter_map(|policy| policy.spec.as_ref());
        let rules = rules.filter(|spec| is_about(spec.policy_types.as_ref(), "Egress"));
        let mut rules = rules.flat_map(|spec| spec.egress.iter().flatten());
        rules.any(|rule| self.meets(rule.to.as_ref(), rule.ports.as_ref(), to, protocol, port))
    }

    /// Whether a connection to the manager is let in.
    fn lets_in(&self, from: Peer<'_>, protocol: &str, port: i32) -> bool {
        let rules = self.policies.iter().filter_map(|policy| policy.spec.as_ref());
        let rules = rules.filter(|spec| is_about(spec.policy_types.as_ref(), "Ingress"));
        let mut rules = rules.flat_map(|spec| spec.ingress.iter().flatten());
        rules.any(|rule| self.meets(rule.from.as_ref(), rule.ports.as_ref(), from, protocol, port))
    }

    /// Without peers a rule is about all of them, without ports about all ports.
    fn meets(
        &self,
        peers: Option<&Vec<NetworkPolicyPeer>>,
        ports: Option<&Vec<NetworkPolicyPort>>,
        peer: Peer<'_>,
        protocol: &str,
        port: i32,
    ) -> bool {
        let all = |list: Option<usize>| list.is_none_or(|length| length == 0);
        let peers_meet =
            all(peers.map(Vec::len)) || peers.into_iter().flatten().any(|found| is_peer(found, peer));
        let ports_meet = all(ports.map(Vec::len))
            || ports.into_iter().flatten().any(|found| {
                found.protocol.as_deref().unwrap_or("TCP") == protocol
                    && self.number(found.port.as_ref()) == Some(port)
            });
        peers_meet && ports_meet
    }

    fn number(&self, port: Option<&IntOrString>) -> Option<i32> {
        match port? {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => self.ports.get(name).copied(),
        }
    }
}

fn is_about(types: Option<&Vec<String>>, way: &str) -> bool {
    types.is_some_and(|types| types.iter().any(|found| found == way))
}

fn is_peer(found: &NetworkPolicyPeer, peer: Peer<'_>) -> bool {
    match peer {
        Peer::All(range) => found
            .ip_block
            .as_ref()
            .is_some_and(|block| block.cidr == range && block.except.as_ref().is_none_or(Vec::is_empty)),
        Peer::Any => found.ip_block.is_some(),
        Peer::Pod(of_namespace, of_pod) => {
            found.ip_block.is_none()
                && found
                    .namespace_selector
                    .as_ref()
                    .is_some_and(|selector| selects(selector, of_namespace))
                && found
                    .pod_selector
                    .as_ref()
                    .is_none_or(|selector| selects(selector, of_pod))
        }
    }
}

fn selects(selector: &LabelSelector, labels: &[(&str, &str)]) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
        && wanted
            .into_iter()
            .all(|(label, value)| labels.contains(&(label.as_str(), value.as_str())))
}

fn walls(files: &Files) -> Result<Vec<Wall>> {
    MANIFESTS
        .into_iter()
        .map(|flavour| Wall::of(files, flavour))
        .collect()
}

/// The address differs by cluster, and the port with it: 443 of Gardener's, 6443 elsewhere.
fn the_api_server_is_reached(files: &Files) -> Result<()> {
    for wall in walls(files)? {
        for port in [443, 6443] {
            for family in FAMILIES {
                ensure!(
                    wall.lets_out(family, "TCP", port),
                    "not everywhere on port {port}"
                );
            }
        }
    }
    Ok(())
}

fn dns_is_reached(files: &Files) -> Result<()> {
    for wall in walls(files)? {
        for protocol in ["UDP", "TCP"] {
            for family in FAMILIES {
                ensure!(
                    wall.lets_out(family, protocol, 53),
                    "not everywhere outside of the Pods' network"
                );
            }
            ensure!(wall.lets_out(COREDNS, protocol, 8053), "not Gardener's CoreDNS");
            ensure!(wall.lets_out(NODE_LOCAL_DNS, protocol, 53), "not node-local-dns");
        }
    }
    Ok(())
}

fn metrics_are_for_labelled_pods(files: &Files) -> Result<()> {
    for wall in walls(files)? {
        ensure!(wall.lets_in(SCRAPER, "TCP", 8080), "not for Kyma's telemetry");
        for port in [8080, 8081] {
            ensure!(!wall.lets_in(STRANGER, "TCP", port), "port {port} for everybody");
            ensure!(
                !wall.lets_in(Peer::Any, "TCP", port),
                "port {port} for other clusters"
            );
        }
        ensure!(!wall.lets_in(SCRAPER, "TCP", 8081), "the health port too");
    }
    Ok(())
}

fn nothing_else_is_let_through(files: &Files) -> Result<()> {
    for wall in walls(files)? {
        let types: BTreeSet<_> = wall
            .policies
            .iter()
            .filter_map(|policy| policy.spec.as_ref()?.policy_types.clone())
            .collect();
        ensure!(
            types == BTreeSet::from([vec!["Egress".to_owned()], vec!["Ingress".to_owned()]]),
            "{types:?}"
        );
        for (peer, protocol, port) in [
            (Peer::Any, "TCP", 80),
            (Peer::Any, "UDP", 443),
            (Peer::Any, "UDP", 123),
            (STRANGER, "TCP", 53),
            (STRANGER, "TCP", 8080),
            (COREDNS, "TCP", 9153),
        ] {
            ensure!(!wall.lets_out(peer, protocol, port), "{protocol} port {port}");
        }
    }
    Ok(())
}
