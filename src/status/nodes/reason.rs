//! Why Pods cannot get the GPUs of a node: one word, what it means, what to do, and whose affair it is.

/// Why Pods cannot get the GPUs of a node, in the order in which the causes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeReason {
    /// It runs an operating system for which there are no drivers.
    ForeignOperatingSystem,
    /// It has an architecture for which there are no drivers.
    UnsupportedArchitecture,
    /// The driver branch has no driver for its version of Garden Linux.
    ExcludedDriver,
    /// The driver image for its kernel cannot be pulled.
    DriverImageMissing,
    /// NVIDIA's operator gave up replacing its driver.
    UpgradeFailed,
    /// The driver's Pod ends again and again.
    DriverCrashLoop,
    /// Gardener could not update its machine in place.
    NodeUpdateFailed,
    /// It is cordoned, and neither by NVIDIA's operator nor by Gardener.
    Cordoned,
    /// The node itself is not ready.
    NodeNotReady,
    /// Node Feature Discovery has not labelled it.
    WaitingForNFD,
    /// Node Feature Discovery has left out a label.
    MissingVersionLabel,
    /// There is no ready driver for its kernel.
    DriverNotReady,
    /// The container runtime cannot reach GPUs.
    ToolkitNotReady,
    /// Nothing announces the GPUs.
    DevicePluginNotReady,
    /// Nothing has proved that a container can use a GPU.
    ValidatorNotReady,
    /// Everything runs, and no GPU is announced.
    NoAllocatableGpu,
    /// No driver image for its kernel is known.
    DriverImageUnknown,
    /// Its driver is being replaced.
    UpgradeInProgress,
    /// Gardener updates its machine in place.
    NodeUpdateInProgress,
    /// It has joined lately and is being set up.
    Starting,
    /// It could not work with the driver before, and takes part again once all of the spec is applied.
    Rejoining,
    /// Somebody wants it to take no part.
    Excluded,
}

/// Who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affair {
    /// A user.
    User,
    /// Nobody in particular: something technical that ends, or that somebody has to look into.
    Technical,
}

impl NodeReason {
    /// Every reason.
    #[cfg(test)]
    pub const ALL: [Self; 22] = [
        Self::ForeignOperatingSystem,
        Self::UnsupportedArchitecture,
        Self::ExcludedDriver,
        Self::DriverImageMissing,
        Self::UpgradeFailed,
        Self::DriverCrashLoop,
        Self::NodeUpdateFailed,
        Self::Cordoned,
        Self::NodeNotReady,
        Self::WaitingForNFD,
        Self::MissingVersionLabel,
        Self::DriverNotReady,
        Self::ToolkitNotReady,
        Self::DevicePluginNotReady,
        Self::ValidatorNotReady,
        Self::NoAllocatableGpu,
        Self::DriverImageUnknown,
        Self::UpgradeInProgress,
        Self::NodeUpdateInProgress,
        Self::Starting,
        Self::Rejoining,
        Self::Excluded,
    ];

