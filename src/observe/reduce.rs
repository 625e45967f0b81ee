//! Reduces objects to facts. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::{DynamicObject, PartialObjectMeta};
use semver::Version;
use serde_json::Value;

use crate::api::{
    ANNOTATION_FORMER_LABELS, ANNOTATION_SPEC_DIGEST, ANNOTATION_SPEC_GENERATION, HELM_RELEASE_NAME,
    HELM_RELEASE_NAMESPACE, LABEL_BY, LABEL_CHART, LABEL_DRIVER, LABEL_DRIVER_UPGRADES, LABEL_FINGERPRINT,
    LABEL_LAYOUT, LABEL_NFD, LABEL_REVISION, NodeFeatureDiscovery, revision_secret,
};
use crate::catalogue::DriverLayout;
use crate::desired::DriverUpgrades;
use crate::facts::{CrdFacts, DriverFacts, HelmOwner, PolicyFacts, Revision, told};
use crate::helm::RevisionStatus;

/// Label by which charts name themselves and their version.
const LABEL_HELM_CHART: &str = "helm.sh/chart";

mod daemon_set;
mod namespace;
mod node;
mod pod;

pub use daemon_set::daemon_set;
pub use namespace::{departure, surrounding};
pub use node::{is_leaving, node, operands};
pub use pod::{OPERAND_PODS, SlimPod, operand_pod};

/// A revision from the labels that Helm puts on its Secret. Helm itself goes by the Secret's name, so a copy under another one, as a backup
/// may be, is none.
pub fn revision(secret: &PartialObjectMeta<Secret>) -> Option<Revision> {
    let changed = last_written(&secret.metadata);
    let label = |name: &str| secret.labels().get(name);
    let number = label("version")?.parse().ok()?;
    if secret.name_any() != revision_secret(number) {
        return None;
    }
    Some(Revision {
        number,
        uid: secret.uid().unwrap_or_default(),
        status: RevisionStatus::from_label(label("status")?),
        created: secret
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| told(time.0)),
        changed,
        fingerprint: label(LABEL_FINGERPRINT).cloned(),
        by: label(LABEL_BY).cloned(),
        meant: label(LABEL_REVISION).and_then(|number| number.parse().ok()),
        chart: label(LABEL_CHART).and_then(|version| version.parse().ok()),
        node_feature_discovery: label(LABEL_NFD).and_then(|whose| NodeFeatureDiscovery::from_label(whose)),
        layout: label(LABEL_LAYOUT).and_then(|layout| DriverLayout::from_label(layout)),
        driver: label(LABEL_DRIVER).and_then(|driver| driver.parse().ok()),
        driver_upgrades: label(LABEL_DRIVER_UPGRADES)
            .and_then(|upgrades| DriverUpgrades::from_label(upgrades)),
    })
}

/// When an object was last written, as far as the API server notes it.
fn last_written(metadata: &ObjectMeta) -> Timestamp {
    let written = metadata
        .managed_fields
        .iter()
        .flatten()
        .filter_map(|entry| entry.time.as_ref());
    let created = metadata.creation_timestamp.as_ref();
    written
        .chain(created)
        .map(|time| told(time.0))
        .max()
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A ClusterPolicy.
pub fn policy(object: &DynamicObject) -> PolicyFacts {
    let (state, error) = judgement(&object.data);
    PolicyFacts {
        name: object.name_any(),
        owner: owner(&object.metadata),
        chart: object
            .labels()
            .get(LABEL_HELM_CHART)
            .and_then(|chart| chart_version(chart)),
        drivers_enabled: object.data["spec"]["driver"]["enabled"] != false,
        state,
        error,
    }
}

/// `26.3.3` of `gpu-operator-v26.3.3`.
fn chart_version(label: &str) -> Option<Version> {
    let version = label.strip_prefix("gpu-operator-")?;
    version.trim_start_matches('v').parse().ok()
}

/// An NVIDIADriver.
pub fn driver(object: &DynamicObject) -> DriverFacts {
    let (state, error) = judgement(&object.data);
    DriverFacts {
        name: object.name_any(),
        owner: owner(&object.metadata),
        state,
        error,
    }
}

/// State, and reason and message of the error condition, in the form that NVIDIA's kinds share.
fn judgement(object: &Value) -> (Option<String>, Option<(String, String)>) {
    let text = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned)
    };
    let status = &object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let error = conditions
        .filter(|condition| condition["type"] == "Error" && condition["status"] == "True")
        .map(|condition| {
            (
                text(&condition["reason"]).unwrap_or_default(),
                text(&condition["message"]).unwrap_or_default(),
            )
        })
        .next();
    (text(&status["state"]), error)
}

/// The Helm release that an object names as its own.
pub fn owner(metadata: &ObjectMeta) -> Option<HelmOwner> {
    let annotations = metadata.annotations.as_ref()?;
    Some(HelmOwner {
        release: annotations.get(HELM_RELEASE_NAME)?.clone(),
        namespace: annotations.get(HELM_RELEASE_NAMESPACE)?.clone(),
    })
}

/// Whether all Pods of a Deployment are of its newest spec and available.
pub fn runs_newest(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    let replicas = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let seen = status.and_then(|status| status.observed_generation) == deployment.metadata.generation;
    let updated = status.and_then(|status| status.updated_replicas).unwrap_or(0) >= replicas;
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0) >= replicas;
    let old = status.and_then(|status| status.replicas).unwrap_or(0) > replicas;
    seen && updated && available && !old
}

/// A CRD.
pub fn crd(crd: &PartialObjectMeta<CustomResourceDefinition>) -> CrdFacts {
    let annotation = |key: &str| crd.annotations().get(key);
    let applied = annotation(ANNOTATION_SPEC_GENERATION).and_then(|generation| generation.parse().ok());
    CrdFacts {
        spec_digest: annotation(ANNOTATION_SPEC_DIGEST).cloned(),
        as_applied: crd.metadata.generation == applied,
        generation: crd.metadata.generation.unwrap_or_default(),
        terminating: crd.metadata.deletion_timestamp.is_some(),
    }
}

/// What a namespace that the module did not make had in place of the module's labels; nothing where its note cannot be read.
pub fn former_labels(namespace: &ObjectMeta) -> BTreeMap<String, String> {
    let note = namespace.annotations.as_ref();
    let note = note.and_then(|annotations| annotations.get(ANNOTATION_FORMER_LABELS));
    note.and_then(|note| serde_json::from_str(note).ok())
        .unwrap_or_default()
}
