//! The union of rules, and what one rendered object asks for.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use serde_json::json;

use crate::tools::repository_root;

use super::{CLUSTER, HOME, RELEASE, ReleaseRights, RuleSet, power, rights, yaml};

/// One line per rule: group/resources names verbs.
fn lines(set: &RuleSet) -> Vec<String> {
    let line = |rule: PolicyRule| {
        let list = |field: Option<Vec<String>>| field.unwrap_or_default().join(",");
        format!(
            "{}/{} [{}] {}",
            list(rule.api_groups),
            list(rule.resources),
            list(rule.resource_names),
            rule.verbs.join(",")
        )
    };
    set.rules().into_iter().map(line).collect()
}

fn rule(value: serde_json::Value) -> PolicyRule {
    serde_json::from_value(value).unwrap()
}

#[test]
fn union_joins_verbs_of_one_resource_and_resources_of_equal_verbs() {
    let mut set = RuleSet::default();
    set.allow("apps", "deployments", &[], &["get"]);
    set.allow("apps", "deployments", &[], &["create", "get"]);
    set.allow("apps", "daemonsets", &[], &["get", "create"]);
    set.allow("", "pods", &[], &["get"]);
    assert_eq!(
        lines(&set),
        ["/pods [] get", "apps/daemonsets,deployments [] create,get"]
    );
}

#[test]
fn a_name_is_dropped_where_all_names_are_allowed() {
    let mut set = RuleSet::default();
    set.allow("coordination.k8s.io", "leases", &["one"], &["get", "update"]);
    set.allow("coordination.k8s.io", "leases", &[], &["create", "get"]);
    assert_eq!(
        lines(&set),
        [
            "coordination.k8s.io/leases [] create,get",
            "coordination.k8s.io/leases [one] update"
        ]
    );
}

#[test]
fn names_of_one_resource_share_a_rule() {
    let mut set = RuleSet::default();
    set.allow("", "nodes", &["b"], &["get"]);
    set.allow("", "nodes", &["a", "c"], &["get"]);
    set.allow("", "pods", &["a"], &["get"]);
    assert_eq!(lines(&set), ["/nodes [a,b,c] get", "/pods [a] get"]);
}

#[test]
fn without_keeps_only_what_the_other_set_lacks() {
    let mut granted = RuleSet::default();
    granted.allow("", "pods", &[], &["get", "list"]);
    granted.allow("", "nodes", &["a"], &["get"]);
    granted.allow("", "secrets", &[], &["get"]);
    let mut used = RuleSet::default();
    used.allow("", "pods", &[], &["get"]);
    used.allow("", "nodes", &["a", "b"], &["get", "list"]);
    // A right on one name does not give the right on all.
    used.allow("", "secrets", &["a"], &["get"]);
    assert_eq!(
        lines(&granted.without(&used)),
        ["/pods [] list", "/secrets [] get"]
    );
}

#[test]
fn a_rule_gives_each_pair_of_group_and_resource() {
    let mut set = RuleSet::default();
    set.grant(&rule(json!({
        "apiGroups": ["a", "b"], "resources": ["x", "y"], "verbs": ["get"]
    })))
    .unwrap();
    assert_eq!(lines(&set), ["a/x,y [] get", "b/x,y [] get"]);
}

#[test]
fn wildcards_and_urls_are_refused() {
    for bad in [
        json!({"apiGroups": ["*"], "resources": ["x"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*/scale"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["x"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
    ] {
        let refused = RuleSet::default().grant(&rule(bad.clone()));
        assert!(refused.is_err(), "accepted {bad}");
    }
}

const CHART: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-delete}
---
# a template that rendered nothing
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: plain}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: cr}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wide}
rules:
  - {apiGroups: [""], resources: [nodes], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow}
rules:
  - {apiGroups: [""], resources: [pods, secrets], verbs: [get]}
"#;

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec: {group: example.com, scope: Cluster, names: {kind: Widget, plural: widgets}}
";

#[test]
fn objects_hooks_and_roles_land_in_their_scope() {
    let mut rights = ReleaseRights::new();
    rights.add_crds(CRD).unwrap();
    rights.add_render("1.0.0", CHART).unwrap();
    assert_eq!(
        lines(&rights.cluster.crds),
        ["apiextensions.k8s.io/customresourcedefinitions [widgets.example.com] create,delete,get,patch"]
    );
    assert_eq!(
        lines(&rights.cluster.made),
        [
            "example.com/widgets [] create,delete,get,list,patch,watch",
            "rbac.authorization.k8s.io/clusterroles [] create,delete,get,list,patch,watch",
        ]
    );
    assert_eq!(lines(&rights.cluster.granted), ["/nodes [] patch"]);
    assert_eq!(
        lines(&rights.namespaced.made),
        [
            "apps/deployments [] create,delete,get,list,patch,watch",
            "batch/jobs [] create,delete,get,list,patch,watch",
            "rbac.authorization.k8s.io/roles [] create,delete,get,list,patch,watch",
        ]
    );
    assert_eq!(lines(&rights.namespaced.granted), ["/pods,secrets [] get"]);
    // Secrets the operator reads itself, Pods it only lists and watches.
    assert_eq!(lines(&rights.namespaced.only_granted()), ["/pods [] get"]);
}