    /// The word in the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignOperatingSystem => "ForeignOperatingSystem",
            Self::UnsupportedArchitecture => "UnsupportedArchitecture",
            Self::ExcludedDriver => "ExcludedDriver",
            Self::DriverImageMissing => "DriverImageMissing",
            Self::UpgradeFailed => "UpgradeFailed",
            Self::DriverCrashLoop => "DriverCrashLoop",
            Self::NodeUpdateFailed => "NodeUpdateFailed",
            Self::Cordoned => "Cordoned",
            Self::NodeNotReady => "NodeNotReady",
            Self::WaitingForNFD => "WaitingForNFD",
            Self::MissingVersionLabel => "MissingVersionLabel",
            Self::DriverNotReady => "DriverNotReady",
            Self::ToolkitNotReady => "ToolkitNotReady",
            Self::DevicePluginNotReady => "DevicePluginNotReady",
            Self::ValidatorNotReady => "ValidatorNotReady",
            Self::NoAllocatableGpu => "NoAllocatableGpu",
            Self::DriverImageUnknown => "DriverImageUnknown",
            Self::UpgradeInProgress => "UpgradeInProgress",
            Self::NodeUpdateInProgress => "NodeUpdateInProgress",
            Self::Starting => "Starting",
            Self::Rejoining => "Rejoining",
            Self::Excluded => "Excluded",
        }
    }

    /// What is wrong, to be followed by the names of the nodes.
    pub const fn what(self) -> &'static str {
        match self {
            Self::ForeignOperatingSystem => "there are drivers for Garden Linux only",
            Self::UnsupportedArchitecture => "there are no drivers for the architecture",
            Self::ExcludedDriver => "the driver branch has none for this version of Garden Linux",
            Self::DriverImageMissing => "the driver image cannot be pulled",
            Self::UpgradeFailed => "the driver could not be replaced",
            Self::DriverCrashLoop => "the driver ends again and again",
            Self::NodeUpdateFailed => "Gardener could not update the machine in place",
            Self::Cordoned => "the node is cordoned, so that no Pod can start there",
            Self::NodeNotReady => "the node itself is not ready",
            Self::WaitingForNFD => "Node Feature Discovery has not labelled the node",
            Self::MissingVersionLabel => {
                "the label feature.node.kubernetes.io/system-os_release.VERSION_ID is missing"
            }
            Self::DriverNotReady => "no driver is ready for the kernel",
            Self::ToolkitNotReady => "NVIDIA's container toolkit is not ready",
            Self::DevicePluginNotReady => "NVIDIA's device plugin is not ready",
            Self::ValidatorNotReady => "NVIDIA's validator is not ready",
            Self::NoAllocatableGpu => "no GPU is announced",
            Self::DriverImageUnknown => "no driver image is known for the kernel",
            Self::UpgradeInProgress => "the driver is being replaced",
            Self::NodeUpdateInProgress => "Gardener updates the machine in place",
            Self::Starting => "the node has just joined",
            Self::Rejoining => "the node is left out until all of the spec is applied",
            Self::Excluded => {
                "the node is left out by spec.nodes or by the label nvidia.com/gpu.deploy.operands"
            }
        }
    }

    /// What to do about it.
    pub const fn todo(self) -> &'static str {
        match self {
            Self::ForeignOperatingSystem => "give the worker pool the machine image gardenlinux",
            Self::UnsupportedArchitecture => "give the worker pool a machine type with amd64",
            Self::ExcludedDriver => "choose another spec.driver.branch",
            Self::DriverImageMissing => {
                "choose another spec.driver.installerRelease or another version of Garden Linux for the worker pool"
            }
            Self::UpgradeFailed => {
                "look at the node's driver Pod in namespace gpu-operator and end the Pods that use its GPUs"
            }
            Self::DriverCrashLoop => {
                "look at the log of the driver Pods in namespace gpu-operator, and replace the nodes if it does not help"
            }
            Self::NodeUpdateFailed => {
                "see the node's annotation node.machine.sapcloud.io/update-failed-reason"
            }
            Self::Cordoned => "run kubectl uncordon for each",
            Self::NodeNotReady => {
                "see the conditions that kubectl describe node shows, or have Gardener replace the machine"
            }
            Self::WaitingForNFD => "look at the Pods of Node Feature Discovery on the node",
            Self::MissingVersionLabel => {
                "see that Node Feature Discovery there serves rules of kind NodeFeatureRule"
            }
            Self::DriverNotReady => {
                "look at the Pods with label app.kubernetes.io/component=nvidia-driver in namespace gpu-operator"
            }
            Self::ToolkitNotReady => {
                "look at the Pods of nvidia-container-toolkit-daemonset in namespace gpu-operator"
            }
            Self::DevicePluginNotReady => {
                "look at the Pods of nvidia-device-plugin-daemonset in namespace gpu-operator"
            }
            Self::ValidatorNotReady => {
                "look at the Pods of nvidia-operator-validator in namespace gpu-operator"
            }
            Self::NoAllocatableGpu => {
                "look at the log of nvidia-device-plugin-daemonset in namespace gpu-operator"
            }
            Self::DriverImageUnknown => "see that it exists, or choose another version of Garden Linux",
            Self::UpgradeInProgress => "wait, the node is uncordoned by itself",
            Self::NodeUpdateInProgress => "wait, Gardener uncordons the node by itself",
            Self::Starting => "wait, a driver may take 25 minutes",
            Self::Rejoining => "wait, or see what the condition DriverChangePending waits for",
            Self::Excluded => "change spec.nodes or remove the label if it is to take part",
        }
    }

    /// True where there cannot be a driver for the node.
    pub const fn is_impossible(self) -> bool {
        matches!(
            self,
            Self::ForeignOperatingSystem | Self::UnsupportedArchitecture | Self::ExcludedDriver
        )
    }

    /// Whose affair it is. What nobody but a user can change is no failure of the module.
    pub const fn affair(self) -> Affair {
        match self {
            Self::ForeignOperatingSystem
            | Self::UnsupportedArchitecture
            | Self::ExcludedDriver
            | Self::DriverImageMissing
            | Self::DriverImageUnknown
            // A node whose driver could not be replaced is a trouble of its pool.
            | Self::UpgradeFailed
            | Self::NodeUpdateFailed
            | Self::Cordoned
            | Self::Rejoining
            | Self::Excluded => Affair::User,
            Self::DriverCrashLoop
            | Self::NodeNotReady
            | Self::WaitingForNFD
            | Self::MissingVersionLabel
            | Self::DriverNotReady
            | Self::ToolkitNotReady
            | Self::DevicePluginNotReady
            | Self::ValidatorNotReady
            | Self::NoAllocatableGpu
            | Self::UpgradeInProgress
            | Self::NodeUpdateInProgress
            | Self::Starting => Affair::Technical,
        }
    }
}
