//! Pods of NVIDIA's stack.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Affinity, ContainerStatus, PodStatus};
use kube::ResourceExt;
use kube::core::Object;
use serde::{Deserialize, Serialize};

use crate::facts::{DriverPod, OperandPod, Part, PodState, told};

/// What selects the Pods of the stack in the release's namespace: those of DaemonSets, without the parts that no GPU waits for.
pub const OPERAND_PODS: &str = "controller-revision-hash,app notin (gpu-feature-discovery,nvidia-dcgm,nvidia-dcgm-exporter,\
     nvidia-device-plugin-mps-control-daemon,nvidia-mig-manager,nvidia-node-status-exporter)";

/// Why a container waits that has no image.
const IMAGE_TROUBLE: [&str; 6] = [
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
];

/// What registries say, through containerd and the kubelet, of an image that does not exist.
const ABSENT: [&str; 3] = ["not found", "NotFound", "manifest unknown"];

/// From so many restarts on a container that runs counts as one that ends again and again: the kubelet says so only while it pauses.
const RESTARTS_OF_A_LOOP: u32 = 3;

/// After running for so long a container's next end is a new trouble; the kubelet begins its pauses anew then, too.
const LONG_RUN: SignedDuration = SignedDuration::from_mins(10);

/// Node label by which a driver's DaemonSet chooses nodes of one kernel.
const KERNEL_LABEL: &str = "feature.node.kubernetes.io/kernel-version.full";

/// A Pod of which only what is needed here is read: a whole one takes ten times the memory.
pub type SlimPod = Object<SlimPodSpec, PodStatus>;

/// The part of a Pod's spec that is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodSpec {
    node_name: Option<String>,
    node_selector: BTreeMap<String, String>,
    affinity: Option<Affinity>,
    containers: Vec<SlimContainer>,
}

/// The part of a container that is read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SlimContainer {
    image: String,
}

/// A Pod of the stack. Of Node Feature Discovery only those that are not ready: it also runs where there is no GPU.
pub fn operand_pod(pod: &SlimPod) -> Option<OperandPod> {
    let part = part(pod.labels())?;
    let status = pod.status.as_ref();
    let state = state(pod, status);
    if part == Part::NodeFeatureDiscovery && state == PodState::Ready {
        return None;
    }
    Some(OperandPod {
        node: node(&pod.spec)?.into(),
        part,
        since: since(pod, status),
        state,
        driver: (part == Part::Driver).then(|| driver(&pod.spec)).flatten(),
    })
}

fn part(labels: &BTreeMap<String, String>) -> Option<Part> {
    let label = |key: &str| labels.get(key).map(String::as_str);
    // Where a NVIDIADriver describes it, label `app` of a driver has a name with a hash.
    if label("app.kubernetes.io/component") == Some("nvidia-driver") {
        return Some(Part::Driver);
    }
    match label("app") {
        Some("nvidia-container-toolkit-daemonset") => Some(Part::Toolkit),
        Some("nvidia-device-plugin-daemonset") => Some(Part::DevicePlugin),
        Some("nvidia-operator-validator") => Some(Part::Validator),
        _ => (label("app.kubernetes.io/name") == Some("node-feature-discovery")
            && label("role") == Some("worker"))
        .then_some(Part::NodeFeatureDiscovery),
    }
}

/// The node of the Pod; as long as it is not scheduled, the one that its DaemonSet means it for.
fn node(spec: &SlimPodSpec) -> Option<&str> {
    let meant = || {
        let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()?;
        let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
        fields.first()?.values.as_ref()?.first().map(String::as_str)
    };
    spec.node_name.as_deref().or_else(meant)
}

fn driver(spec: &SlimPodSpec) -> Option<DriverPod> {
    Some(DriverPod {
        image: spec.containers.first()?.image.as_str().into(),
        kernel: spec
            .node_selector
            .get(KERNEL_LABEL)
            .map(|kernel| kernel.as_str().into()),
    })
}

fn state(pod: &SlimPod, status: Option<&PodStatus>) -> PodState {
    if pod.metadata.deletion_timestamp.is_some() {
        return PodState::Leaving;
    }
    let Some(status) = status else {
        return PodState::Starting;
    };
    if holds(status, "Ready") == Some(true) {
        return PodState::Ready;
    }
    let initial = status.init_container_statuses.iter().flatten();
    let containers = initial.chain(status.container_statuses.iter().flatten());
    containers
        .filter(|container| !container.ready)
        .find_map(trouble)
        .unwrap_or_else(|| match holds(status, "PodScheduled") {
            Some(false) => PodState::Unschedulable,
            _ => PodState::Starting,
        })
}

fn trouble(container: &ContainerStatus) -> Option<PodState> {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let message = waiting.and_then(|waiting| waiting.message.as_deref());
    let waiting = waiting.and_then(|waiting| waiting.reason.as_deref());
    let restarts = u32::try_from(container.restart_count).unwrap_or(0);
    match waiting {
        Some(reason) if IMAGE_TROUBLE.contains(&reason) => {
            let said = message.unwrap_or_default();
            Some(PodState::ImageMissing {
                image: container.image.as_str().into(),
                is_absent: ABSENT.iter().any(|words| said.contains(words)),
            })
        }
        _ if waiting == Some("CrashLoopBackOff")
            || (restarts >= RESTARTS_OF_A_LOOP && ended_soon(container)) =>
        {
            Some(PodState::CrashLoop {
                restarts: round_down(restarts),
            })
        }
        _ => None,
    }
}

/// True where the container's last run failed soon after its start. A restart of the node is an end after a long run.
fn ended_soon(container: &ContainerStatus) -> bool {
    let last = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    last.is_some_and(|last| {
        let ran = last
            .finished_at
            .as_ref()
            .zip(last.started_at.as_ref())
            .map(|(end, begin)| end.0.duration_since(begin.0));
        last.exit_code != 0 && ran.is_some_and(|ran| ran < LONG_RUN)
    })
}

/// The largest power of two that is not above `number`.
fn round_down(number: u32) -> u32 {
    number.checked_ilog2().map_or(0, |power| 1 << power)
}

fn holds(status: &PodStatus, condition: &str) -> Option<bool> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|found| found.type_ == condition)
        .map(|found| found.status == "True")
        .next()
}

/// When the Pod last became ready or ceased to be, or when it came.
fn since(pod: &SlimPod, status: Option<&PodStatus>) -> Timestamp {
    let conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let changed = conditions
        .filter(|condition| condition.type_ == "Ready")
        .find_map(|condition| condition.last_transition_time.as_ref());
    let leaving = pod.metadata.deletion_timestamp.as_ref();
    leaving
        .or(changed)
        .or(pod.metadata.creation_timestamp.as_ref())
        .map_or(Timestamp::UNIX_EPOCH, |time| told(time.0))
}
