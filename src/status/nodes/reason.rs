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
    /// It is cordoned, and not by NVIDIA's operator.
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
    /// It has joined lately and is being set up.
    Starting,
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
    pub const ALL: [Self; 19] = [
        Self::ForeignOperatingSystem,
        Self::UnsupportedArchitecture,
        Self::ExcludedDriver,
        Self::DriverImageMissing,
        Self::UpgradeFailed,
        Self::DriverCrashLoop,
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
        Self::Starting,
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
            Self::Starting => "Starting",
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
            Self::Cordoned => "cordoned",
            Self::NodeNotReady => "not ready",
            Self::WaitingForNFD => "not labelled by Node Feature Discovery",
            Self::MissingVersionLabel => {
                "without the label feature.node.kubernetes.io/system-os_release.VERSION_ID"
            }
            Self::DriverNotReady => "no driver is ready for the kernel",
            Self::ToolkitNotReady => "NVIDIA's container toolkit is not ready",
            Self::DevicePluginNotReady => "NVIDIA's device plugin is not ready",
            Self::ValidatorNotReady => "NVIDIA's validator is not ready",
            Self::NoAllocatableGpu => "no GPU is announced",
            Self::DriverImageUnknown => "no driver image is known for the kernel",
            Self::UpgradeInProgress => "the driver is being replaced",
            Self::Starting => "just joined",
            Self::Excluded => "left out by spec.nodes or by the label nvidia.com/gpu.deploy.operands",
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
            Self::UpgradeFailed => "look at the driver Pods and the Pods that use GPUs there",
            Self::DriverCrashLoop => {
                "look at the log of the driver Pods in namespace gpu-operator, and replace the nodes if it does not help"
            }
            Self::Cordoned => "uncordon them",
            Self::NodeNotReady => "look at the nodes",
            Self::WaitingForNFD => "look at the Pods of Node Feature Discovery there",
            Self::MissingVersionLabel => {
                "look at the Pods of Node Feature Discovery there and at what configures them"
            }
            Self::DriverNotReady
            | Self::ToolkitNotReady
            | Self::DevicePluginNotReady
            | Self::ValidatorNotReady => "look at these Pods in namespace gpu-operator",
            Self::NoAllocatableGpu => "look at the log of the device plugin there",
            Self::DriverImageUnknown => "see that it exists, or choose another version of Garden Linux",
            Self::UpgradeInProgress | Self::Starting => "wait",
            Self::Excluded => "nothing is to be done",
        }
    }

    /// Whose affair it is. What nobody but a user can change is no failure of the module.
    pub const fn affair(self) -> Affair {
        match self {
            Self::ForeignOperatingSystem
            | Self::UnsupportedArchitecture
            | Self::ExcludedDriver
            | Self::DriverImageMissing
            | Self::DriverImageUnknown
            | Self::Cordoned
            | Self::Excluded => Affair::User,
            Self::UpgradeFailed
            | Self::DriverCrashLoop
            | Self::NodeNotReady
            | Self::WaitingForNFD
            | Self::MissingVersionLabel
            | Self::DriverNotReady
            | Self::ToolkitNotReady
            | Self::DevicePluginNotReady
            | Self::ValidatorNotReady
            | Self::NoAllocatableGpu
            | Self::UpgradeInProgress
            | Self::Starting => Affair::Technical,
        }
    }
}
