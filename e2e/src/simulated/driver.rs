//! Driver DaemonSets, in both layouts.
//!
//! ClusterPolicy's layout names a DaemonSet after each node's own system and takes the image tag's
//! system from the first GPU node; an NVIDIADriver makes one pool per system and kernel, and gets
//! both right. A tag is `<version>-<kernel>-<os><version id>` with precompiled drivers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::change::Kind;
use super::daemon_set::{Container, Template};
use super::hash::driver_app_name;
use super::names;
use super::policy::{Setup, at, owner_reference, string_map, text};
use super::view::{has_gpu_label, label};

/// Kernel without what a name cannot hold and without the architecture, as the controller does it.
fn sanitized(kernel: &str) -> String {
    ["x86_64_64k", "x86_64", "aarch64_64k", "aarch64"]
        .iter()
        .fold(kernel.to_owned(), |kernel, architecture| {
            kernel.replace(architecture, "")
        })
        .replace('_', ".")
        .trim_end_matches('.')
        .to_lowercase()
}

/// `gardenlinux0`, `ubuntu24.04`: system and version of a node, from NFD's labels.
///
/// # Errors
/// The controller's sentence about the label that is missing.
pub fn os_tag(node: &Node) -> Result<String, String> {
    let id = label(node, names::OS_ID)
        .ok_or_else(|| format!("unable to retrieve OS name from label {}", names::OS_ID))?;
    let version = label(node, names::OS_VERSION)
        .ok_or_else(|| format!("unable to retrieve OS version from label {}", names::OS_VERSION))?;
    let version = match id {
        "ol" | "rocky" | "rhel" => version.split('.').next().unwrap_or(version),
        _ => version,
    };
    Ok(format!("{id}{version}"))
}

/// Each kernel of the GPU nodes with its system.
///
/// # Errors
/// The controller's sentence about two systems with one kernel, or a node without NFD's label.
pub fn kernels(nodes: &[Node]) -> Result<BTreeMap<String, String>, String> {
    let mut kernels = BTreeMap::new();
    for node in nodes.iter().filter(|node| has_gpu_label(node)) {
        let kernel = label(node, names::KERNEL)
            .ok_or_else(|| format!("Label.Node \"{}\" not found", names::KERNEL))?;
        let os = format!(
            "{}{}",
            label(node, names::OS_ID).unwrap_or_default(),
            label(node, names::OS_VERSION).unwrap_or_default()
        );
        if kernels
            .insert(kernel.to_owned(), os.clone())
            .is_some_and(|other| other != os)
        {
            return Err(format!(
                "different OS versions found for the same kernel version {kernel}, unsupported configuration"
            ));
        }
    }
    Ok(kernels)
}

/// The driver DaemonSets of ClusterPolicy's layout.
///
/// `first_os` is the system of the first GPU node, `kernels` what [`kernels`] found.
pub fn of_policy(setup: &Setup<'_>, first_os: &str, kernels: &BTreeMap<String, String>) -> Vec<Value> {
    let precompiled = setup.precompiled();
    let one = |kernel: Option<(&String, &String)>| {
        let driver = setup.part("driver");
        let name = kernel.map_or_else(
            || names::POLICY_DRIVER.to_owned(),
            |(kernel, os)| format!("{}-{}-{os}", names::POLICY_DRIVER, sanitized(kernel)),
        );
        let labels = BTreeMap::from([
            ("app".to_owned(), names::POLICY_DRIVER.to_owned()),
            (names::COMPONENT.to_owned(), names::DRIVER_COMPONENT.to_owned()),
            ("nvidia.com/precompiled".to_owned(), precompiled.to_string()),
        ]);
        let selector = kernel.map(|(kernel, _)| (names::KERNEL.to_owned(), kernel.clone()));
        let deploy = (names::DEPLOY_DRIVER.to_owned(), "true".to_owned());
        let mut template = Template::of_policy(setup, name, labels);
        template.annotations = BTreeMap::from([("openshift.io/scc".to_owned(), "nvidia-driver".to_owned())]);
        template.selector.retain(|key, _| key == "app");
        template.node_selector = [deploy].into_iter().chain(selector).collect();
        "nvidia-driver".clone_into(&mut template.service_account);
        finish(
            template,
            driver,
            &driver_image(driver, kernel.map(|(kernel, _)| kernel.as_str()), first_os),
            &setup.image(at(driver, "/manager"), "DRIVER_MANAGER_IMAGE"),
            &["nvidia-driver"],
        )
    };
    if precompiled {
        kernels.iter().map(|kernel| one(Some(kernel))).collect()
    } else {
        vec![one(None)]
    }
}

