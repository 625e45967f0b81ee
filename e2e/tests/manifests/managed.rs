//! The managed module by the way of Kyma's Lifecycle Manager.

use anyhow::{Context as _, Result, ensure};
use e2e::inventory::Inventory;
use e2e::manager::describe;
use e2e::manifests::Flavour;
use e2e::wait::eventually;
use gpu_manager::api::{MODULE_NAME, State};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use crate::files::Files;
use crate::lab::{Lab, STEP, until_settled};
use crate::lifecycle_manager::{APPLIER, LOCAL_REGISTRY, LifecycleManager, ensure_all_present};

const HERE: Flavour = Flavour::Managed;

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_manager_brings_the_managed_module_and_takes_it_away() -> Result<()> {
    let files = Files::of_the_source()?;
    let lab = Lab::start().await?;
    let template = files.template();
    let lifecycle_manager =
        LifecycleManager::new(lab.client(), files.manifest(HERE), &template["spec"]["data"])?;
    lifecycle_manager.prepare().await?;
    until_settled(&lab.client()).await?;
    let before = Inventory::take(&lab.client()).await?;

    lifecycle_manager.install().await?;
    let mut manager = lab.manager(HERE).await?;
    lab.until_available(HERE).await?;
    lab.until(State::Ready).await?;
    ensure_rewritten(&lab).await?;
    ensure_the_namespace_is_dropped(&lab, &lifecycle_manager).await?;
    // Lifecycle Manager brings everything again every few minutes, and creates no second CR.
    lifecycle_manager.install().await?;
    lab.until_available(HERE).await?;

    // A Pod with a GPU holds the removal; until then everything stays where it is.
    let pods = Api::<Pod>::namespaced(lab.client(), "default");
    pods.create(&PostParams::default(), &gpu_pod()?).await?;
    until_running(&pods).await?;
    ensure!(!lifecycle_manager.remove().await?);
    lab.until(State::Warning).await?;
    ensure!(!lifecycle_manager.remove().await?);
    ensure_all_present(&lifecycle_manager).await?;
    pods.delete("train", &DeleteParams::default().grace_period(0))
        .await?;

    // From the first object that is pruned on, the operator has nothing left to do.
    eventually("the GpuModule to be gone", STEP, async || {
        let module = lab.modules.get_opt(MODULE_NAME).await?;
        ensure!(
            module.is_none(),
            "{}",
            module.as_ref().map(describe).unwrap_or_default()
        );
        Ok(())
    })
    .await?;
    ensure_all_present(&lifecycle_manager).await?;
    manager.process.signal(Signal::TERM)?;
    let status = manager.process.wait(STEP).await?;
    ensure!(status.success(), "the operator ended with {status}");
    eventually("everything to be pruned", STEP, async || {
        ensure!(
            lifecycle_manager.remove().await?,
            "{:?}",
            lifecycle_manager.present().await
        );
        Ok(())
    })
    .await?;
    // Whoever leads keeps the Lease, and nobody deletes it after the last one.
    let lease = "Lease kyma-system/gpu-manager is new";
    before
        .ensure_is_back_but_for(&lab.client(), |line| line == lease)
        .await
}

/// Labels that Lifecycle Manager writes are on the Deployment, and its selector still finds its Pods.
async fn ensure_rewritten(lab: &Lab) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(lab.client(), HERE.namespace());
    let deployment = serde_json::to_value(deployments.get("gpu-manager").await?)?;
    let metadata = &deployment["metadata"];
    ensure!(
        metadata["labels"]["app.kubernetes.io/part-of"] == "Kyma",
        "{metadata}"
    );
    let owners = metadata["managedFields"].as_array().context("no managedFields")?;
    ensure!(
        owners.iter().any(|owner| owner["manager"] == APPLIER),
        "{owners:?}"
    );
    let pod = &deployment["spec"]["template"];
    ensure!(
        pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gpu",
        "{pod}"
    );
    let container = &pod["spec"]["containers"][0];
    let image = container["image"].as_str().unwrap_or_default();
    ensure!(image.starts_with(LOCAL_REGISTRY), "{image}");
    let variables = container["env"].as_array().context("no variables")?;
    let own = variables
        .iter()
        .find(|variable| variable["name"] == "IMAGE_GPU_MANAGER");
    ensure!(own.is_some_and(|own| own["value"] == image), "{own:?}");
    Ok(())
}

/// The API server takes a namespace on a cluster-scoped object, when it is created and when it is applied, and drops it.
async fn ensure_the_namespace_is_dropped(lab: &Lab, lifecycle_manager: &LifecycleManager) -> Result<()> {
    ensure!(lifecycle_manager.default_cr()["metadata"]["namespace"] == "kyma-system");
    let module = lab.modules.get(MODULE_NAME).await?;
    ensure!(module.metadata.namespace.is_none(), "{:?}", module.metadata);
    let params = PatchParams::apply("kubectl").force();
    let applied = lab
        .modules
        .patch(
            MODULE_NAME,
            &params,
            &Patch::Apply(lifecycle_manager.default_cr()),
        )
        .await?;
    ensure!(applied.metadata.namespace.is_none(), "{:?}", applied.metadata);
    Ok(())
}

fn gpu_pod() -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": "train" },
        "spec": { "containers": [{
            "name": "cuda",
            "image": "registry.example/cuda:1",
            "resources": { "limits": { "nvidia.com/gpu": 1 } },
        }] },
    }))?)
}

async fn until_running(pods: &Api<Pod>) -> Result<()> {
    eventually("the Pod to run", STEP, async || {
        let phase = pods.get("train").await?.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
        Ok(())
    })
    .await
}
