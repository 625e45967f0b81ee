//! What has to be true of a fresh release.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Mark;
use e2e::manager::{MANAGER, Manager};
use gpu_manager::api::{
    ANNOTATION_SPEC_DIGEST, ConditionType, DriverBranch, DriverMode, FIELD_MANAGER, GpuModuleStatus,
    LABEL_BY, LABEL_FINGERPRINT, LABEL_REVISION, NodeFeatureDiscovery, RELEASE_NAMESPACE, RELEASE_ROLE,
    condition,
};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired;
use gpu_manager::helm::RELEASE_FLAGS;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::lab::{Lab, http};

pub fn status(status: &GpuModuleStatus) -> Result<()> {
    ensure!(status.gpu_nodes.summary == "2/2", "{:?}", status.gpu_nodes);
    let driver = status.driver.as_ref().context("no driver")?;
    ensure!(
        driver.mode == DriverMode::Precompiled
            && driver.branch == Some(DriverBranch::R580)
            && driver.installer_release.as_deref() == Some("1.17.0"),
        "{driver:?}"
    );
    for kind in [
        ConditionType::Configured,
        ConditionType::Installed,
        ConditionType::OperandsReady,
        ConditionType::Ready,
    ] {
        let condition = condition(status, kind).with_context(|| format!("no condition {}", kind.as_str()))?;
        ensure!(
            condition.status == "True" && condition.observed_generation == Some(status.observed_generation),
            "{condition:?}"
        );
    }
    Ok(())
}

/// Helm has exactly what the spec and the catalogue mean, with the module's marks.
pub async fn release(lab: &Lab, status: &GpuModuleStatus) -> Result<()> {
    let options = lab.options();
    let catalogue = match &options.catalogue {
        Some(folder) => Catalogue::from_folder(folder)?,
        None => Catalogue::compiled_in()?,
    };
    let module = lab.module().await?;
    let wanted = desired::resolve(
        &module.spec,
        &catalogue,
        NodeFeatureDiscovery::Module,
        RELEASE_FLAGS,
    )?;

    let values = lab.helm_values().await?;
    ensure!(values == wanted.values, "{values}\ninstead of\n{}", wanted.values);
    let release = status.release.as_ref().context("no release")?;
    let found = (
        release.name.as_str(),
        release.namespace.as_str(),
        release.revision,
    );
    ensure!(found == ("gpu-operator", "gpu-operator", 1), "{release:?}");
    let found = (release.chart_version.as_str(), release.app_version.as_str());
    ensure!(found == ("26.7.0", "v26.7.0"), "{release:?}");
    ensure!(release.values_digest == wanted.values_digest, "{release:?}");

    let revisions = lab.revisions().await?;
    ensure!(
        lab.history().await? == [(1, "deployed".to_owned())],
        "{revisions:?}"
    );
    let labels = &revisions[0].labels;
    for (label, value) in [
        (LABEL_FINGERPRINT, wanted.fingerprint.as_str()),
        (LABEL_BY, options.identity.as_str()),
        (LABEL_REVISION, "1"),
    ] {
        ensure!(labels.get(label).map(String::as_str) == Some(value), "{labels:?}");
    }
    ensure!(wanted.fingerprint.as_str().len() == 32, "{}", wanted.fingerprint);
    let history = lab.helm_release(&["history"], &["--output=json"]).await?;
    let history: Value = serde_json::from_str(&history)?;
    ensure!(
        history[0]["description"] == "GpuModule generation 1, chart 26.7.0: install",
        "{history}"
    );
    Ok(())
}

pub async fn surroundings(lab: &Lab) -> Result<()> {
    let namespaces = Api::<Namespace>::all(lab.cluster.client());
    let namespace = namespaces.get(RELEASE_NAMESPACE).await?;
    for (label, value) in [
        ("pod-security.kubernetes.io/enforce", "privileged"),
        ("istio-injection", "disabled"),
        ("app.kubernetes.io/managed-by", MANAGER),
        ("kyma-project.io/module", "gpu"),
    ] {
        let found = namespace.labels().get(label).map(String::as_str);
        ensure!(found == Some(value), "{label}: {found:?}");
    }
    let bindings = Api::<RoleBinding>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let binding = bindings.get(RELEASE_ROLE).await?;
    ensure!(binding.role_ref.name == RELEASE_ROLE, "{binding:?}");
    let subjects = binding.subjects.unwrap_or_default();
    let subjects: Vec<_> = subjects
        .iter()
        .map(|subject| {
            (
                subject.kind.as_str(),
                subject.namespace.as_deref(),
                subject.name.as_str(),
            )
        })
        .collect();
    ensure!(
        subjects == [("ServiceAccount", Some(MANAGER), MANAGER)],
        "{subjects:?}"
    );
    Ok(())
}

