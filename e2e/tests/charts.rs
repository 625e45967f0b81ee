//! The stand-in chart: does it look like NVIDIA's, install, hang and fail as it says?

use std::collections::BTreeSet;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::{Charts, Origin, known_versions};
use e2e::cluster::{Cluster, FakeNode, Options};
use e2e::tools::{Tool, Tools};
use gpu_manager::catalogue::Catalogue;
use semver::Version;
use serde_json::Value;

const RELEASE: [&str; 4] = [
    "gpu-operator",
    "--namespace",
    "gpu-operator",
    "--create-namespace",
];

async fn helm(tools: &Tools, kubeconfig: Option<&Cluster>, args: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::new(tools.path(Tool::Helm));
    command
        .env_clear()
        .env("HELM_NO_PLUGINS", "1")
        .args(args)
        .kill_on_drop(true);
    if let Some(cluster) = kubeconfig {
        command
            .env("HOME", cluster.dir())
            .env("KUBECONFIG", cluster.kubeconfig());
    }
    Ok(command.output().await?)
}

fn printed(output: &Output) -> Result<String> {
    ensure!(
        output.status.success(),
        "helm failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Kind and name of everything that a chart renders, its hooks and CRDs included.
async fn objects(tools: &Tools, archive: &std::path::Path) -> Result<BTreeSet<String>> {
    let archive = archive.to_str().context("a path that is no text")?;
    let args = [
        "template",
        "gpu-operator",
        archive,
        "--namespace",
        "gpu-operator",
        "--include-crds",
    ];
    let text = printed(&helm(tools, None, &args).await?)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    Ok(documents
        .iter()
        .filter(|object| object.is_object())
        .map(name)
        .collect())
}

#[tokio::test]
async fn the_stand_in_has_no_object_that_nvidias_chart_lacks() -> Result<()> {
    let tools = Tools::ensure()?;
    let versions = known_versions()?;
    let nvidia = Charts::find(&tools, &versions).await?;
    let stand_in = Charts::stand_in(&tools, &versions).await?;
    assert_eq!(stand_in.origin(), Origin::StandIn);
    for version in &versions {
        let ours = objects(&tools, &stand_in.archive(version)).await?;
        let theirs = objects(&tools, &nvidia.archive(version)).await?;
        let mut more: BTreeSet<_> = ours.difference(&theirs).cloned().collect();
        // This CRD came with 26.7; the stand-in has the same CRDs in every version.
        if Version::parse(version)? < Version::new(26, 7, 0) {
            more.remove("\"CustomResourceDefinition\" \"gpuclusters.nvidia.com\"");
        }
        assert!(more.is_empty(), "{version}: {more:?}");
        assert!(ours.len() > 20, "{version}: {ours:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_catalogue_names_the_crds_of_each_chart() -> Result<()> {
    let tools = Tools::ensure()?;
    let versions = known_versions()?;
    let charts = [
        Charts::nvidia(&tools, &versions, "the test of the CRDs' names").await?,
        Some(Charts::stand_in(&tools, &versions).await?),
    ];
    for charts in charts.into_iter().flatten() {
        let catalogue = match charts.catalogue() {
            Some(folder) => Catalogue::from_folder(folder)?,
            None => Catalogue::compiled_in()?,
        };
        for version in &versions {
            let archive = charts.archive(version);
            let archive = archive.to_str().context("a path that is no text")?;
            let text = printed(&helm(&tools, None, &["show", "crds", archive]).await?)?;
            let crds: Vec<Value> = serde_saphyr::from_multiple(&text)?;
            let names = crds.iter().filter_map(|crd| crd["metadata"]["name"].as_str());
            let chart = catalogue.chart(&version.parse()?).context("no such chart")?;
            let known: BTreeSet<_> = chart.crds.iter().map(String::as_str).collect();
            assert_eq!(known, names.collect(), "{version} of {:?}", charts.origin());
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_stand_in_is_the_same_each_time() -> Result<()> {
    let tools = Tools::ensure()?;
    let (first, second) = (
        Charts::stand_in(&tools, &["26.7.0"]).await?,
        Charts::stand_in(&tools, &["v26.7.0"]).await?,
    );
    assert_eq!(
        std::fs::read(first.archive("26.7.0"))?,
        std::fs::read(second.archive("v26.7.0"))?
    );
    Ok(())
}

#[tokio::test]
async fn the_stand_in_installs_hangs_and_fails() -> Result<()> {
    let cluster = Cluster::start(Options::full()).await?;
    cluster.create_node(&FakeNode::new("cpu-0")).await?;
    let charts = Charts::stand_in(cluster.tools(), &["26.7.0"]).await?;
    let archive = charts.archive("26.7.0");
    let archive = archive.to_str().context("a path that is no text")?;
    let run = async |verb: &str, more: &[&str]| -> Result<Output> {
        let chart = ["install", "upgrade"].contains(&verb).then_some(archive);
        let args: Vec<&str> = [verb]
            .into_iter()
            .chain(RELEASE)
            .chain(chart)
            .chain(more.iter().copied())
            .collect();
        helm(cluster.tools(), Some(&cluster), &args).await
    };

    // A NVIDIADriver as an extra object, its strings being templates as in NVIDIA's chart.
    let driver = r#"extraObjects=[{"apiVersion":"nvidia.com/v1alpha1","kind":"NVIDIADriver","metadata":
        {"name":"{{ .Release.Name }}-driver"},"spec":{"driverType":"gpu","image":"driver","usePrecompiled":true}}]"#;
    printed(&run("install", &["--set-json", driver]).await?)?;
    let found = cluster
        .kubectl(&["get", "clusterpolicy,nvidiadriver", "-o", "name"])
        .await?;
    assert_eq!(
        found,
        "clusterpolicy.nvidia.com/cluster-policy\nnvidiadriver.nvidia.com/gpu-operator-driver\n"
    );
    let immutable = [
        "patch",
        "nvd",
        "gpu-operator-driver",
        "--type=merge",
        "-p",
        r#"{"spec":{"usePrecompiled":false}}"#,
    ];
    let refused = cluster.kubectl(&immutable).await.unwrap_err().to_string();
    assert!(refused.contains("usePrecompiled is immutable"), "{refused}");
    printed(&run("upgrade", &[]).await?)?;

    for (value, complaint) in [
        ("standIn.renderError=broken", "broken"),
        ("standIn.refusedObject=true", "gpu-operator-refused"),
        ("mig.strategy=bogus", "Unsupported value"),
    ] {
        let failed = run("upgrade", &["--set", value]).await?;
        let errors = String::from_utf8_lossy(&failed.stderr);
        assert!(
            !failed.status.success() && errors.contains(complaint),
            "{value}: {errors}"
        );
    }
    let hold = ["--set", "standIn.holdHooks=true", "--timeout", "2s"];
    let stuck = run("upgrade", &hold).await?;
    assert!(!stuck.status.success(), "an upgrade with held hooks went through");
    printed(&run("upgrade", &["--set", "operator.upgradeCRD=false"]).await?)?;

    let uninstall = ["uninstall", "gpu-operator", "--namespace", "gpu-operator"];
    printed(&helm(cluster.tools(), Some(&cluster), &uninstall).await?)?;
    let left = cluster
        .kubectl(&[
            "get",
            "deployments,daemonsets,jobs",
            "-n",
            "gpu-operator",
            "-o",
            "name",
        ])
        .await?;
    // A hook that did not end stays behind, as it does with NVIDIA's chart.
    assert_eq!(left, "job.batch/gpu-operator-upgrade-crd\n");
    Ok(())
}
