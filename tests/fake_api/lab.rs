//! The operator's watches, reconciler and controller on the fake API, with the fake helm.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpu_manager::act::{Actor, ChartFolder};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::contact::Contacts;
use gpu_manager::controller;
use gpu_manager::desired::file_digest;
use gpu_manager::helm::{self, ApiAccess, Helm, Interrupter};
use gpu_manager::lease::{Leadership, Mandate};
use gpu_manager::metrics::Metrics;
use gpu_manager::observe::Views;
use gpu_manager::publish::Publisher;
use gpu_manager::reconcile::Context;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::helm::FakeHelm;
use crate::server::{FakeApi, GPU_MODULES, NODES};
use crate::time::StandingTime;

/// Time between two looks at what has happened.
const STEP: Duration = Duration::from_millis(500);

/// Everything of one test.
pub struct Lab {
    pub api: FakeApi,
    pub helm: FakeHelm,
    pub views: Views,
    pub metrics: Metrics,
    time: StandingTime,
    leads: Arc<AtomicBool>,
    _stop: DropGuard,
    _interrupter: Interrupter,
}

impl Lab {
    /// Starts the operator on an empty cluster.
    pub async fn start() -> Self {
        Self::start_on(FakeApi::new()).await
    }

    /// Starts the operator and waits until its watches have been answered.
    pub async fn start_on(api: FakeApi) -> Self {
        let time = StandingTime::begin();
        let fake = FakeHelm::install();
        api.show_releases_of(fake.revisions());
        let (interrupter, interrupt) = helm::interrupt();
        let helm = Helm::open(
            helm::Settings {
                binary: fake.binary(),
                work_dir: fake.work_dir(),
                api: ApiAccess::Kubeconfig("unused".into()),
                environment: vec![],
            },
            interrupt,
        )
        .await
        .expect("the fake helm");
        let metrics = Metrics::new();
        let contacts = Contacts::new(metrics.api_requests());
        let client = api.client(&contacts);
        let catalogue = catalogue(&fake);
        let stop = CancellationToken::new();
        let leads = Arc::new(AtomicBool::new(true));
        let views = Views::start(&client, &contacts, &TaskTracker::new(), &stop);
        let context = Context {
            clock: Box::new(time.clock()),
            mandates: {
                let leads = Arc::clone(&leads);
                Box::new(move || mandate(leads.load(Ordering::Relaxed)))
            },
            foreign_operation_limit: SignedDuration::from_mins(10),
            catalogue,
            views: views.clone(),
            actor: Actor {
                client: client.clone(),
                helm,
                kinds: views.kinds(),
                charts: ChartFolder::new(fake.charts()),
                own_namespace: "kyma-system".to_owned(),
                identity: "gpu-manager-0".to_owned(),
                metrics: metrics.clone(),
            },
            publisher: Publisher::new(client.clone(), "gpu-manager-0".to_owned()),
            metrics: metrics.clone(),
            kubernetes: Mutex::new("1.36".parse().expect("a version")),
            memory: Mutex::new(None),
        };
        time.settle(&api).await;
        assert!(views.are_settled(), "not all watches were answered");
        tokio::spawn(controller::run(client, Arc::new(context), stop.clone()));
        time.settle(&api).await;
        Self {
            api,
            helm: fake,
            views,
            metrics,
            time,
            leads,
            _stop: stop.drop_guard(),
            _interrupter: interrupter,
        }
    }

    /// Starts the operator, installs the defaults, and lets NVIDIA's operator say that all is well.
    pub async fn installed() -> Self {
        let lab = Self::start().await;
        lab.create_module(&json!({}));
        lab.settle().await;
        lab.api.put("clusterpolicies.nvidia.com", ready_policy());
        lab.settle().await;
        let status = lab.api.status();
        assert_eq!(status["state"], "Ready", "{status:#}");
        lab
    }

    /// Waits until nothing more happens without time going on.
    pub async fn settle(&self) {
        self.time.settle(&self.api).await;
    }

