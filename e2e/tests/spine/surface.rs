//! Every typed field at once in a running release, and which registries may be named.

use anyhow::{Context as _, Result, ensure};
use e2e::goldens;
use e2e::manager::Manager;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::lab::{Lab, STEP};

const MIRROR: &str = "mirror.example:5000/gpu";

/// The specs of all fields merged; the driver is replaced at once.
fn everything() -> Result<Value> {
    let mut spec = goldens::every_field()?;
    spec["upgrade"]["policy"] = "Immediate".into();
    Ok(spec)
}

/// Names of the ConfigMaps with a sharing configuration.
async fn sharing(lab: &Lab) -> Result<Vec<String>> {
    let maps = Api::<ConfigMap>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let maps = maps.list(&ListParams::default()).await?.items;
    let names = maps.iter().map(kube::ResourceExt::name_any);
    Ok(names
        .filter(|name| name.starts_with("gpu-manager-time-slicing-"))
        .collect())
}

/// Waits for Ready; the ConfigMap that the device plugin then has.
async fn ready(lab: &Lab) -> Result<String> {
    lab.until(State::Ready).await?;
    let policy = lab.cluster_policy().await?["spec"].clone();
    let name = policy["devicePlugin"]["config"]["name"]
        .as_str()
        .context("no configuration")?;
    let found = sharing(lab).await?;
    ensure!(found == [name], "{found:?} instead of {name}");
    Ok(name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_installed_and_sharing_changes_without_another_driver() -> Result<()> {
    let lab = Lab::start().await?;
    let options = lab.options().with_allowed_registries("mirror.example:5000");
    let _manager = Manager::start(&lab.cluster, &options).await?;
    lab.apply(json!({ "images": { "registry": "mirror.example" } }))
        .await?;
    let status = lab
        .until_reason(ConditionType::Configured, "RegistryNotAllowed")
        .await?;
    ensure!(
        status.description.contains(
            "spec.images.registry names mirror.example, but the operator allows only mirror.example:5000"
        ),
        "{}",
        status.description
    );

    lab.apply(everything()?).await?;
    let first = ready(&lab).await?;
    let repository = format!("{MIRROR}/gardenlinux/gardenlinux-nvidia-installer/1.17.0");
    let driver = lab.nvidia_driver().await?;
    for (field, wanted) in [
        ("/spec/kernelModuleType", json!("open")),
        ("/spec/repository", json!(repository)),
        ("/spec/imagePullSecrets", json!(["one", "two"])),
        (
            "/spec/manager/repository",
            json!(format!("{MIRROR}/nvidia/cloud-native")),
        ),
        ("/spec/upgradePolicy/maxParallelUpgrades", json!(3)),
        ("/spec/upgradePolicy/drain/enable", json!(true)),
        ("/spec/tolerations/1/key", json!("team")),
    ] {
        ensure!(driver.pointer(field) == Some(&wanted), "{field}: {driver}");
    }
    lab.until_drivers_run(|pod| pod.image.starts_with(&repository))
        .await?;

    let before = lab.running_drivers().await?;
    let mut more = everything()?;
    more["sharing"]["timeSlicing"]["replicas"] = 8.into();
    lab.apply(more).await?;
    lab.until_revision(2).await?;
    let second = ready(&lab).await?;
    ensure!(second != first, "still {second}");
    let now = lab.nvidia_driver().await?;
    ensure!(
        now["metadata"]["generation"] == driver["metadata"]["generation"],
        "{now}"
    );
    let drivers = lab.running_drivers().await?;
    ensure!(drivers.names() == before.names(), "{drivers:?} after {before:?}");

    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    let left = sharing(&lab).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

/// Pods of the stack that have no node.
async fn unscheduled(lab: &Lab) -> Result<Vec<String>> {
    let pods = Api::<Pod>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?.items;
    let waiting = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none());
    Ok(pods
        .iter()
        .filter(waiting)
        .map(kube::ResourceExt::name_any)
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_every_node_is_tainted_the_stack_runs_with_tolerations() -> Result<()> {
    let lab = Lab::start().await?;
    lab.cluster
        .kubectl(&["taint", "nodes", "--all", "team=ml:NoSchedule"])
        .await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({})).await?;
    lab.until_revision(1).await?;
    let waiting = eventually("Pods that no node takes", STEP, async || {
        let waiting = unscheduled(&lab).await?;
        // Those of NVIDIA's operator, and of the master and the collector of Node Feature Discovery.
        ensure!(waiting.len() == 3, "{waiting:?}");
        Ok(waiting)
    })
    .await?;
    let nodes = lab.module().await?.status.context("no status")?.gpu_nodes;
    ensure!(nodes.usable == 0, "{nodes:?} with {waiting:?}");

    let toleration = json!({ "key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule" });
    lab.apply(json!({ "nodes": { "tolerations": [toleration] } }))
        .await?;
    lab.until_status("Ready on tainted nodes", |status| {
        status.state == State::Ready && status.gpu_nodes.summary == "2/2"
    })
    .await?;
    eventually("every Pod to have a node", STEP, async || {
        let waiting = unscheduled(&lab).await?;
        ensure!(waiting.is_empty(), "{waiting:?}");
        Ok(())
    })
    .await?;
    // Its hook Jobs find a node, or Helm would wait for them in vain.
    lab.delete().await
}
