//! Running work is protected: a change that would restart drivers waits for it, and everything else goes on.

use anyhow::{Context as _, Result, ensure};
use e2e::demo::Workload;
use e2e::wait::eventually;
use gpu_manager::api::{ANNOTATION_RECONCILE_AT, ConditionType, GpuModuleStatus, State, condition};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use rustix::process::Signal;
use serde_json::json;

use crate::lab::{Lab, STEP, http, message, reason};

/// A cluster in which a Pod of a user has a GPU.
pub struct Busy {
    pub lab: Lab,
    work: Workload,
    uid: String,
}

/// Name of the Pod.
const POD: &str = "train";

impl Busy {
    /// Starts the Pod once the module is Ready.
    pub async fn begin(lab: Lab) -> Result<Self> {
        lab.until(State::Ready).await?;
        let work = Workload::create(lab.cluster.client(), "team").await?;
        work.start(POD, "pytorch", &["train"], 1).await?;
        let pod = work.until_phase(POD, &["Running"], STEP).await?;
        let uid = pod.uid().context("a Pod without UID")?;
        Ok(Self { lab, work, uid })
    }

    /// Fails unless the Pod runs as before.
    pub async fn ensure_runs(&self) -> Result<()> {
        let pod: Pod = self.work.pods().get(POD).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(
            pod.uid().as_ref() == Some(&self.uid)
                && phase == Some("Running")
                && pod.metadata.deletion_timestamp.is_none(),
            "{pod:?}"
        );
        Ok(())
    }

