//! Puts `hack/deploy/` together for one version: an overlay over it, built by kubectl's kustomize.

use std::path::{Component, Path};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Release;
use crate::tools::repository_root;

/// Name of the image in `hack/deploy/`.
const IMAGE: &str = "gpu-manager";

/// Kinds without a namespace that kustomize does not know, so that it gives them one.
const CLUSTER_SCOPED: &str = "ValidatingAdmissionPolicy(Binding)?";

/// Where the manager is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// In `kyma-system`, by Lifecycle Manager.
    Managed,
    /// In a namespace of its own that comes with it, by anybody else.
    Community,
}

impl Flavour {
    /// Name of the manifest.
    pub fn file(self) -> &'static str {
        match self {
            Self::Managed => "gpu-manager.yaml",
            Self::Community => "gpu-manager-community.yaml",
        }
    }

    /// Namespace of the manager.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Managed => "kyma-system",
            Self::Community => "gpu-manager",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Managed => "hack/deploy/managed",
            Self::Community => "hack/deploy/community",
        }
    }
}

/// The manifest for one version; the same bytes each time.
pub fn render(kubectl: &Path, flavour: Flavour, release: &Release) -> Result<String> {
    let overlay = tempfile::Builder::new()
        .prefix("gpu-manager-release-")
        .tempdir()?;
    let base = relative(
        &overlay.path().canonicalize()?,
        &repository_root().join(flavour.folder()).canonicalize()?,
    );
    // JSON is YAML.
    std::fs::write(
        overlay.path().join("kustomization.yaml"),
        kustomization(&base, release).to_string(),
    )?;
    let output = Command::new(kubectl)
        .env_clear()
        .env("HOME", overlay.path())
        .arg("kustomize")
        .arg(overlay.path())
        .output()
        .with_context(|| format!("cannot run {}", kubectl.display()))?;
    ensure!(
        output.status.success(),
        "kubectl kustomize: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("kustomize printed no UTF-8")
}

/// The overlay: image, version label, the image once more in the variable that names it, and no namespace where none belongs.
fn kustomization(base: &str, release: &Release) -> Value {
    let version = release.version().to_string();
    let manager = json!({ "kind": "Deployment", "name": "gpu-manager" });
    let container = "spec.template.spec.containers.[name=manager]";
    json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "sortOptions": { "order": "fifo" },
        "resources": [base],
        "images": [{ "name": IMAGE, "newName": release.image(), "newTag": version }],
        "labels": [{ "includeTemplates": true, "pairs": { "app.kubernetes.io/version": version } }],
        "patches": [{
            "target": { "kind": CLUSTER_SCOPED },
            "patch": r#"[{"op": "remove", "path": "/metadata/namespace"}]"#,
        }],
        "replacements": [{
            "source": { "kind": "Deployment", "name": "gpu-manager", "fieldPath": format!("{container}.image") },
            "targets": [{
                "select": manager,
                "fieldPaths": [format!("{container}.env.[name=IMAGE_GPU_MANAGER].value")],
            }],
        }],
    })
}

/// The way from one folder to another, both absolute: kustomize takes no absolute ones.
fn relative(from: &Path, to: &Path) -> String {
    let up = from
        .components()
        .filter(|component| matches!(component, Component::Normal(_)))
        .map(|_| "..".to_owned());
    let down = to.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_goes_over_the_root() {
        assert_eq!(relative(Path::new("/a/b"), Path::new("/c/d")), "../../c/d");
    }
}
