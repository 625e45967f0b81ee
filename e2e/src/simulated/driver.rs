//! Driver DaemonSets, in both layouts.
//!
//! ClusterPolicy's layout names a DaemonSet after each node's own system and takes the image tag's
//! system from the first GPU node; an NVIDIADriver makes one pool per system and kernel, and gets
//! both right. A tag is `<version>-<kernel>-<os><version id>` with precompiled drivers.

mod in_nvidia_driver;
mod in_policy;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::daemon_set::{Container, Template};
use super::names;
use super::policy::{at, text};
use super::view::{has_gpu_label, label};

pub use in_nvidia_driver::{account_name, of_nvidia_driver, owned_by};
pub use in_policy::of_policy;

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
