//! What Kyma reads about the module: ModuleTemplate, ModuleReleaseMeta (both `operator.kyma-project.io/v1beta2`), and the
//! configuration of modulectl. Fields and rules: Lifecycle Manager's API and modulectl's module configuration.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{DEFAULT_CR, Flavour, Release};

const API_VERSION: &str = "operator.kyma-project.io/v1beta2";

/// The module's own resource and nothing of NVIDIA's: who removes the module would otherwise be asked to delete those by hand.
fn associated_resources() -> Value {
    json!([{ "group": "operator.kyma-project.io", "version": "v1alpha1", "kind": "GpuModule" }])
}

/// The Deployment that tells whether the module is installed, and in which version.
fn manager(flavour: Flavour) -> Value {
    json!({
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
        "name": "gpu-manager",
        "namespace": flavour.namespace(),
    })
}

fn icons(release: &Release) -> Value {
    json!([{ "name": "module-icon", "link": release.icon() }])
}

/// Files that a release offers: the raw manifest is what the CLI and the dashboard install.
fn resources(release: &Release, flavour: Flavour) -> Value {
    json!([
        { "name": "rawManifest", "link": release.download(flavour.file()) },
        { "name": "defaultResource", "link": release.download(DEFAULT_CR) },
    ])
}

/// The labels that every object of the release has, as kustomize writes them into the manifests.
fn labels(release: &Release, component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "gpu-manager",
        "app.kubernetes.io/instance": "gpu-manager",
        "app.kubernetes.io/version": release.version(),
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": release.module(),
        "app.kubernetes.io/managed-by": "kustomize",
        "kyma-project.io/module": release.module(),
    })
}

/// The ModuleTemplate of the community module. It has no namespace: whoever pulls it chooses one.
pub(super) fn template(release: &Release, default_cr: &str) -> Result<Value> {
    let default_cr: Value =
        serde_saphyr::from_str(default_cr).context("the default GpuModule is not YAML")?;
    let mut labels = labels(release, "module-template");
    labels["operator.kyma-project.io/module-name"] = release.module().into();
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "ModuleTemplate",
        "metadata": {
            "name": release.template_name(),
            "labels": labels,
            "annotations": { "operator.kyma-project.io/is-cluster-scoped": "true" },
        },
        "spec": {
            "moduleName": release.module(),
            "version": release.version(),
            "mandatory": false,
            "requiresDowntime": release.requires_downtime(),
            "info": {
                "repository": release.repository(),
                "documentation": release.documentation(),
                "icons": icons(release),
            },
            "associatedResources": associated_resources(),
            "data": default_cr,
            "manager": manager(Flavour::Community),
            "resources": resources(release, Flavour::Community),
            // Required and without a meaning any more.
            "descriptor": {},
        },
    }))
}

/// The configuration of modulectl, which makes the component and the ModuleTemplate of the managed module from it. Paths are
/// relative to this file.
pub(super) fn config(release: &Release) -> Value {
    json!({
        "name": release.component(),
        "version": release.version(),
        "manifest": Flavour::Managed.file(),
        "defaultCR": DEFAULT_CR,
        "repository": release.repository(),
        "documentation": release.documentation(),
        "icons": icons(release),
        "manager": manager(Flavour::Managed),
        "associatedResources": associated_resources(),
        "resources": resources(release, Flavour::Managed),
        "requiresDowntime": release.requires_downtime(),
        // The scan needs a team of Kyma's that answers for it.
        "securityScanEnabled": false,
    })
}

/// A sample: which version a channel has is decided where the runtimes are managed. New versions come to `fast` first.
pub(super) fn release_meta(release: &Release) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "ModuleReleaseMeta",
        "metadata": {
            "name": release.module(),
            "labels": labels(release, "module-release-meta"),
        },
        "spec": {
            "moduleName": release.module(),
            "ocmComponentName": release.component(),
            "channels": [{ "channel": "fast", "version": release.version() }],
        },
    })
}
