//! Driver DaemonSets in NVIDIADriver's layout: one per system and kernel of the nodes that it owns.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{driver_image, finish, os_tag, sanitized};
use crate::simulated::change::Kind;
use crate::simulated::daemon_set::Template;
use crate::simulated::hash::driver_app_name;
use crate::simulated::names;
use crate::simulated::policy::{Setup, at, owner_reference, string_map, text};
use crate::simulated::view::{has_gpu_label, label};

/// Nodes that get the same driver image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    os_tag: String,
    os_id: String,
    os_version: String,
    /// Set with precompiled drivers.
    kernel: Option<String>,
}

impl Pool {
    /// The node's pool; none while NFD has not said what is needed.
    fn of(node: &Node, precompiled: bool) -> Option<Self> {
        let kernel = label(node, names::KERNEL).map(str::to_owned);
        if precompiled && kernel.is_none() {
            return None;
        }
        Some(Self {
            os_tag: os_tag(node).ok()?,
            os_id: label(node, names::OS_ID)?.to_owned(),
            os_version: label(node, names::OS_VERSION)?.to_owned(),
            kernel: kernel.filter(|_| precompiled),
        })
    }

    fn node_selector(&self) -> impl Iterator<Item = (String, String)> {
        let kernel = self
            .kernel
            .clone()
            .map(|kernel| (names::KERNEL.to_owned(), kernel));
        [
            (names::OS_ID.to_owned(), self.os_id.clone()),
            (names::OS_VERSION.to_owned(), self.os_version.clone()),
        ]
        .into_iter()
        .chain(kernel)
    }
}

/// The driver DaemonSets of one NVIDIADriver.
pub fn of_nvidia_driver(setup: &Setup<'_>, driver: &DynamicObject, nodes: &[Node]) -> Vec<Value> {
    let name = driver.name_any();
    let precompiled = at(&driver.data, "/spec/usePrecompiled")
        .as_bool()
        .unwrap_or_default();
    let owned = nodes.iter().filter(|node| owned_by(node, &name));
    let mut pools: Vec<Pool> = owned.filter_map(|node| Pool::of(node, precompiled)).collect();
    pools.sort();
    pools.dedup();
    pools.iter().map(|pool| of_pool(setup, driver, pool)).collect()
}

fn of_pool(setup: &Setup<'_>, driver: &DynamicObject, pool: &Pool) -> Value {
    let spec = at(&driver.data, "/spec");
    let name = driver.name_any();
    let driver_type = text(spec, "/driverType");
    let uid = driver.uid().unwrap_or_default();
    let app = driver_app_name(driver_type, &pool.os_tag, &uid, pool.kernel.as_deref());
    let account = account_name(driver_type, &name, &pool.os_tag);

    let mut node_selector = string_map(spec, "/nodeSelector");
    node_selector.extend([
        (names::GPU_PRESENT.to_owned(), "true".to_owned()),
        (names::DRIVER_OWNER.to_owned(), name),
        (names::DEPLOY_DRIVER.to_owned(), "true".to_owned()),
    ]);
    node_selector.extend(pool.node_selector());
    let mut tolerations =
        vec![json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})];
    tolerations.extend(at(spec, "/tolerations").as_array().into_iter().flatten().cloned());
    let mut annotations = string_map(spec, "/annotations");
    annotations.insert("openshift.io/scc".to_owned(), account.clone());

    let template = Template {
        name: app.clone(),
        owner: owner_reference(Kind::NvidiaDriver, driver),
        object_labels: BTreeMap::from([(
            "nvidia.com/gpu-operator.state".to_owned(),
            "state-driver".to_owned(),
        )]),
        labels: labels(spec, &app, pool),
        selector: BTreeMap::from([("app".to_owned(), app)]),
        annotations,
        node_selector,
        tolerations: Value::Array(tolerations),
        priority_class: match text(spec, "/priorityClassName") {
            "" => "system-node-critical".to_owned(),
            class => class.to_owned(),
        },
        service_account: account,
        ..Template::default()
    };
    let image = driver_image(spec, pool.kernel.as_deref(), &pool.os_tag);
    let manager = setup.image(at(spec, "/manager"), "DRIVER_MANAGER_IMAGE");
    finish(
        template,
        spec,
        &image,
        &manager,
        &["nvidia-driver", "nvidia-vgpu-manager"],
    )
}

/// Labels of DaemonSet and Pods. A user's own may not replace those that select the Pods.
fn labels(spec: &Value, app: &str, pool: &Pool) -> BTreeMap<String, String> {
    let precompiled = pool.kernel.is_some();
    let mut labels = string_map(spec, "/labels");
    labels.retain(|key, _| key != "app" && !key.starts_with("app.kubernetes.io/"));
    labels.extend([
        ("app".to_owned(), app.to_owned()),
        (names::COMPONENT.to_owned(), names::DRIVER_COMPONENT.to_owned()),
        ("nvidia.com/node.os-version".to_owned(), pool.os_tag.clone()),
        ("nvidia.com/precompiled".to_owned(), precompiled.to_string()),
    ]);
    if let Some(kernel) = &pool.kernel {
        labels.insert(
            "nvidia.com/precompiled.kernel-version".to_owned(),
            sanitized(kernel),
        );
    }
    labels
}

/// ServiceAccount and roles of an NVIDIADriver's Pods on one system.
pub fn account_name(driver_type: &str, driver: &str, os_tag: &str) -> String {
    format!("nvidia-{driver_type}-driver-{driver}-{os_tag}")
}

/// Whether the NVIDIADriver of this name manages the node's driver.
pub fn owned_by(node: &Node, driver: &str) -> bool {
    has_gpu_label(node) && label(node, names::DRIVER_OWNER) == Some(driver)
}
