//! The manager's ServiceAccount in a test: what the operator does with it, without the operator.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{Cluster, client_for};
use e2e::manager::install_manifests;
use e2e::tools::{Tool, repository_root};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use serde_json::{Value, json};

/// How long the API server may take to learn of roles, bindings and CRDs.
pub const SOON: Duration = Duration::from_secs(30);
/// Namespace and name of the manager's ServiceAccount.
const MANAGER: &str = "gpu-manager";
/// Name and namespace of the release.
pub const RELEASE: &str = "gpu-operator";
/// The flags that upgrade and rollback share.
const FLAGS: &[&str] = &[
    "--server-side=true",
    "--force-conflicts",
    "--history-max=5",
    "--timeout=60s",
];

/// The values files that the rights are derived from.
pub fn values_dir() -> PathBuf {
    repository_root().join("hack/deploy/rbac/values")
}

/// The manager's ServiceAccount: its client, and helm with its kubeconfig.
pub struct Manager {
    /// A client with exactly the account's rights.
    pub client: kube::Client,
    kubeconfig: PathBuf,
    helm: PathBuf,
    /// helm's home: it caches there what the API server serves.
    home: PathBuf,
}

impl Manager {
    /// Installs the manifests as an administrator would, and takes on the account.
    pub async fn install(cluster: &Cluster) -> Result<Self> {
        install_manifests(cluster).await?;
        let kubeconfig = cluster.kubeconfig_for_service_account(MANAGER, MANAGER).await?;
        Ok(Self {
            client: client_for(&kubeconfig).await?,
            kubeconfig,
            helm: cluster.tools().path(Tool::Helm),
            home: cluster.dir().to_owned(),
        })
    }

    /// Creates the release namespace as the manager does.
    pub async fn apply_namespace(&self, name: &str) -> Result<Namespace, kube::Error> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "privileged" } },
        });
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.patch(name, &apply(), &Patch::Apply(namespace)).await
    }

    /// Binds a ClusterRole to the manager in the release namespace.
    pub async fn apply_binding(&self, name: &str, role: &str) -> Result<RoleBinding, kube::Error> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": MANAGER, "namespace": MANAGER }],
        });
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), RELEASE);
        bindings.patch(name, &apply(), &Patch::Apply(binding)).await
    }

    /// Applies a chart's CRDs and waits until they are served.
    pub async fn apply_crds(&self, chart: &str) -> Result<()> {
        let manifest = self.helm(&["show", "crds", chart])?;
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let objects: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in serde_saphyr::from_multiple::<Value>(&manifest)? {
            let name = crd["metadata"]["name"].as_str().context("a CRD without a name")?;
            objects.patch(name, &apply(), &Patch::Apply(&crd)).await?;
            eventually(&format!("the CRD {name} to be served"), SOON, async || {
                let crd = crds.get(name).await?;
                let served = is_crd_established().matches_object(Some(&crd));
                ensure!(served, "{:?}", crd.status);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Runs helm and returns its output; a failure carries its error output.
    fn helm(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.helm)
            .env_clear()
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .args(args)
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "helm {}: {}",
            args.join(" "),
            errors.trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Installs or upgrades the release.
    pub fn upgrade(&self, chart: &str, values: &str) -> Result<String> {
        let values = values_dir().join(values).display().to_string();
        let what = ["upgrade", "--install", RELEASE, chart, "--values", &values];
        let how = ["--namespace", RELEASE, "--reset-values", "--skip-crds"];
        self.helm(&[&what[..], &how, FLAGS].concat())
    }

    /// Rolls the release back to a revision.
    pub fn rollback(&self, revision: &str) -> Result<String> {
        let what = ["rollback", RELEASE, revision, "--namespace", RELEASE];
        self.helm(&[&what[..], FLAGS].concat())
    }

    /// Removes the release, hooks included.
    pub fn uninstall(&self) -> Result<String> {
        self.helm(&["uninstall", RELEASE, "--namespace", RELEASE, "--timeout=60s"])
    }

    /// The number of the deployed revision.
    pub fn revision(&self) -> Result<u64> {
        let metadata = self.helm(&["get", "metadata", RELEASE, "-n", RELEASE, "-o", "json"])?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        ensure!(metadata["status"] == "deployed", "the release is {metadata}");
        metadata["revision"].as_u64().context("no revision")
    }
}

fn apply() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}
