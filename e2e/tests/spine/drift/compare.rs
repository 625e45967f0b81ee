//! What Kubernetes' and NVIDIA's controllers do to the objects, and what people may do, is no drift.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::known_versions;
use e2e::tools::repository_root;
use e2e::wait::eventually;
use gpu_manager::drift::ObjectRef;
use gpu_manager::observe::inspect;
use serde_json::json;
use tokio::time::sleep;

use crate::lab::objects::Objects;
use crate::lab::{Lab, STEP};

/// A time in which the operator would have reacted.
const REACTION: Duration = Duration::from_secs(3);

/// Waits until Kubernetes' controllers have worked on every object.
async fn until_rolled_out(lab: &Lab) -> Result<()> {
    for kind in ["deployments", "daemonsets"] {
        eventually("the workloads to roll out", STEP, async || {
            let text = lab
                .cluster
                .kubectl(&["-n", "gpu-operator", "get", kind, "-o", "json"])
                .await?;
            let list: serde_json::Value = serde_json::from_str(&text)?;
            let items = list["items"].as_array().context("no list")?;
            ensure!(!items.is_empty(), "none");
            for item in items {
                let seen = &item["status"]["observedGeneration"];
                ensure!(
                    seen == &item["metadata"]["generation"],
                    "{}",
                    item["metadata"]["name"]
                );
                let available = &item["status"]["availableReplicas"];
                ensure!(
                    kind == "daemonsets" || available == 1,
                    "{}",
                    item["metadata"]["name"]
                );
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Objects of the release that are taken for changed, of how many.
async fn findings(lab: &Lab) -> Result<(Vec<String>, usize)> {
    let objects = Objects::of(lab).await?;
    let all: Vec<ObjectRef> = objects.all();
    let mut findings = Vec::new();
    for (object, inspection) in inspect(&objects.kinds, "helm", &objects.manifest, &all).await {
        if let Some(finding) = inspection?.finding {
            findings.push(format!("{object}: {finding:?}"));
        }
    }
    Ok((findings, all.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_object_of_any_chart_is_taken_for_changed() -> Result<()> {
    let lab = Lab::start().await?;
    let values = repository_root().join("hack/deploy/rbac/values");
    for version in &known_versions()? {
        let chart = lab.archive(version);
        let crds = lab.helm(&["show", "crds", &chart]).await?;
        let crds = lab
            .values_file("crds.yaml", &serde_json::Value::Null)
            .and_then(|path| {
                std::fs::write(&path, crds)?;
                Ok(path)
            })?;
        lab.cluster
            .kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &crds])
            .await?;
        for shape in ["gardenlinux.yaml", "existing-nfd.yaml", "options.yaml"] {
            let values = format!("--values={}", values.join(shape).display());
            // Its kind is in no chart.
            let no_monitors = "--set=node-feature-discovery.prometheus.enable=false";
            let how = [
                "--install",
                "--create-namespace",
                "--reset-values",
                "--skip-crds",
                &values,
                no_monitors,
            ];
            lab.helm_release(&["upgrade"], &[&[chart.as_str()][..], &how].concat())
                .await?;
            until_rolled_out(&lab).await?;
            let (findings, of) = findings(&lab).await?;
            println!(
                "{version} with {shape}: {} of {of} objects differ",
                findings.len()
            );
            ensure!(findings.is_empty(), "{findings:#?}");
        }
        lab.helm_release(&["uninstall"], &["--no-hooks"]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_annotations_and_restarts_are_left_alone() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    let objects = Objects::of(&lab).await?;
    let looks = || manager.process.log().matches("compared object=").count();
    eventually("every object to be compared once", STEP, async || {
        ensure!(
            looks() >= objects.all().len(),
            "{} of {}",
            looks(),
            objects.all().len()
        );
        Ok(())
    })
    .await?;

    let (start, before) = (lab.cluster.audit().mark()?, looks());
    let mine = json!({ "metadata": { "labels": { "example.com/mine": "a" }, "annotations": { "example.com/mine": "b" } } });
    for object in objects.all() {
        objects.patch(&object, "person", &mine).await?;
    }
    let namespace = ["-n", "gpu-operator"];
    for workload in [
        "deployment/gpu-operator",
        "daemonset/gpu-operator-node-feature-discovery-worker",
    ] {
        lab.cluster
            .kubectl(&[&["rollout", "restart", workload][..], &namespace].concat())
            .await?;
    }
    eventually("every object to be compared again", STEP, async || {
        let again = looks() - before;
        ensure!(again >= objects.all().len(), "{again} of {}", objects.all().len());
        Ok(())
    })
    .await
    .with_context(|| lab.logs())?;
    sleep(REACTION).await;
    let changes = lab.changes_since(start)?;
    ensure!(changes.is_empty(), "{changes:#?}");
    for object in objects.all() {
        let live = objects.get(&object).await?.context("missing")?;
        let labels = live.metadata.labels.unwrap_or_default();
        ensure!(labels.contains_key("example.com/mine"), "{object} lost its label");
    }
    let restarted = objects
        .get(&objects.find("Deployment", "gpu-operator")?)
        .await?
        .context("missing")?;
    let template = &restarted.data["spec"]["template"]["metadata"]["annotations"];
    ensure!(
        !template["kubectl.kubernetes.io/restartedAt"].is_null(),
        "{template}"
    );
    Ok(())
}