/// Applying the chart's CRDs again as the module would change nothing.
pub async fn crds(lab: &Lab) -> Result<()> {
    let text = lab.helm(&["show", "crds", &lab.archive("26.7.0")]).await?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let crds = Api::<CustomResourceDefinition>::all(lab.cluster.client());
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::apply(FIELD_MANAGER).force()
    };
    let mut count = 0;
    for document in documents.iter().filter(|document| !document.is_null()) {
        let name = document["metadata"]["name"]
            .as_str()
            .context("a CRD without a name")?;
        let live = crds.get(name).await?;
        let digest = live
            .annotations()
            .get(ANNOTATION_SPEC_DIGEST)
            .context(name.to_owned())?;
        ensure!(digest.len() == 64, "{name}: {digest}");
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": name, "labels": live.labels(), "annotations": live.annotations() },
            "spec": document["spec"],
        });
        let applied = crds.patch(name, &dry_run, &Patch::Apply(&object)).await?;
        ensure!(
            applied.spec == live.spec,
            "the spec of CRD {name} is another one than the chart's"
        );
        count += 1;
    }
    ensure!(count >= 5, "only {count} CRDs");
    Ok(())
}

pub fn nothing_is_left_on_disk(lab: &Lab) -> Result<()> {
    let options = lab.options();
    let mut folders = vec![lab.cluster.dir().join(&options.identity)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            ensure!(!name.contains("values"), "{} is left", entry.path().display());
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

pub async fn servers(manager: &Manager) -> Result<()> {
    for path in ["/healthz", "/readyz"] {
        let (code, body) = http::get(manager.health, path).await?;
        ensure!(code == 200, "{path}: {code} {body}");
    }
    let (code, text) = http::get(manager.metrics, "/metrics").await?;
    ensure!(code == 200, "{code} {text}");
    for line in [
        "gpu_manager_module_state{state=\"Ready\"} 1",
        "gpu_manager_module_state{state=\"Processing\"} 0",
        "gpu_manager_release_info{chart_version=\"26.7.0\",app_version=\"v26.7.0\",driver_branch=\"580\"} 1",
        "gpu_manager_gpu_nodes 2",
        "gpu_manager_gpu_nodes_usable 2",
        "gpu_manager_helm_operations_total{operation=\"install\",result=\"success\"} 1",
        "gpu_manager_helm_operations_total{operation=\"upgrade\",result=\"success\"} 0",
        "gpu_manager_helm_operation_duration_seconds_count{operation=\"install\"} 1",
        "gpu_manager_leader 1",
    ] {
        ensure!(
            text.lines().any(|found| found == line),
            "no line {line} in\n{text}"
        );
    }
    ensure!(
        text.contains("gpu_manager_last_success_timestamp_seconds "),
        "{text}"
    );
    Ok(())
}

/// Everything that the ServiceAccount asked for was allowed, but the looks into the release's namespace before it had its rights there,
/// and those after they went with the namespace.
pub fn rights_were_enough(lab: &Lab, since: Mark) -> Result<()> {
    let refused: Vec<_> = lab
        .cluster
        .audit()
        .since(since)?
        .into_iter()
        .filter(|event| event.user.username == format!("system:serviceaccount:{MANAGER}:{MANAGER}"))
        .filter(|event| {
            event
                .response_status
                .as_ref()
                .is_some_and(|status| status.code == 403)
        })
        .map(|event| format!("{} {}", event.verb, event.request_uri))
        .filter(|request| {
            let looks = [
                "list /api/v1/namespaces/gpu-operator/secrets?",
                "list /apis/apps/v1/namespaces/gpu-operator/deployments?",
                "get /api/v1/namespaces/gpu-operator/secrets/sh.helm.release.v1.gpu-operator.v",
                "get /apis/apps/v1/namespaces/gpu-operator/deployments/gpu-operator",
            ];
            !looks.iter().any(|look| request.starts_with(look))
        })
        .collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    Ok(())
}
