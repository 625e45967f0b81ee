//! `gpu-manager cleanup`: a removal for which no operator is left.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::{MANAGER, Manager, binary};
use e2e::tools::Tool;
use gpu_manager::api::{FINALIZER, MODULE_NAME, State};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::lab::{Lab, STEP};
use crate::work::Busy;
use e2e::inventory::Inventory;

/// What a cleanup said and whether it ended well.
struct Said {
    is_clean: bool,
    text: String,
}

impl Said {
    fn ensure(&self, is_clean: bool, words: &[&str]) -> Result<()> {
        let told = words.iter().all(|words| self.text.contains(words));
        ensure!(
            self.is_clean == is_clean && told,
            "wanted {words:?} in:\n{}",
            self.text
        );
        Ok(())
    }
}

/// Runs it with an administrator's kubeconfig.
async fn cleanup(lab: &Lab, args: &[&str]) -> Result<Said> {
    let options = lab.options();
    let mut command = Command::new(binary()?);
    command.env_clear().arg("cleanup").args(args);
    command.arg("--helm").arg(lab.cluster.tools().path(Tool::Helm));
    command.arg("--charts-dir").arg(&options.charts);
    if let Some(catalogue) = &options.catalogue {
        command.arg("--catalogue-dir").arg(catalogue);
    }
    command.arg("--kubeconfig").arg(lab.cluster.kubeconfig());
    command.arg("--work-dir").arg(lab.cluster.dir().join("cleanup"));
    command.args(["--lease-duration", "10", "--log-level", "warn"]);
    let run = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(STEP, run).await.context("the cleanup does not end")??;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    println!("$ gpu-manager cleanup {}\n{text}", args.join(" "));
    Ok(Said {
        is_clean: output.status.success(),
        text,
    })
}

/// The operator dies, and then somebody deletes the GpuModule.
async fn stuck(lab: &Lab, mut manager: Manager) -> Result<()> {
    manager.process.signal(Signal::KILL)?;
    manager.process.wait(STEP).await?;
    lab.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
    let finalizers = lab.module().await?.metadata.finalizers;
    ensure!(finalizers == Some(vec![FINALIZER.to_owned()]), "{finalizers:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tells_first_and_then_ends_what_nobody_else_ends() -> Result<()> {
    let lab = Lab::start().await?;
    let client = lab.cluster.client();
    cleanup(&lab, &[])
        .await?
        .ensure(true, &["nothing of the module is in the cluster"])?;

    let manager = lab.manager().await?;
    let before = Inventory::take(&client).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;

    // The operator lives, and the module is wanted.
    cleanup(&lab, &["--yes"]).await?.ensure(
        false,
        &["GpuModule default is not being deleted; delete it first"],
    )?;
    cleanup(&lab, &[])
        .await?
        .ensure(false, &["is held by gpu-manager-0", "is not being deleted"])?;

    stuck(&lab, manager).await?;
    let installed = Inventory::take(&client).await?;
    let told = cleanup(&lab, &["--namespace", MANAGER]).await?;
    told.ensure(
        false,
        &[
            "delete Deployment gpu-operator\n",
            "remove label nvidia.com/gpu.present",
            "delete Namespace gpu-operator",
            "leave the CRDs of NVIDIA and of Node Feature Discovery",
            "take the module's finalizer off the GpuModule",
            "this was a dry run and nothing was changed",
        ],
    )?;
    let changed = installed.differences(&Inventory::take(&client).await?);
    ensure!(changed.is_empty(), "the dry run changed {changed:#?}");

    let done = cleanup(&lab, &["--yes", "--namespace", MANAGER]).await?;
    done.ensure(
        true,
        &["step 3 of 8 of the removal", "the module is removed", "clean: "],
    )?;
    lab.until_gone().await?;
    before.ensure_is_back(&client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn never_runs_beside_a_living_operator_or_under_running_work() -> Result<()> {
    let lab = Lab::start().await?;
    let manager = lab.ready().await?;
    let busy = Busy::begin(lab).await?;
    let lab = &busy.lab;
    lab.modules.delete(MODULE_NAME, &DeleteParams::default()).await?;
    let refused = cleanup(lab, &["--yes"]).await?;
    refused.ensure(
        false,
        &["gpu-manager-0 lives and holds Lease gpu-manager/gpu-manager"],
    )?;
    // Nor where a Lease that nobody holds lies in the namespace that is named.
    let leases = Api::<Lease>::namespaced(lab.cluster.client(), "default");
    let stale: Lease = serde_json::from_value(json!({ "metadata": { "name": MANAGER } }))?;
    leases.create(&PostParams::default(), &stale).await?;
    let refused = cleanup(lab, &["--yes", "--namespace", "default"]).await?;
    refused.ensure(
        false,
        &["gpu-manager-0 lives and holds Lease gpu-manager/gpu-manager"],
    )?;

    let mut manager = manager;
    manager.process.signal(Signal::KILL)?;
    manager.process.wait(STEP).await?;
    cleanup(lab, &[])
        .await?
        .ensure(false, &["Pods use GPUs (team/train)", "--workloads ignore"])?;
    cleanup(lab, &["--yes"]).await?.ensure(
        false,
        &["1 Pod uses a GPU in namespace team", "--workloads ignore"],
    )?;
    busy.ensure_runs().await?;
    ensure!(lab.history().await? == [(1, "deployed".to_owned())]);

    cleanup(lab, &["--yes", "--workloads", "ignore"])
        .await?
        .ensure(true, &["clean: "])?;
    lab.until_gone().await
}

#[tokio::test(flavor = "multi_thread")]
async fn needs_neither_the_gpumodule_nor_its_crd() -> Result<()> {
    let lab = Lab::start().await?;
    let client = lab.cluster.client();
    let manager = lab.manager().await?;
    let before = Inventory::take(&client).await?;
    lab.apply(json!({})).await?;
    lab.until(State::Ready).await?;
    stuck(&lab, manager).await?;

    // Somebody takes the finalizer off by hand.
    let patch = json!({ "metadata": { "finalizers": null } });
    lab.modules
        .patch(MODULE_NAME, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let name = "gpumodules.operator.kyma-project.io";
    let crd = crds.get(name).await?;
    crds.delete(name, &DeleteParams::default()).await?;
    let gone = async {
        while crds.get_opt(name).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok::<_, kube::Error>(())
    };
    timeout(STEP, gone).await.context("the CRD is still there")??;

    let done = cleanup(&lab, &["--yes", "--crds", "delete"]).await?;
    done.ensure(true, &["nothing stays in the cluster", "clean: "])?;

    let spec = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name },
        "spec": crd.spec,
    });
    let params = PatchParams::apply("kubectl").force();
    crds.patch(name, &params, &Patch::Apply(&spec)).await?;
    drop(before);
    let rest = cleanup(&lab, &[]).await?;
    rest.ensure(true, &["nothing of the module is in the cluster"])
}