    /// Takes the Lease away without telling, as a process finds it that was stopped for a while, or gives it back.
    pub fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    /// Lets time go on.
    pub async fn advance(&self, by: Duration) {
        self.time.advance(&self.api, by, STEP).await;
    }

    /// Lets time go on in coarse steps.
    pub async fn advance_fast(&self, by: Duration) {
        self.time.advance(&self.api, by, Duration::from_secs(5)).await;
    }

    /// Creates the GpuModule.
    pub fn create_module(&self, spec: &Value) {
        self.api.put(
            GPU_MODULES,
            json!({ "apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "GpuModule",
                "metadata": { "name": "default" }, "spec": spec }),
        );
    }

    /// Changes the spec and returns its generation.
    pub fn change_spec(&self, spec: Value) -> i64 {
        let module = self
            .api
            .edit(GPU_MODULES, "default", |module| module["spec"] = spec);
        module["metadata"]["generation"].as_i64().expect("a number")
    }

    /// The state in the status.
    pub fn state(&self) -> String {
        self.api.status()["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Reason of condition `Installed`.
    pub fn installed_reason(&self) -> String {
        let condition = self.api.condition("Installed");
        condition["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Creates or replaces a node with so many GPUs for Pods.
    pub fn put_node(&self, name: &str, gpus: u32, heartbeat: u64) {
        self.api.put(NODES, node(name, gpus, heartbeat));
    }
}

/// The compiled-in catalogue with a stand-in for each chart's archive.
fn catalogue(helm: &FakeHelm) -> Catalogue {
    let (charts, data) = (helm.charts(), tempfile::tempdir().expect("a folder"));
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart-values");
    for folder in [&charts, &data.path().join("charts")] {
        fs::create_dir(folder).expect("a folder");
    }
    for entry in fs::read_dir(&original)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        if entry.path().is_file() {
            fs::copy(entry.path(), data.path().join(entry.file_name())).expect("a file");
        }
    }
    for chart in Catalogue::compiled_in().expect("the catalogue").charts() {
        let content = format!("stands in for {}", chart.archive());
        fs::write(charts.join(chart.archive()), &content).expect("a file");
        let entry = format!("charts/{}.yaml", chart.version);
        let text = fs::read_to_string(original.join(&entry)).expect("an entry");
        let text = text.replace(&chart.sha256, &file_digest(content.as_bytes()));
        fs::write(data.path().join(&entry), text).expect("a file");
    }
    Catalogue::from_folder(data.path()).expect("a catalogue")
}

/// ClusterPolicy of the module's release, as NVIDIA's operator leaves it when all is well.
pub fn ready_policy() -> Value {
    json!({ "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
        "metadata": { "name": "cluster-policy", "annotations": {
            "meta.helm.sh/release-name": "gpu-operator", "meta.helm.sh/release-namespace": "gpu-operator" } },
        "spec": {}, "status": { "state": "ready" } })
}

fn node(name: &str, gpus: u32, heartbeat: u64) -> Value {
    let gpus = gpus.to_string();
    // It has a driver of its own: no Pod of the stack runs here.
    let labels = json!({ "node.kubernetes.io/instance-type": "g4dn.xlarge", "nvidia.com/gpu.deploy.driver": "pre-installed" });
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels,
            "managedFields": [{ "manager": "kubelet", "time": "2026-11-30T08:00:00Z", "operation": heartbeat.to_string() }] },
        "spec": {},
        "status": {
            "capacity": { "cpu": "4", "nvidia.com/gpu": gpus },
            "allocatable": { "cpu": "4", "nvidia.com/gpu": gpus },
            "images": [{ "names": [format!("image-{heartbeat}")], "sizeBytes": heartbeat }],
            "conditions": [{ "type": "Ready", "status": "True",
                "lastHeartbeatTime": jiff::Timestamp::from_second(1_800_000_000 + heartbeat.cast_signed()).expect("a time") }],
        } })
}

/// The fake API has no Lease, so the test says whether it is held.
fn mandate(leads: bool) -> Option<Mandate> {
    let now = Instant::now();
    let until = if leads { now + STEP } else { now };
    Leadership::Leading { until }.mandate_at(now)
}
