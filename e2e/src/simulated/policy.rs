//! Reading ClusterPolicy and NVIDIADriver as NVIDIA's controller reads them.
//!
//! Both are kept as plain JSON: only the fields that change what the controller does are looked at,
//! with the controller's own defaults for absent ones.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::change::Kind;
use super::names;
use super::view::{View, is_ready, label};

/// What the controller does and what it watches over, found in one look at the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The controller's Deployment, which is available.
    pub deployment: &'a Deployment,
    /// The ClusterPolicy that is served.
    pub policy: &'a DynamicObject,
    /// Whether the controller is of the line 26.7 or newer.
    pub since_26_7: bool,
}

impl<'a> Setup<'a> {
    /// The setup, if the controller runs, can start its watches and has a ClusterPolicy to serve.
    pub fn find(view: &'a View) -> Option<Self> {
        let deployment = view.available_deployment(names::OPERATOR_DEPLOYMENT)?;
        let since_26_7 = line(view, deployment) >= (26, 7);
        if since_26_7 && !view.crds.contains(names::GPU_CLUSTERS_CRD) {
            return None;
        }
        let policy = view
            .cluster_policies
            .iter()
            .filter(|policy| policy.metadata.deletion_timestamp.is_none())
            .min_by_key(|policy| {
                (
                    policy.metadata.creation_timestamp.as_ref().map(|time| time.0),
                    policy.name_any(),
                )
            })?;
        Some(Self {
            deployment,
            policy,
            since_26_7,
        })
    }

    /// Whether drivers come from NVIDIADrivers and not from ClusterPolicy.
    pub fn uses_nvidia_drivers(&self) -> bool {
        self.flag("/spec/driver/useNvidiaDriverCRD", false)
    }

    /// Whether ClusterPolicy wants drivers at all.
    pub fn driver_enabled(&self) -> bool {
        self.flag("/spec/driver/enabled", true)
    }

    /// Whether the image's driver is chosen by kernel.
    pub fn precompiled(&self) -> bool {
        self.flag("/spec/driver/usePrecompiled", false)
    }

    /// A boolean of ClusterPolicy.
    pub fn flag(&self, pointer: &str, default: bool) -> bool {
        self.policy
            .data
            .pointer(pointer)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }

    /// A part of ClusterPolicy's spec, such as `toolkit`; null if absent.
    pub fn part(&self, name: &str) -> &'a Value {
        at(&self.policy.data, &format!("/spec/{name}"))
    }

    /// The image of a part, or the one that the controller's Deployment names for it.
    pub fn image(&self, part: &Value, variable: &str) -> String {
        image(part).unwrap_or_else(|| self.environment(variable))
    }

    fn environment(&self, variable: &str) -> String {
        let containers = self
            .deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref())
            .map_or(&[][..], |spec| &spec.containers);
        containers
            .iter()
            .flat_map(|container| container.env.iter().flatten())
            .find(|entry| entry.name == variable)
            .and_then(|entry| entry.value.clone())
            .unwrap_or_default()
    }
}

/// `major.minor` of the controller, from its image's tag or else from the chart's version label.
///
/// During an update of the Deployment the old Pod leads until it is gone, so it is still the old controller that sees
/// what came with the new chart.
fn line(view: &View, deployment: &Deployment) -> (u32, u32) {
    let image = |pod: &PodSpec| pod.containers.first()?.image.clone();
    let leader = view
        .pods
        .iter()
        .filter(|pod| label(*pod, "app") == Some(names::OPERATOR_DEPLOYMENT) && is_ready(pod))
        .min_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    let image = match leader {
        Some(pod) => pod.spec.as_ref().and_then(image),
        None => deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref())
            .and_then(image),
    };
    let tag = image
        .as_deref()
        .and_then(|image| image.rsplit_once(':'))
        .map(|(_, tag)| tag);
    [tag, label(deployment, "app.kubernetes.io/version")]
        .into_iter()
        .flatten()
        .find_map(|version| {
            let mut parts = version.trim_start_matches('v').split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
        .unwrap_or_default()
}

/// The value at a JSON pointer, null if there is none.
pub fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// A string at a JSON pointer, empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).as_str().unwrap_or_default()
}

/// A map of strings at a JSON pointer.
pub fn string_map(value: &Value, pointer: &str) -> BTreeMap<String, String> {
    serde_json::from_value(at(value, pointer).clone()).unwrap_or_default()
}

