//! Why an action did not do its work, and how the status tells it.

use super::{ChartError, CrdError};
use crate::helm::HelmError;
use crate::kube_api::ApiError;
use crate::plan::{Action, Cause, Failure, RECORDING_FAILED, RECOVERY_FAILED, UNINSTALL_FAILED};

/// Why an action did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Helm failed.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// The chart cannot be used.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// The chart's CRDs cannot be applied.
    #[error(transparent)]
    Crd(#[from] CrdError),
}

impl ActError {
    /// True where the operator itself ended the work; that is no failure.
    pub const fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Helm(HelmError::Interrupted { .. })
                | Self::Crd(CrdError::Helm(HelmError::Interrupted { .. }))
        )
    }

    /// As the status tells it, with the reason for condition `Installed`.
    pub fn failure(&self, action: &Action) -> Failure {
        let reason = match (self, action) {
            (
                Self::Chart(_) | Self::Crd(_) | Self::Helm(_),
                Action::Upgrade {
                    cause: Cause::RecordLost,
                    ..
                },
            ) => RECORDING_FAILED,
            (Self::Chart(error), _) => error.reason(),
            (Self::Crd(_), _) => "CrdsNotApplied",
            (Self::Api(_), _) => "ApiCallFailed",
            (
                Self::Helm(_),
                Action::Upgrade {
                    cause: Cause::Install,
                    ..
                },
            ) => "InstallFailed",
            (Self::Helm(_), Action::Upgrade { .. }) => "UpgradeFailed",
            (Self::Helm(_), Action::Rollback { .. }) => RECOVERY_FAILED,
            (Self::Helm(_), Action::Uninstall { .. }) => UNINSTALL_FAILED,
            (
                Self::Helm(_),
                Action::AddFinalizer
                | Action::RemoveFinalizer
                | Action::BeginRemoval { .. }
                | Action::Clear { .. }
                | Action::OpenNamespace
                | Action::Discard { .. }
                | Action::RestoreCrds { .. }
                | Action::Prune { .. }
                | Action::LabelNodes { .. }
                | Action::Reapply { .. },
            ) => "HelmFailed",
        };
        Failure {
            reason,
            message: self.to_string(),
        }
    }
}
