//! What the controller makes beside DaemonSets: RuntimeClasses, accounts, roles, ConfigMaps, Services.
//!
//! They hold no more than their names, owners and what admission needs; on the local cluster nobody
//! uses a right or reads a script. What counts is that they are there and go with their owner.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::change::Kind;
use super::names;
use super::operands::{OPERANDS, Operand};
use super::policy::{Setup, at, owner_reference, text};
use super::{driver, view};

/// An object to be applied.
pub type Object = (Kind, Value);

/// Whether ClusterPolicy wants the operand.
pub fn is_enabled(setup: &Setup<'_>, operand: &Operand) -> bool {
    setup.flag(&format!("/spec/{}/enabled", operand.part), operand.default)
}

/// Everything that ClusterPolicy owns apart from DaemonSets.
pub fn of_policy(setup: &Setup<'_>) -> Vec<Object> {
    let owner = owner_reference(Kind::ClusterPolicy, setup.policy);
    let mut objects = runtime_classes(setup, &owner);
    objects.push(service(names::OPERATOR_DEPLOYMENT, 8080, &owner));
    if setup.driver_enabled() && !setup.uses_nvidia_drivers() {
        objects.extend(account("nvidia-driver", true, &owner));
        objects.push(plain(Kind::ConfigMap, "nvidia-driver-startup-probe", &owner));
    }
    for operand in OPERANDS.iter().filter(|operand| is_enabled(setup, operand)) {
        objects.extend(account(operand.account_name(), operand.cluster_role, &owner));
        objects.extend(
            operand
                .config_maps
                .iter()
                .map(|name| plain(Kind::ConfigMap, name, &owner)),
        );
        objects.extend(
            operand
                .service_port
                .map(|port| service(operand.name, port, &owner)),
        );
    }
    objects
}

/// Everything that an NVIDIADriver owns apart from DaemonSets.
pub fn of_nvidia_driver(nvidia_driver: &DynamicObject, nodes: &[Node]) -> Vec<Object> {
    let name = nvidia_driver.name_any();
    let owner = owner_reference(Kind::NvidiaDriver, nvidia_driver);
    let driver_type = text(&nvidia_driver.data, "/spec/driverType");
    let mut systems: Vec<String> = nodes
        .iter()
        .filter(|node| driver::owned_by(node, &name))
        .filter_map(|node| driver::os_tag(node).ok())
        .collect();
    systems.sort();
    systems.dedup();
    let mut objects: Vec<Object> = systems
        .iter()
        .flat_map(|system| account(&driver::account_name(driver_type, &name, system), true, &owner))
        .collect();
    if !systems.is_empty() {
        objects.push(plain(Kind::ConfigMap, "nvidia-driver-startup-probe", &owner));
    }
    objects
}

fn runtime_classes(setup: &Setup<'_>, owner: &Value) -> Vec<Object> {
    if setup.flag("/spec/cdi/nriPluginEnabled", false) {
        return Vec::new();
    }
    let name = match text(at(&setup.policy.data, "/spec"), "/operator/runtimeClass") {
        "" => "nvidia",
        name => name,
    };
    let with_cdi: &[&str] = if setup.flag("/spec/cdi/enabled", true) {
        &["nvidia-cdi", "nvidia-legacy"]
    } else {
        &[]
    };
    [name]
        .iter()
        .chain(with_cdi)
        .map(|name| {
            let (kind, mut object) = plain(Kind::RuntimeClass, name, owner);
            object["handler"] = json!(name);
            object["metadata"]["labels"] = json!({"app.kubernetes.io/component": "gpu-operator"});
            (kind, object)
        })
        .collect()
}

/// A ServiceAccount with its Role and, if asked for, its ClusterRole, both bound to it.
fn account(name: &str, cluster_role: bool, owner: &Value) -> Vec<Object> {
    let mut objects = vec![
        plain(Kind::ServiceAccount, name, owner),
        plain(Kind::Role, name, owner),
    ];
    let mut bindings = vec![(Kind::Role, Kind::RoleBinding)];
    if cluster_role {
        objects.push(plain(Kind::ClusterRole, name, owner));
        bindings.push((Kind::ClusterRole, Kind::ClusterRoleBinding));
    }
    for (role, binding) in bindings {
        let (kind, mut object) = plain(binding, name, owner);
        object["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role.name(), "name": name});
        object["subjects"] = json!([{"kind": "ServiceAccount", "name": name, "namespace": names::NAMESPACE}]);
        objects.push((kind, object));
    }
    objects
}

fn service(name: &str, port: u16, owner: &Value) -> Object {
    let (kind, mut object) = plain(Kind::Service, name, owner);
    object["spec"] = json!({"selector": {"app": name}, "ports": [{"name": "metrics", "port": port}]});
    (kind, object)
}

fn plain(kind: Kind, name: &str, owner: &Value) -> Object {
    let mut object = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"name": name, "ownerReferences": owner},
    });
    if kind.is_namespaced() {
        object["metadata"]["namespace"] = json!(names::NAMESPACE);
    }
    (kind, object)
}

/// Whether the DaemonSet in the cluster was written with this content.
pub fn is_up_to_date(view: &view::View, daemon_set: &Value) -> bool {
    let wanted = daemon_set["metadata"]["annotations"][names::LAST_APPLIED_HASH].as_str();
    view.daemon_set(text(daemon_set, "/metadata/name"))
        .is_some_and(|found| {
            let owner = found.owner_references().first().map(|owner| owner.uid.as_str());
            view::annotation(found, names::LAST_APPLIED_HASH) == wanted
                && owner == daemon_set["metadata"]["ownerReferences"][0]["uid"].as_str()
        })
}