#[test]
fn an_unknown_kind_is_an_error_that_names_it() {
    let refused = ReleaseRights::new().add_render("1.0.0", CHART).unwrap_err();
    assert!(format!("{refused:#}").contains("kind Widget"), "{refused:#}");
}

#[test]
fn the_yaml_is_roles_with_each_right_once() {
    let mut rights = ReleaseRights::new();
    rights.add_crds(CRD).unwrap();
    rights.add_render("1.0.0", CHART).unwrap();
    let yaml = yaml::release(&rights).unwrap();
    let roles: Vec<ClusterRole> = serde_saphyr::from_multiple(&yaml).unwrap();
    let names: Vec<_> = roles.iter().map(|role| role.metadata.name.as_deref()).collect();
    assert_eq!(
        names,
        [Some("gpu-manager-release-cluster"), Some("gpu-manager-release")]
    );
    // Granted by the chart and the operator's own: printed once.
    assert_eq!(yaml.matches("\"secrets\"").count(), 1, "{yaml}");
    assert_eq!(yaml, yaml::release(&rights).unwrap());
}

#[test]
fn the_policy_allows_the_names_that_the_charts_make() {
    let mut rights = ReleaseRights::new();
    rights.add_crds(CRD).unwrap();
    rights.add_render("1.0.0", CHART).unwrap();
    let policy = yaml::admission(&rights);
    assert!(
        policy.contains("\"['wide']\"") && policy.contains("\"['widgets.example.com']\""),
        "{policy}"
    );
    assert!(!policy.contains('@'), "{policy}");
}

/// The rights that the words are about.
fn told() -> RuleSet {
    let mut told = RuleSet::default();
    for words in power::POWERS {
        for resource in words.resources {
            told.allow(words.group, resource, &[], words.verbs);
        }
    }
    told
}

#[test]
fn every_right_to_write_in_the_whole_cluster_needs_words() {
    let refused = |group: &str, resource: &str, names: &[&str], verb: &str| {
        let mut more = told();
        more.allow(group, resource, names, &[verb]);
        power::check(&more).err().map(|error| error.to_string())
    };
    assert_eq!(power::check(&told()).map_err(|error| error.to_string()), Ok(()));
    assert_eq!(refused("", "secrets", &[], "list"), None);
    for (group, resource, names, verb) in [
        ("", "secrets", &[][..], "create"),
        // Another verb on what is told about.
        ("", "pods", &[][..], "delete"),
        ("", "pods/exec", &[][..], "create"),
        // A name makes a right smaller, not harmless.
        ("apps", "deployments", &["coredns"][..], "patch"),
        ("", "serviceaccounts", &[][..], "impersonate"),
    ] {
        let refused = refused(group, resource, names, verb).unwrap_or_default();
        assert!(
            refused.contains(&format!("{verb} on {resource} of {group:?}")),
            "{refused}"
        );
    }
    let mut less = told().filter(|_, resource, _| resource != "leases");
    assert!(power::check(&less).unwrap_err().to_string().contains("leases"));
    less.allow("coordination.k8s.io", "leases", &[], &["create", "update"]);
    power::check(&less).unwrap();
}

#[test]
fn every_right_to_write_in_the_roles_that_ship_has_words() {
    let folder = repository_root().join("hack/deploy/rbac");
    let mut rights = RuleSet::default();
    for (file, name) in [
        ("manager.yaml", "gpu-manager"),
        ("release.yaml", "gpu-manager-release-cluster"),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let roles: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        // The first one is bound in the whole cluster.
        let role: ClusterRole = serde_json::from_value(roles[0].clone()).unwrap();
        assert_eq!(role.metadata.name.as_deref(), Some(name));
        role.rules.iter().flatten().for_each(|rule| rights.add(rule));
    }
    power::check(&rights).unwrap();
    let document = std::fs::read_to_string(repository_root().join("docs/contributor/rbac.md")).unwrap();
    for words in power::POWERS {
        assert!(document.contains(words.can), "{words:?}");
    }
}

#[test]
fn a_right_to_read_may_be_a_power() {
    let proxies = told().filter(|_, resource, _| resource == "nodes/proxy");
    assert_eq!(lines(&proxies), ["/nodes/proxy [] get"]);
    assert_eq!(power::powerful(&proxies), proxies);
}

#[test]
fn no_rule_of_the_operators_own_repeats_another() {
    for rules in [CLUSTER, HOME, RELEASE] {
        for (index, rule) in rules.iter().enumerate() {
            let others = rules.iter().enumerate().filter(|(other, _)| *other != index);
            let others: Vec<_> = others.map(|(_, rule)| *rule).collect();
            assert_eq!(rule.rights().without(&rights(&others)), rule.rights(), "{rule:?}");
            assert!(rule.reason.ends_with('.'), "{rule:?}");
        }
    }
}