/// The driver DaemonSets of one NVIDIADriver, one per pool of the nodes that it owns.
pub fn of_nvidia_driver(setup: &Setup<'_>, driver: &DynamicObject, nodes: &[Node]) -> Vec<Value> {
    let name = driver.name_any();
    let spec = at(&driver.data, "/spec");
    let precompiled = at(spec, "/usePrecompiled").as_bool().unwrap_or_default();
    let own = [
        (names::GPU_PRESENT.to_owned(), "true".to_owned()),
        (names::DRIVER_OWNER.to_owned(), name.clone()),
        (names::DEPLOY_DRIVER.to_owned(), "true".to_owned()),
    ];

    let mut pools = BTreeMap::new();
    for node in nodes.iter().filter(|node| owned_by(node, &name)) {
        let (Ok(os_tag), Some(id), Some(version)) = (
            os_tag(node),
            label(node, names::OS_ID),
            label(node, names::OS_VERSION),
        ) else {
            continue;
        };
        let kernel = if precompiled {
            let Some(kernel) = label(node, names::KERNEL) else {
                continue;
            };
            Some(kernel.to_owned())
        } else {
            None
        };
        pools
            .entry((os_tag, kernel))
            .or_insert_with(|| (id.to_owned(), version.to_owned()));
    }

    pools
        .into_iter()
        .map(|((os_tag, kernel), (id, version))| {
            let driver_type = text(spec, "/driverType");
            let app = driver_app_name(
                driver_type,
                &os_tag,
                &driver.uid().unwrap_or_default(),
                kernel.as_deref(),
            );
            let account = account_name(driver_type, &name, &os_tag);
            let mut labels = BTreeMap::from([
                ("app".to_owned(), app.clone()),
                (names::COMPONENT.to_owned(), names::DRIVER_COMPONENT.to_owned()),
                ("nvidia.com/node.os-version".to_owned(), os_tag.clone()),
                ("nvidia.com/precompiled".to_owned(), precompiled.to_string()),
            ]);
            if let Some(kernel) = &kernel {
                labels.insert(
                    "nvidia.com/precompiled.kernel-version".to_owned(),
                    sanitized(kernel),
                );
            }
            let reserved = |key: &str| key == "app" || key.starts_with("app.kubernetes.io/");
            labels.extend(
                string_map(spec, "/labels")
                    .into_iter()
                    .filter(|(key, _)| !reserved(key)),
            );

            let image = driver_image(spec, kernel.as_deref(), &os_tag);
            let system = [
                (names::OS_ID.to_owned(), id),
                (names::OS_VERSION.to_owned(), version),
            ];
            let kernel = kernel.map(|kernel| (names::KERNEL.to_owned(), kernel));
            let mut node_selector = string_map(spec, "/nodeSelector");
            node_selector.extend(own.iter().cloned().chain(system).chain(kernel));

            let mut tolerations = vec![gpu_toleration()];
            tolerations.extend(at(spec, "/tolerations").as_array().into_iter().flatten().cloned());
            let template = Template {
                name: app.clone(),
                owner: owner_reference(Kind::NvidiaDriver, driver),
                object_labels: BTreeMap::from([(
                    "nvidia.com/gpu-operator.state".to_owned(),
                    "state-driver".to_owned(),
                )]),
                labels,
                selector: BTreeMap::from([("app".to_owned(), app)]),
                annotations: [("openshift.io/scc".to_owned(), account.clone())]
                    .into_iter()
                    .chain(string_map(spec, "/annotations"))
                    .collect(),
                node_selector,
                tolerations: Value::Array(tolerations),
                priority_class: match text(spec, "/priorityClassName") {
                    "" => "system-node-critical".to_owned(),
                    class => class.to_owned(),
                },
                service_account: account,
                ..Template::default()
            };
            let manager = setup.image(at(spec, "/manager"), "DRIVER_MANAGER_IMAGE");
            finish(
                template,
                spec,
                &image,
                &manager,
                &["nvidia-driver", "nvidia-vgpu-manager"],
            )
        })
        .collect()
}

