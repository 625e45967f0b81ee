//! The part of Node Feature Discovery: labels about a node's kernel, system and hardware.
//!
//! A node is labelled only while an NFD worker runs on it and an NFD master is available, be it the release's or one that the
//! cluster has. Labels stay when NFD goes, as on a real cluster; only the post-delete prune Job takes them away.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::Value;

use super::view::{View, hardware_gpus, is_ready, label, node_of};
use super::{gfd, names};

/// Brings the labels of all nodes up to date, where NFD can see them.
pub fn label_nodes(view: &View, nodes: &mut [Node]) {
    let others_master = of_others(view).any(|pod| label(pod, names::NFD_ROLE) == Some("master"));
    if view.available_deployment(names::NFD_MASTER).is_none() && !others_master {
        return;
    }
    let version_id = version_id_rule(view);
    for node in nodes.iter_mut().filter(|node| has_worker(view, &node.name_any())) {
        let mut labels = discover(node, version_id.as_deref());
        labels.extend(gfd::labels(view, node));
        publish(node, labels);
    }
}

/// Takes everything that NFD owns from all nodes.
pub fn prune(nodes: &mut [Node]) {
    for node in nodes {
        publish(node, BTreeMap::new());
    }
}

/// Ready Pods of an NFD that the cluster has beside the release.
fn of_others(view: &View) -> impl Iterator<Item = &Pod> {
    let pods = view.nfd_pods.iter();
    pods.filter(|pod| {
        pod.namespace().as_deref() != Some(names::NAMESPACE)
            && is_ready(pod)
            && pod.metadata.deletion_timestamp.is_none()
    })
}

fn has_worker(view: &View, node: &str) -> bool {
    let others_worker = of_others(view)
        .any(|pod| node_of(pod) == Some(node) && label(pod, names::NFD_ROLE) == Some("worker"));
    others_worker
        || view.pods.iter().any(|pod| {
            node_of(pod) == Some(node)
                && is_ready(pod)
                && pod.metadata.deletion_timestamp.is_none()
                && pod
                    .owner_references()
                    .iter()
                    .any(|owner| owner.name == names::NFD_WORKER)
        })
}

fn discover(node: &Node, version_id_by_rule: Option<&str>) -> BTreeMap<String, String> {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kernel = info.map(|info| info.kernel_version.clone()).unwrap_or_default();
    let (id, version_id) = os_release(info.map_or("", |info| info.os_image.as_str()));
    let version_id = version_id.or_else(|| {
        (id == "gardenlinux")
            .then(|| version_id_by_rule.map(str::to_owned))
            .flatten()
    });

    let mut labels = BTreeMap::from([(names::KERNEL.to_owned(), kernel), (names::OS_ID.to_owned(), id)]);
    if let Some(version_id) = version_id {
        labels.insert(names::OS_VERSION.to_owned(), version_id);
    }
    if hardware_gpus(node) > 0 {
        labels.insert(names::PCI_PRESENT.to_owned(), "true".to_owned());
    }
    labels
}

/// `ID` and `VERSION_ID` of os-release, from the name that a kubelet reports.
fn os_release(os_image: &str) -> (String, Option<String>) {
    if os_image.starts_with("Garden Linux") {
        return ("gardenlinux".to_owned(), None);
    }
    let mut words = os_image.split_whitespace();
    let id = words.next().unwrap_or("linux").to_lowercase();
    let version = words
        .next()
        .map(|version| version.splitn(3, '.').take(2).collect::<Vec<_>>().join("."));
    (id, version)
}

/// Sets exactly these labels of NFD's, and remembers them as NFD's on the node.
fn publish(node: &mut Node, labels: BTreeMap<String, String>) {
    let owned = node
        .annotations()
        .get(names::NFD_OWNED)
        .cloned()
        .unwrap_or_default();
    for key in owned.split(',').filter(|key| !key.is_empty()) {
        node.labels_mut().remove(&full_key(key));
    }
    if labels.is_empty() {
        node.annotations_mut().remove(names::NFD_OWNED);
        return;
    }
    let list: Vec<&str> = labels
        .keys()
        .map(|key| key.strip_prefix(names::NFD_PREFIX).unwrap_or(key))
        .collect();
    node.annotations_mut()
        .insert(names::NFD_OWNED.to_owned(), list.join(","));
    node.labels_mut().extend(labels);
}

fn full_key(key: &str) -> String {
    if key.contains('/') {
        key.to_owned()
    } else {
        format!("{}{key}", names::NFD_PREFIX)
    }
}

/// The `VERSION_ID` that a rule gives to Garden Linux, from the worker's configuration or a
/// `NodeFeatureRule`.
fn version_id_rule(view: &View) -> Option<String> {
    let worker_conf = view
        .config_maps
        .iter()
        .find(|config_map| config_map.name_any() == names::NFD_WORKER_CONF)
        .and_then(|config_map| config_map.data.as_ref()?.get(names::NFD_WORKER_CONF_KEY))
        .and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    let in_conf = worker_conf
        .iter()
        .filter_map(|conf| conf.pointer("/sources/custom"));
    let in_rules = view
        .node_feature_rules
        .iter()
        .filter_map(|rule| rule.data.pointer("/spec/rules"));
    in_conf
        .chain(in_rules)
        .filter_map(Value::as_array)
        .flatten()
        .find_map(version_id_of)
}

