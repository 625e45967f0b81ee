//! Quotas and limits for GPUs, as the API server enforces them.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::FakeNode;
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::read;
use super::team::Team;
use crate::lab::{Lab, STEP};

/// The sample Pod under another name, with other resources.
fn pod(name: &str, limits: Value) -> Result<Value> {
    let mut pod = read("pod.yaml")?;
    pod["metadata"]["name"] = name.into();
    pod["spec"]["containers"][0]["resources"]["limits"] = limits;
    Ok(pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_and_limits_of_gpus_are_enforced() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    // Two GPUs for the quota and one beside it.
    lab.cluster.create_node(&FakeNode::with_gpus("gpu-2", 1)).await?;
    quota(&lab).await?;
    limit_range(&lab).await
}

async fn quota(lab: &Lab) -> Result<()> {
    let team = Team::create(lab, "quota").await?;
    team.limit("resourcequota.yaml").await?;
    team.apply("pod.yaml").await?;
    team.apply("deployment.yaml").await?;
    team.until_available("inference").await?;

    // Two are in use. Of a Pod the user hears at once, of a Job's in its Events.
    let exceeded = "exceeded quota: gpus";
    let third = pod("third", json!({ "nvidia.com/gpu": 1 }))?;
    team.until_refused(&third, exceeded).await?;
    team.apply("job.yaml").await?;
    let events: Api<Event> = Api::namespaced(lab.cluster.client(), team.work.namespace());
    let of_job = ListParams::default().fields("involvedObject.kind=Job,reason=FailedCreate");
    eventually("the Job to say why it has no Pod", STEP, async || {
        let events = events.list(&of_job).await?.items;
        let messages: Vec<_> = events
            .iter()
            .filter_map(|event| event.message.as_deref())
            .collect();
        ensure!(
            messages.iter().any(|text| text.contains(exceeded)),
            "{messages:?}"
        );
        Ok(())
    })
    .await
}

async fn limit_range(lab: &Lab) -> Result<()> {
    let team = Team::create(lab, "limits").await?;
    team.limit("limitrange.yaml").await?;
    team.apply("pod.yaml").await?;
    team.until_runs("first-gpu").await?;
    let greedy = pod("greedy", json!({ "nvidia.com/gpu": 2 }))?;
    team.until_refused(&greedy, "maximum nvidia.com/gpu usage per Container is 1")
        .await?;

    // Who asks for none gets none, and would get the maximum without the sample's defaults.
    ensure!(gpus_unasked(&team, "modest").await? == "0");
    let mut careless = read("limitrange.yaml")?;
    for field in ["default", "defaultRequest"] {
        careless["spec"]["limits"][0][field] = Value::Null;
    }
    team.limit_own(&careless).await?;
    eventually("a Pod that gets a GPU unasked", STEP, async || {
        let gpus = gpus_unasked(&team, "surprised").await?;
        team.work
            .pods()
            .delete("surprised", &DeleteParams::default().grace_period(0))
            .await?;
        ensure!(gpus == "1", "it got {gpus}");
        Ok(())
    })
    .await
}

/// The GPUs of a Pod that asks for none.
async fn gpus_unasked(team: &Team<'_>, name: &str) -> Result<String> {
    team.apply_own(&pod(name, json!({ "cpu": "1" }))?).await?;
    let pod = team.work.pods().get(name).await?;
    let resources = pod
        .spec
        .and_then(|spec| spec.containers.into_iter().next()?.resources);
    let limits = resources
        .and_then(|resources| resources.limits)
        .context("no limits")?;
    let gpus = limits.get("nvidia.com/gpu").map(|quantity| quantity.0.clone());
    gpus.with_context(|| format!("{limits:?}"))
}
