//! The operands that ClusterPolicy deploys on GPU nodes, beside the driver.
//!
//! One row per operand: which DaemonSet it is, which label of a node lets it on, what must be there
//! before it, and which objects it brings along.

/// Which part of ClusterPolicy names an image.
pub type Part = &'static str;

/// One operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// The controller's name for it in status messages.
    pub state: &'static str,
    /// Part of ClusterPolicy with `enabled`, image and settings.
    pub part: Part,
    /// Whether it is on when ClusterPolicy does not say.
    pub default: bool,
    /// Name of its DaemonSet and its label `app`.
    pub name: &'static str,
    /// Label `app.kubernetes.io/part-of`.
    pub part_of: Option<&'static str>,
    /// OpenShift's annotation, which the controller writes everywhere.
    pub scc: Option<&'static str>,
    /// Node label under `nvidia.com/gpu.deploy.` that lets it on.
    pub deploy: &'static str,
    /// Further node labels that must be `true`.
    pub also_needs: &'static [&'static str],
    /// ServiceAccount of its Pods.
    pub service_account: &'static str,
    /// Init containers and the part whose image they use.
    pub init: &'static [(&'static str, Part)],
    /// Name of its container.
    pub container: &'static str,
    /// Environment variable of the controller with the image to use if ClusterPolicy names none.
    pub image_variable: &'static str,
    /// Whether its Pods need the `nvidia` RuntimeClass.
    pub runtime_class: bool,
    /// Switches in the spec of its Pods.
    pub pod_flags: &'static [(&'static str, bool)],
    /// Whether it brings a ClusterRole and its binding.
    pub cluster_role: bool,
    /// ConfigMaps that it brings.
    pub config_maps: &'static [&'static str],
    /// Whether it brings a Service, and on which port.
    pub service_port: Option<u16>,
}

const NONE: Operand = Operand {
    state: "",
    part: "",
    default: true,
    name: "",
    part_of: None,
    scc: None,
    deploy: "",
    also_needs: &[],
    service_account: "",
    init: &[("toolkit-validation", "validator")],
    container: "",
    image_variable: "",
    runtime_class: true,
    pod_flags: &[],
    cluster_role: false,
    config_maps: &[],
    service_port: None,
};

/// All operands, in the order in which the controller looks at them.
pub const OPERANDS: [Operand; 9] = [
    Operand {
        state: "state-container-toolkit",
        part: "toolkit",
        name: super::names::TOOLKIT_APP,
        scc: Some("hostmount-anyuid"),
        deploy: "container-toolkit",
        service_account: "nvidia-container-toolkit",
        init: &[("driver-validation", "validator")],
        container: "nvidia-container-toolkit-ctr",
        image_variable: "CONTAINER_TOOLKIT_IMAGE",
        runtime_class: false,
        pod_flags: &[("hostPID", true)],
        config_maps: &["nvidia-container-toolkit-entrypoint"],
        ..NONE
    },
    Operand {
        state: "state-operator-validation",
        part: "validator",
        name: super::names::VALIDATOR_APP,
        part_of: Some("gpu-operator"),
        deploy: "operator-validator",
        service_account: "nvidia-operator-validator",
        init: &[
            ("driver-validation", "validator"),
            ("toolkit-validation", "validator"),
            ("cuda-validation", "validator"),
            ("plugin-validation", "validator"),
        ],
        container: "nvidia-operator-validator",
        image_variable: "VALIDATOR_IMAGE",
        cluster_role: true,
        ..NONE
    },
    Operand {
        state: "state-device-plugin",
        part: "devicePlugin",
        name: super::names::DEVICE_PLUGIN_APP,
        scc: Some("hostmount-anyuid"),
        deploy: "device-plugin",
        service_account: "nvidia-device-plugin",
        container: "nvidia-device-plugin",
        image_variable: "DEVICE_PLUGIN_IMAGE",
        cluster_role: true,
        config_maps: &["nvidia-device-plugin-entrypoint"],
        ..NONE
    },
    Operand {
        state: "state-mps-control-daemon",
        part: "devicePlugin",
        name: "nvidia-device-plugin-mps-control-daemon",
        scc: Some("hostmount-anyuid"),
        deploy: "device-plugin",
        also_needs: &["nvidia.com/mps.capable"],
        service_account: "nvidia-device-plugin",
        init: &[
            ("toolkit-validation", "validator"),
            ("mps-control-daemon-mounts", "devicePlugin"),
        ],
        container: "mps-control-daemon-ctr",
        image_variable: "DEVICE_PLUGIN_IMAGE",
        pod_flags: &[("hostPID", true)],
        cluster_role: true,
        ..NONE
    },
    Operand {
        state: "state-dcgm",
        part: "dcgm",
        default: false,
        name: "nvidia-dcgm",
        scc: Some("hostmount-anyuid"),
        deploy: "dcgm",
        service_account: "nvidia-dcgm",
        container: "nvidia-dcgm-ctr",
        image_variable: "DCGM_IMAGE",
        service_port: Some(5555),
        ..NONE
    },
    Operand {
        state: "state-dcgm-exporter",
        part: "dcgmExporter",
        name: "nvidia-dcgm-exporter",
        scc: Some("nvidia-dcgm-exporter"),
        deploy: "dcgm-exporter",
        service_account: "nvidia-dcgm-exporter",
        container: "nvidia-dcgm-exporter",
        image_variable: "DCGM_EXPORTER_IMAGE",
        pod_flags: &[("automountServiceAccountToken", false)],
        service_port: Some(9400),
        ..NONE
    },
    Operand {
        state: "gpu-feature-discovery",
        part: "gfd",
        name: super::names::GFD_APP,
        part_of: Some("nvidia-gpu"),
        deploy: "gpu-feature-discovery",
        service_account: "nvidia-gpu-feature-discovery",
        container: "gpu-feature-discovery",
        image_variable: "GFD_IMAGE",
        cluster_role: true,
        ..NONE
    },
    Operand {
        state: "state-mig-manager",
        part: "migManager",
        name: super::names::MIG_MANAGER_APP,
        deploy: "mig-manager",
        service_account: "nvidia-mig-manager",
        container: "nvidia-mig-manager",
        image_variable: "MIG_MANAGER_IMAGE",
        pod_flags: &[("hostPID", true), ("hostIPC", true)],
        cluster_role: true,
        config_maps: &[
            "nvidia-mig-manager-entrypoint",
            "default-gpu-clients",
            "default-mig-parted-config",
        ],
        ..NONE
    },
    Operand {
        state: "state-node-status-exporter",
        part: "nodeStatusExporter",
        default: false,
        name: "nvidia-node-status-exporter",
        deploy: "node-status-exporter",
        service_account: "nvidia-node-status-exporter",
        init: &[],
        container: "nvidia-node-status-exporter",
        image_variable: "VALIDATOR_IMAGE",
        runtime_class: false,
        cluster_role: true,
        service_port: Some(8000),
        ..NONE
    },
];

impl Operand {
    /// The name under which the operand's own account and roles go, which for one operand is not
    /// the account that its Pods use.
    pub fn account_name(&self) -> &'static str {
        if self.name == "nvidia-device-plugin-mps-control-daemon" {
            self.name
        } else {
            self.service_account
        }
    }
}