/// ServiceAccount and roles of an NVIDIADriver's Pods on one system.
pub fn account_name(driver_type: &str, driver: &str, os_tag: &str) -> String {
    format!("nvidia-{driver_type}-driver-{driver}-{os_tag}")
}

/// Whether the NVIDIADriver of this name manages the node's driver.
pub fn owned_by(node: &Node, driver: &str) -> bool {
    has_gpu_label(node) && label(node, names::DRIVER_OWNER) == Some(driver)
}

fn gpu_toleration() -> Value {
    json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
}

fn driver_image(spec: &Value, kernel: Option<&str>, os_tag: &str) -> String {
    let (repository, image, version) = (
        text(spec, "/repository"),
        text(spec, "/image"),
        text(spec, "/version"),
    );
    if version.starts_with("sha256:") {
        return format!("{repository}/{image}@{version}");
    }
    let kernel = kernel.map(|kernel| format!("-{kernel}")).unwrap_or_default();
    format!("{repository}/{image}:{version}{kernel}-{os_tag}")
}

/// What driver DaemonSets of both layouts have in common.
fn finish(mut template: Template, spec: &Value, image: &str, manager: &str, apart_from: &[&str]) -> Value {
    template.on_delete = true;
    template.pod_flags = vec![("hostPID", true)];
    template.pod_annotations = BTreeMap::from([(
        "kubectl.kubernetes.io/default-container".to_owned(),
        "nvidia-driver-ctr".to_owned(),
    )]);
    template.affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchExpressions": [
            {"key": names::COMPONENT, "operator": "In", "values": apart_from},
        ]},
        "topologyKey": "kubernetes.io/hostname",
    }]}});
    template.pull_secrets(at(spec, "/imagePullSecrets"));
    template.pull_secrets(at(spec, "/manager/imagePullSecrets"));
    template.init.push(Container::new(
        "k8s-driver-manager",
        manager,
        at(spec, "/manager"),
    ));
    let mut container = Container::new("nvidia-driver-ctr", image, spec);
    container.environment("KERNEL_MODULE_TYPE", text(spec, "/kernelModuleType"));
    template.container = container;
    template.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_lose_what_a_name_cannot_hold() {
        assert_eq!(sanitized("6.12.47-cloud-amd64"), "6.12.47-cloud-amd64");
        assert_eq!(sanitized("5.14.0-427.el9_4.x86_64"), "5.14.0-427.el9.4");
    }

    fn node(kernel: &str, id: &str, version: Option<&str>) -> Node {
        let mut labels = json!({(names::GPU_PRESENT): "true", (names::KERNEL): kernel, (names::OS_ID): id});
        if let Some(version) = version {
            labels[names::OS_VERSION] = json!(version);
        }
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap()
    }

    #[test]
    fn a_missing_version_is_named() {
        assert_eq!(
            os_tag(&node("6", "gardenlinux", None)),
            Err(format!(
                "unable to retrieve OS version from label {}",
                names::OS_VERSION
            ))
        );
        assert_eq!(os_tag(&node("6", "rhel", Some("9.4"))).as_deref(), Ok("rhel9"));
    }

    #[test]
    fn two_systems_on_one_kernel_are_refused() {
        let nodes = [
            node("6", "gardenlinux", Some("0")),
            node("6", "ubuntu", Some("24.04")),
        ];
        assert!(kernels(&nodes).unwrap_err().contains("same kernel version 6"));
    }

    #[test]
    fn tags_name_version_kernel_and_system() {
        let spec = json!({"repository": "r", "image": "driver", "version": "590"});
        assert_eq!(
            driver_image(&spec, Some("6.1"), "gardenlinux0"),
            "r/driver:590-6.1-gardenlinux0"
        );
        assert_eq!(
            driver_image(&spec, None, "gardenlinux0"),
            "r/driver:590-gardenlinux0"
        );
    }
}
