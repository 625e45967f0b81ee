//! The acceptance test's steps, on the local cluster. Only the Pod's log cannot be had here: no container runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::acceptance::{self, Options, POD};
use e2e::charts::Charts;
use e2e::cluster::{Cluster, FakeNode, Options as ClusterOptions};
use e2e::demo::{Programs, Screen, Steps};
use e2e::manager::{self, MANAGER, Manager, install_manifests};
use e2e::simulated;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const DEADLINE: Duration = Duration::from_mins(2);

fn options() -> Options {
    Options {
        namespace: "gpu-acceptance".to_owned(),
        image: "cuda".to_owned(),
    }
}

async fn refusal(steps: &Steps) -> String {
    let checked = acceptance::check(steps, &mut Screen::new(std::io::sink())).await;
    checked.map_or_else(|error| error.to_string(), |()| "it was accepted".to_owned())
}

/// The Pod's container would end by itself; here somebody has to say so.
async fn end_the_pod(pods: &Api<Pod>) -> Result<()> {
    eventually("the end of the Pod", DEADLINE, async || {
        let pod = pods.get(POD).await?;
        let phase = pod.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
        let ended = json!({ "status": { "phase": "Succeeded" } });
        pods.patch_status(POD, &PatchParams::default(), &Patch::Merge(ended))
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_acceptance_test_goes_its_path() -> Result<()> {
    let cluster = Cluster::start(ClusterOptions::full()).await?;
    cluster.create_node(&FakeNode::with_gpus("gpu-0", 1)).await?;
    let steps = Steps::new(cluster.client(), Programs::local(&cluster));
    let refused = refusal(&steps).await;
    ensure!(refused.contains("does not know GpuModule"), "{refused}");

    install_manifests(&cluster).await?;
    let refused = refusal(&steps).await;
    ensure!(
        refused.contains("no Deployment gpu-manager is available"),
        "{refused}"
    );
    // KWOK plays the Pod of the Deployment; the operator itself runs beside the cluster.
    cluster
        .kubectl(&["-n", MANAGER, "scale", "deployment", MANAGER, "--replicas=1"])
        .await?;
    let _nvidia = simulated::Operator::start(cluster.client(), simulated::Options::default());
    // Elsewhere NVIDIA's charts are used where they can be had; here the stand-in shows that it gets as far.
    let charts = Charts::stand_in(cluster.tools(), &[&e2e::demo::default_chart_version()?]).await?;
    let manager = Manager::start(&cluster, &manager::Options::with_charts(&charts)).await?;
    eventually("the cluster to be accepted", DEADLINE, async || {
        acceptance::check(&steps, &mut Screen::new(std::io::sink())).await
    })
    .await?;

    let mut text = Vec::new();
    let mut screen = Screen::new(&mut text);
    let path = async {
        acceptance::install(&steps, &mut screen).await?;
        let refused = refusal(&steps).await;
        ensure!(refused.contains("has a GpuModule already"), "{refused}");
        let pods = Api::namespaced(cluster.client(), &options().namespace);
        let options = options();
        let (workload, ()) = tokio::try_join!(
            acceptance::run_pod(&steps, &mut screen, &options),
            end_the_pod(&pods)
        )?;
        acceptance::remove(&steps, &mut screen, &workload).await
    };
    let done = tokio::time::timeout(DEADLINE * 3, path).await;
    drop(screen);
    let text = String::from_utf8(text)?;
    let log = manager.process.log_tail();
    ensure!(matches!(done, Ok(Ok(()))), "{done:?}\n{text}\n{log}");
    for wanted in ["it ended on gpu-0", "the GpuModule is gone", "See what is left"] {
        ensure!(text.contains(wanted), "no '{wanted}' in\n{text}");
    }
    Ok(())
}