/// `repository/image:version` of a part; with a digest for a version, joined by `@`.
fn image(part: &Value) -> Option<String> {
    let (repository, image, version) = (
        text(part, "/repository"),
        text(part, "/image"),
        text(part, "/version"),
    );
    match (repository, version) {
        ("", "") => (!image.is_empty()).then(|| image.to_owned()),
        (repository, digest) if digest.starts_with("sha256:") => {
            Some(format!("{repository}/{image}@{digest}"))
        }
        (repository, version) => Some(format!("{repository}/{image}:{version}")),
    }
}

/// The owner reference that lets garbage collection remove what the controller made.
pub fn owner_reference(kind: Kind, owner: &DynamicObject) -> Value {
    json!([{
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "name": owner.name_any(),
        "uid": owner.uid().unwrap_or_default(),
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// How driver changes are made, with the controller's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradePolicy {
    /// Whether the controller restarts driver Pods by itself.
    pub auto_upgrade: bool,
    /// Nodes changed at the same time; 0 means all.
    pub max_parallel: usize,
    /// Nodes that may be unavailable: a number or a percentage.
    pub max_unavailable: String,
}

impl UpgradePolicy {
    /// Reads `spec.upgradePolicy` of an NVIDIADriver; absent, changes are made by the controller.
    pub fn of_driver(driver: &DynamicObject) -> Self {
        Self::read(at(&driver.data, "/spec/upgradePolicy"), true)
    }

    /// Reads `spec.driver.upgradePolicy` of a ClusterPolicy; absent, nothing is done by itself.
    pub fn of_policy(setup: &Setup<'_>) -> Self {
        let mut policy = Self::read(at(setup.part("driver"), "/upgradePolicy"), false);
        policy.auto_upgrade &= setup.driver_enabled();
        policy
    }

    fn read(value: &Value, default: bool) -> Self {
        let unavailable = match at(value, "/maxUnavailable") {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => "25%".to_owned(),
        };
        Self {
            auto_upgrade: at(value, "/autoUpgrade").as_bool().unwrap_or(default),
            max_parallel: at(value, "/maxParallelUpgrades")
                .as_u64()
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(1),
            max_unavailable: unavailable,
        }
    }

    /// Nodes of `total` that may be unavailable; percentages are rounded up.
    pub fn unavailable_of(&self, total: usize) -> usize {
        match self.max_unavailable.strip_suffix('%') {
            Some(percent) => (total * percent.parse::<usize>().unwrap_or(25)).div_ceil(100),
            None => self.max_unavailable.parse().unwrap_or(total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_joined_as_the_controller_does() {
        let part = json!({"repository": "nvcr.io/nvidia", "image": "driver", "version": "590"});
        assert_eq!(image(&part).as_deref(), Some("nvcr.io/nvidia/driver:590"));
        let part = json!({"repository": "nvcr.io/nvidia", "image": "driver", "version": "sha256:ab"});
        assert_eq!(image(&part).as_deref(), Some("nvcr.io/nvidia/driver@sha256:ab"));
        assert_eq!(
            image(&json!({"image": "whole/path:1"})).as_deref(),
            Some("whole/path:1")
        );
        assert_eq!(image(&json!({})), None);
    }

    #[test]
    fn a_share_of_the_nodes_is_rounded_up() {
        let policy = UpgradePolicy::read(&json!({}), true);
        assert_eq!(policy.unavailable_of(2), 1);
        assert_eq!(policy.unavailable_of(5), 2);
        assert_eq!(
            UpgradePolicy::read(&json!({"maxUnavailable": 3}), true).unavailable_of(9),
            3
        );
    }

    #[test]
    fn the_line_comes_from_the_image_or_the_label() {
        let deployment = |image: &str| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"labels": {"app.kubernetes.io/version": "v26.3.3"}},
                "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "x", "image": image}]}}},
            }))
            .unwrap()
        };
        assert_eq!(
            line(
                &View::default(),
                &deployment("nvcr.io/nvidia/gpu-operator:v26.7.0")
            ),
            (26, 7)
        );
        assert_eq!(
            line(
                &View::default(),
                &deployment("nvcr.io/nvidia/gpu-operator@sha256:00")
            ),
            (26, 3)
        );
    }
}