    /// The Pod ends.
    pub async fn end(&self) -> Result<()> {
        self.work.pods().delete(POD, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until a driver change waits for that reason in a cluster that is called Ready.
    async fn until_waits(&self, why: &str) -> Result<GpuModuleStatus> {
        let status = self
            .lab
            .until_status(
                &format!("Ready with a driver change that waits: {why}"),
                |status| {
                    status.state == State::Ready && reason(status, ConditionType::DriverChangePending) == why
                },
            )
            .await?;
        let text = message(&status, ConditionType::DriverChangePending);
        ensure!(status.description.ends_with(text), "{}", status.description);
        Ok(status)
    }

    async fn until_nothing_waits(&self) -> Result<()> {
        self.lab
            .until_status("Ready without a driver change that waits", |status| {
                status.state == State::Ready
                    && reason(status, ConditionType::DriverChangePending) == "NoDriverChange"
            })
            .await?;
        Ok(())
    }

    /// Says when the shoot is maintained.
    async fn maintain(&self, begin: &str, end: &str) -> Result<()> {
        let maps = Api::<ConfigMap>::namespaced(self.lab.cluster.client(), "kube-system");
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "shoot-info" },
            "data": { "maintenanceBegin": begin, "maintenanceEnd": end },
        });
        maps.patch("shoot-info", &PatchParams::apply("gardener"), &Patch::Apply(&map))
            .await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_change_waits_for_a_gpu_pod_also_beyond_a_restart() -> Result<()> {
    let lab = Lab::start().await?;
    let mut manager = lab.ready().await?;
    let drivers = lab.running_drivers().await?;
    let busy = Busy::begin(lab).await?;
    let lab = &busy.lab;

    lab.apply(json!({ "driver": { "branch": 590 }, "values": { "mig": { "strategy": "mixed" } } }))
        .await?;
    let status = busy.until_waits("WaitingForIdle").await?;
    lab.until_revision(2).await?;
    let text = message(&status, ConditionType::DriverChangePending);
    ensure!(
        text == "the change from driver 580 to 590 waits for 1 Pod that uses a GPU (team/train)",
        "{text}"
    );
    ensure!(lab.cluster_policy().await?["spec"]["mig"]["strategy"] == "mixed");
    let object = lab.nvidia_driver().await?;
    ensure!(
        object["spec"]["version"] == "590" && object["spec"]["upgradePolicy"]["autoUpgrade"] == false,
        "{}",
        object["spec"]
    );
    // NVIDIA's operator has taken the change in, and calls what runs outdated.
    lab.until_driver_daemon_sets(":590-").await?;
    busy.until_waits("WaitingForIdle").await?;
    let since = condition(&status, ConditionType::DriverChangePending)
        .context("no condition")?
        .last_transition_time
        .0;
    let (_, metrics) = http::get(manager.metrics, "/metrics").await?;
    let expected = format!(
        "gpu_manager_driver_change_pending_since_timestamp_seconds {}",
        since.as_second()
    );
    ensure!(metrics.contains(&expected), "{metrics}");

    manager.process.signal(Signal::TERM)?;
    manager.process.wait(STEP).await?;
    let again = lab.manager().await?;
    let written = lab.module().await?.resource_version();
    eventually("two looks at GPU work", STEP, async || {
        let log = again.process.log();
        let looks = log.matches("decided plan=Read(GpuWork)").count();
        ensure!(looks >= 2, "{looks} looks");
        Ok(())
    })
    .await?;
    ensure!(
        lab.module().await?.resource_version() == written,
        "{}",
        lab.logs()
    );
    ensure!(lab.history().await?.len() == 2, "{:?}", lab.history().await?);
    let status = busy.until_waits("WaitingForIdle").await?;
    let kept = condition(&status, ConditionType::DriverChangePending).context("no condition")?;
    ensure!(kept.last_transition_time.0 == since, "{kept:?}");
    busy.ensure_runs().await?;

    busy.end().await?;
    lab.until_revision(3).await?;
    lab.until_drivers_run(|pod| pod.image.contains(":590-")).await?;
    busy.until_nothing_waits().await?;
    lab.ensure_drivers_outlived(&drivers, 3)?;
    ensure!(lab.history().await?.len() == 3, "{:?}", lab.history().await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_upgrade_goes_on_but_for_its_drivers() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    lab.until(State::Ready).await?;
    let drivers = lab.running_drivers().await?;
    let busy = Busy::begin(lab).await?;
    let lab = &busy.lab;

    // Before 26.7 the ClusterPolicy describes the driver, and NVIDIA's operator calls it not ready while it is held.
    lab.apply(json!({ "chartVersion": "26.3.3", "driver": { "branch": 590 } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until_driver_daemon_sets(":590-").await?;
    eventually("a ClusterPolicy that is not ready", STEP, async || {
        let status = lab.cluster_policy().await?["status"].clone();
        ensure!(status["state"] == "notReady", "{status}");
        Ok(())
    })
    .await?;
    busy.until_waits("WaitingForIdle").await?;

    lab.apply(json!({ "driver": { "branch": 590 } })).await?;
    for revision in 3..=4 {
        lab.until_revision(revision).await?;
    }
    let status = busy.until_waits("WaitingForIdle").await?;
    let text = message(&status, ConditionType::DriverChangePending);
    ensure!(
        text.starts_with("the change from driver 580 to 590, chart 26.3.3 to 26.7.0 waits for"),
        "{text}"
    );
    let release = status.release.context("no release")?;
    ensure!(
        release.chart_version == "26.7.0" && release.revision == 4,
        "{release:?}"
    );
    busy.ensure_runs().await?;

    busy.end().await?;
    lab.until_revision(5).await?;
    lab.until_drivers_run(|pod| pod.app.starts_with("nvidia-gpu-driver-"))
        .await?;
    busy.until_nothing_waits().await?;
    lab.ensure_drivers_outlived(&drivers, 5)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_mode_waits_as_a_whole_and_can_be_taken_back_or_forced() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let drivers = lab.running_drivers().await?;
    let busy = Busy::begin(lab).await?;
    let lab = &busy.lab;

    let preinstalled = json!({ "mode": "Preinstalled" });
    lab.apply(json!({ "driver": preinstalled })).await?;
    let status = busy.until_waits("WaitingForIdle").await?;
    let text = message(&status, ConditionType::DriverChangePending);
    ensure!(text.contains("from driver 580 to preinstalled"), "{text}");
    ensure!(
        text.ends_with("nothing else of the spec is applied before"),
        "{text}"
    );
    lab.apply(json!({})).await?;
    busy.until_nothing_waits().await?;
    ensure!(lab.history().await?.len() == 1, "{:?}", lab.history().await?);
    busy.ensure_runs().await?;

    lab.apply(json!({ "driver": preinstalled })).await?;
    busy.until_waits("WaitingForIdle").await?;
    lab.apply(json!({ "driver": preinstalled, "upgrade": { "policy": "Immediate" } }))
        .await?;
    lab.until_revision(2).await?;
    lab.until_drivers_gone(&drivers, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_is_waited_for_whatever_runs() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    let drivers = lab.running_drivers().await?;
    let busy = Busy::begin(lab).await?;
    let lab = &busy.lab;

    lab.apply(json!({ "driver": { "branch": 590 }, "upgrade": { "policy": "Window" } }))
        .await?;
    let status = busy.until_waits("WindowUnreadable").await?;
    let text = message(&status, ConditionType::DriverChangePending);
    ensure!(
        text.contains("there is no ConfigMap kube-system/shoot-info"),
        "{text}"
    );

    // A window that is as far away as it can be, in an offset of its own.
    let hour = |later: i64| {
        let at =
            k8s_openapi::jiff::Timestamp::now() + k8s_openapi::jiff::SignedDuration::from_hours(later + 1);
        at.strftime("%H%M%S+0100").to_string()
    };
    busy.maintain(&hour(11), &hour(12)).await?;
    lab.annotate(ANNOTATION_RECONCILE_AT, "1").await?;
    let status = busy.until_waits("WaitingForWindow").await?;
    let text = message(&status, ConditionType::DriverChangePending);
    ensure!(text.contains("which opens next at 20"), "{text}");
    ensure!(lab.history().await?.len() == 2, "{:?}", lab.history().await?);
    busy.ensure_runs().await?;

    busy.maintain(&hour(-1), &hour(1)).await?;
    lab.annotate(ANNOTATION_RECONCILE_AT, "2").await?;
    lab.until_revision(3).await?;
    lab.until_drivers_run(|pod| pod.image.contains(":590-")).await?;
    busy.until_nothing_waits().await?;
    lab.ensure_drivers_outlived(&drivers, 3)
}
