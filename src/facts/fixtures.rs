//! Facts for tests, each the plainest of its kind.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semver::Version;

use super::{
    CrdFacts, DaemonSetFacts, DriverImage, DriverPod, FeatureLabels, GpuLabels, HelmOwner, History, Leavings,
    Left, NodeFacts, Observed, OperandPod, OperandPods, Part, PodState, PolicyFacts, ReleaseFacts, Revision,
    SurroundingNamespace, Surroundings, SystemFacts,
};
use crate::api::{
    CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD, NodeFeatureDiscovery, RELEASE_NAME, RELEASE_NAMESPACE,
    ReleaseStatus,
};
use crate::catalogue::DriverLayout;
use crate::helm::RevisionStatus;

/// The time of every test that needs none in particular.
pub const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// An empty cluster in which the module may act, with the CRDs that an earlier install left.
pub fn observed() -> Observed {
    Observed {
        unread: Vec::new(),
        release: ReleaseFacts::Read(History::default()),
        comparison: None,
        gpu_work: None,
        driver_upgrades: None,
        gpu_clusters: Some(false),
        // What is left is told by the tests of a removal.
        left: Leavings::ALL.map(|what| (what, Left::default())).into(),
        maintenance: None,
        existing: None,
        surroundings: Some(Surroundings {
            namespace: SurroundingNamespace::Ours,
            departure: None,
            cluster_role: None,
        }),
        gpu_nodes: Vec::new(),
        pools_without_gpu: BTreeMap::new(),
        former_gpu_nodes: Vec::new(),
        operand_pods: Some(OperandPods::default()),
        missing_pull_secrets: None,
        policies: Vec::new(),
        drivers: Vec::new(),
        daemon_sets: Vec::new(),
        neighbours: Vec::new(),
        controller_runs: false,
        crds: [CLUSTER_POLICY_CRD, NVIDIA_DRIVER_CRD]
            .map(|name| (name.to_owned(), crd(Some("d"))))
            .into(),
        objects: BTreeMap::new(),
        kubernetes: "1.36".parse().unwrap(),
    }
}

/// A history that the module made, revisions numbered from 1.
pub fn history(statuses: &[RevisionStatus], fingerprint: &str) -> ReleaseFacts {
    let revision = |(number, status): (u32, &RevisionStatus)| Revision {
        number,
        uid: number.to_string(),
        status: *status,
        created: NOW,
        changed: NOW,
        fingerprint: Some(fingerprint.to_owned()),
        by: Some("gpu-manager-0".to_owned()),
        meant: Some(number),
        chart: Some(Version::new(26, 7, 0)),
        node_feature_discovery: Some(NodeFeatureDiscovery::Module),
        layout: Some(DriverLayout::NvidiaDriver),
        driver: None,
        driver_upgrades: None,
    };
    ReleaseFacts::Read(History::new((1..).zip(statuses).map(revision).collect()))
}

/// What the status says of that release.
pub fn recorded(revision: i64) -> ReleaseStatus {
    ReleaseStatus {
        name: RELEASE_NAME.to_owned(),
        namespace: RELEASE_NAMESPACE.to_owned(),
        chart_version: "26.7.0".to_owned(),
        app_version: "v26.7.0".to_owned(),
        revision,
        values_digest: String::new(),
    }
}

/// A release in the module's namespace.
pub fn owner(release: &str) -> HelmOwner {
    HelmOwner {
        release: release.to_owned(),
        namespace: RELEASE_NAMESPACE.to_owned(),
    }
}

/// ClusterPolicy `cluster-policy`.
pub fn policy(owner: Option<HelmOwner>, state: Option<&str>) -> PolicyFacts {
    PolicyFacts {
        name: "cluster-policy".to_owned(),
        owner,
        chart: None,
        drivers_enabled: true,
        state: state.map(ToOwned::to_owned),
        error: None,
    }
}

/// A CRD that was applied with that digest and is unchanged since; without one, somebody else's.
pub fn crd(spec_digest: Option<&str>) -> CrdFacts {
    CrdFacts {
        spec_digest: spec_digest.map(ToOwned::to_owned),
        as_applied: spec_digest.is_some(),
        generation: 1,
        terminating: false,
    }
}

/// The driver image that the defaults ask for on a [`node`].
pub const DRIVER_IMAGE: &str =
    "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:580-6.18.38-cloud-amd64-gardenlinux0";

/// A Pod of the stack on a node, in that state since [`NOW`]; a driver's is for the kernel of a [`node`].
pub fn pod(node: &str, part: Part, state: PodState) -> OperandPod {
    let driver = || DriverPod {
        image: DRIVER_IMAGE.into(),
        kernel: Some("6.18.38-cloud-amd64".into()),
    };
    OperandPod {
        node: node.into(),
        part,
        state,
        since: NOW,
        driver: (part == Part::Driver).then(driver),
    }
}

/// All Pods that a node needs, ready.
pub fn ready_pods(node: &str) -> Vec<OperandPod> {
    [Part::Driver, Part::Toolkit, Part::DevicePlugin, Part::Validator]
        .map(|part| pod(node, part, PodState::Ready))
        .into()
}

/// NVIDIA's DaemonSets, a driver's for [`DRIVER_IMAGE`] among them.
pub fn daemon_sets() -> Vec<DaemonSetFacts> {
    [
        "nvidia-gpu-driver-gardenlinux0-1",
        "nvidia-container-toolkit-daemonset",
        "nvidia-device-plugin-daemonset",
        "nvidia-operator-validator",
    ]
    .map(|name| DaemonSetFacts {
        terminating: false,
        name: name.to_owned(),
        desired: 1,
        ready: 1,
        updated: 1,
        driver: name.contains("driver").then(|| DriverImage {
            uid: String::new(),
            owner: "gardenlinux-precompiled".to_owned(),
            image: DRIVER_IMAGE.to_owned(),
        }),
    })
    .into()
}

/// A GPU node, created at [`NOW`].
pub fn node(name: &str, allocatable: u64) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        pool: Some("gpu".to_owned()),
        instance_type: Some("g4dn.xlarge".to_owned()),
        shows_gpu: true,
        system: SystemFacts {
            os_image: "Garden Linux 2150.7.0".to_owned(),
            kernel: "6.18.38-cloud-amd64".to_owned(),
            architecture: "amd64".to_owned(),
        },
        features: FeatureLabels::Complete,
        gpu: GpuLabels::default(),
        operands: None,
        created: NOW,
        ready: true,
        ready_since: NOW,
        leaving: false,
        schedulable: true,
        capacity: allocatable,
        allocatable,
        driver_change: None,
        has_own_driver: false,
        machine_update: None,
    }
}