/// The `VERSION_ID` of one rule, if it is about nodes whose os-release has `GARDENLINUX_VERSION`.
fn version_id_of(rule: &Value) -> Option<String> {
    let about_garden_linux = rule.pointer("/matchFeatures")?.as_array()?.iter().any(|term| {
        term.pointer("/feature").and_then(Value::as_str) == Some("system.osrelease")
            && term
                .pointer("/matchExpressions/GARDENLINUX_VERSION/op")
                .and_then(Value::as_str)
                == Some("Exists")
    });
    if !about_garden_linux {
        return None;
    }
    let short = names::OS_VERSION
        .strip_prefix(names::NFD_PREFIX)
        .unwrap_or(names::OS_VERSION);
    if let Some(labels) = rule.pointer("/labels").and_then(Value::as_object) {
        let value = labels.get(names::OS_VERSION).or_else(|| labels.get(short))?;
        return value.as_str().map(str::to_owned);
    }
    // The template prints `<key>=<value>` lines; its only part that varies here is the value.
    let template = rule.pointer("/labelsTemplate")?.as_str()?;
    let value = template.split(&format!("{short}=")).nth(1)?;
    let end = value
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(value.len());
    Some(value[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_system_is_read_from_the_kubelets_name() {
        assert_eq!(
            os_release("Garden Linux 1877.3"),
            ("gardenlinux".to_owned(), None)
        );
        assert_eq!(
            os_release("Ubuntu 24.04.1 LTS"),
            ("ubuntu".to_owned(), Some("24.04".to_owned()))
        );
        assert_eq!(
            os_release("Ubuntu 24.04"),
            ("ubuntu".to_owned(), Some("24.04".to_owned()))
        );
    }

    #[test]
    fn a_version_id_comes_from_a_template_or_from_labels() {
        let on = json!([{"feature": "system.osrelease",
                         "matchExpressions": {"GARDENLINUX_VERSION": {"op": "Exists"}}}]);
        let template = "{{ range .system.osrelease }}feature.node.kubernetes.io/system-os_release.VERSION_ID=0\n{{ end }}";
        assert_eq!(
            version_id_of(&json!({"labelsTemplate": template, "matchFeatures": on})).as_deref(),
            Some("0")
        );
        let labels = json!({"labels": {(names::OS_VERSION): "0"}, "matchFeatures": on});
        assert_eq!(version_id_of(&labels).as_deref(), Some("0"));
        let other = json!([{"feature": "system.osrelease",
                            "matchExpressions": {"ID": {"op": "Exists"}}}]);
        assert_eq!(
            version_id_of(&json!({"labelsTemplate": template, "matchFeatures": other})),
            None
        );
    }

    #[test]
    fn an_nfd_beside_the_release_labels_the_nodes_that_its_workers_run_on() {
        let pod = |namespace: &str, role: &str, ready: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": role, "namespace": namespace, "labels": {"role": role}},
                "spec": {"nodeName": "a", "containers": []},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap()
        };
        let labelled = |pods: Vec<Pod>| {
            let node = |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let mut nodes: Vec<Node> = vec![node("a"), node("b")];
            let view = View {
                nfd_pods: pods,
                ..View::default()
            };
            label_nodes(&view, &mut nodes);
            let has = |node: &&Node| node.labels().contains_key(names::OS_ID);
            nodes
                .iter()
                .filter(has)
                .map(ResourceExt::name_any)
                .collect::<Vec<_>>()
        };
        let (master, worker) = (pod("nfd", "master", "True"), pod("nfd", "worker", "True"));
        assert_eq!(labelled(vec![master.clone(), worker.clone()]), ["a"]);
        assert!(labelled(vec![worker]).is_empty());
        assert!(labelled(vec![master.clone(), pod("nfd", "worker", "False")]).is_empty());
        assert!(labelled(vec![master, pod(names::NAMESPACE, "worker", "True")]).is_empty());
    }

    #[test]
    fn labels_that_are_no_longer_found_go_and_others_stay() {
        let mut node: Node = serde_json::from_value(json!({"metadata": {"name": "a",
            "labels": {(names::PCI_PRESENT): "true", "mine": "1"},
            "annotations": {(names::NFD_OWNED): "pci-10de.present"}}}))
        .unwrap();
        publish(
            &mut node,
            BTreeMap::from([(names::OS_ID.to_owned(), "gardenlinux".to_owned())]),
        );
        assert_eq!(
            node.labels(),
            &BTreeMap::from([
                (names::OS_ID.to_owned(), "gardenlinux".to_owned()),
                ("mine".to_owned(), "1".to_owned())
            ])
        );
        assert_eq!(node.annotations()[names::NFD_OWNED], "system-os_release.ID");
        prune(std::slice::from_mut(&mut node));
        assert_eq!(
            node.labels(),
            &BTreeMap::from([("mine".to_owned(), "1".to_owned())])
        );
        assert!(node.annotations().is_empty());
    }
}
