//! The label sets of the metrics, each value from a closed list where there is one.

use std::fmt::{Error, Write as _};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// An enum whose variants are the values of one label.
macro_rules! label_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every value.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The value in the exposition.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), Error> {
                encoder.write_str(self.as_str())
            }
        }
    };
}

label_values! {
    /// What a helm process was to do to the release.
    HelmOperation {
        /// `helm install`, or `helm upgrade --install` without a release.
        Install = "install",
        /// `helm upgrade`.
        Upgrade = "upgrade",
        /// `helm rollback`.
        Rollback = "rollback",
        /// `helm uninstall`.
        Uninstall = "uninstall",
    }
}

label_values! {
    /// How a helm process ended.
    HelmResult {
        /// Exit code 0.
        Success = "success",
        /// Another exit code, or it could not be started.
        Failure = "failure",
        /// Stopped at its deadline.
        Timeout = "timeout",
        /// Stopped because the manager had to end.
        Interrupted = "interrupted",
    }
}

label_values! {
    /// What a request to the API server asks for, as in RBAC rules.
    Verb {
        /// Read one object.
        Get = "get",
        /// Read a collection.
        List = "list",
        /// Follow a collection.
        Watch = "watch",
        /// POST.
        Create = "create",
        /// PUT.
        Update = "update",
        /// PATCH, server-side apply included.
        Patch = "patch",
        /// DELETE.
        Delete = "delete",
    }
}

/// Label set of the API requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VerbLabel {
    /// The request's verb.
    pub verb: Verb,
}

impl From<Verb> for VerbLabel {
    fn from(verb: Verb) -> Self {
        Self { verb }
    }
}

/// The release as installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReleaseLabels {
    /// Version of the chart.
    pub chart_version: String,
    /// `appVersion` of the chart.
    pub app_version: String,
    /// Branch of the driver; empty when the nodes bring their own.
    pub driver_branch: String,
}

/// A kind of Kubernetes objects; the charts have about a dozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabel {
    pub kind: String,
}

/// A worker pool; the status has at most 50.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolLabel {
    pub pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StateLabel {
    pub state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OperationLabel {
    pub operation: HelmOperation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OperationResultLabels {
    pub operation: HelmOperation,
    pub result: HelmResult,
}

/// For a single value that may be absent, which a bare gauge cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct NoLabels {}
