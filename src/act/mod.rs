//! Step 4: executes one [`Action`] of the plan. Decides nothing: what to do and why was decided before.

mod chart;
mod crds;
mod delete;
mod discard;
mod error;
mod established;
mod finalizer;
mod module;
mod namespace;
pub mod nodes;
mod prepare;
mod prune;
mod reapply;
mod removal;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use crate::api::{
    GpuModule, LABEL_BY, LABEL_CHART, LABEL_DRIVER, LABEL_DRIVER_UPGRADES, LABEL_FINGERPRINT, LABEL_LAYOUT,
    LABEL_NFD, LABEL_REVISION, RELEASE_NAME, RELEASE_NAMESPACE,
};
use crate::desired::{Desired, DriverId, DriverUpgrades};
use crate::facts::{CrdFacts, ReleaseFacts, Revision};
use crate::helm::{Helm, HelmError, ReleaseRef, RollbackOptions, UninstallOptions, UpgradeOptions};
use crate::lease::Mandate;
use crate::metrics::{HelmOperation, HelmResult, Metrics};
use crate::observe::Kinds;
use crate::plan::{Action, Cause, NfdCrds};

pub use chart::{ChartError, ChartFolder};
pub use crds::CrdError;
pub use error::ActError;
pub use reapply::Reapplied;
pub use removal::NotCleared;

/// Revisions that Helm keeps; each is a Secret of about 115 KB.
const HISTORY_MAX: u32 = 5;

/// How long Helm waits for one hook. The only hooks left are those of an uninstall.
pub const HOOK_TIMEOUT: Duration = Duration::from_mins(1);

/// Everything that acting takes.
pub struct Actor {
    /// For the API server.
    pub client: Client,
    /// The helm binary.
    pub helm: Helm,
    /// How kinds are served.
    pub kinds: Kinds,
    /// Where the chart archives lie.
    pub charts: ChartFolder,
    /// Where the operator itself runs: the namespace of its ServiceAccount.
    pub own_namespace: String,
    /// This process, as release labels name it.
    pub identity: String,
    /// Counts Helm operations.
    pub metrics: Metrics,
}

/// What an action is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The GpuModule.
    pub module: &'a GpuModule,
    /// The release to bring about; absent only while the module is being deleted.
    pub desired: Option<&'a Desired>,
    /// The release as just read.
    pub release: &'a ReleaseFacts,
    /// The CRDs that are there.
    pub crds: &'a BTreeMap<String, CrdFacts>,
    /// The driver that the nodes were last told to run, as far as anybody knows.
    pub running_driver: Option<&'a DriverId>,
    /// Which CRDs of Node Feature Discovery are applied.
    pub nfd_crds: NfdCrds,
    /// Whether the release's namespace is, or will be, the module's own.
    pub namespace_is_ours: bool,
}

impl Actor {
    /// Executes `action`, for which a mandate is used up.
    pub async fn act(&self, _: Mandate, action: &Action, subject: &Subject<'_>) -> Result<(), ActError> {
        match action {
            Action::AddFinalizer => Ok(finalizer::add(&self.client, subject.module).await?),
            Action::RemoveFinalizer => Ok(finalizer::remove(&self.client, subject.module).await?),
            Action::BeginRemoval { removal } => {
                Ok(removal::begin(&self.client, subject.module, removal).await?)
            }
            Action::OpenNamespace => {
                let (opened, ()) = tokio::join!(self.open_namespace(subject), self.read_crds_ahead(subject));
                Ok(opened?)
            }
            Action::Upgrade { cause, .. } => self.upgrade(*cause, subject).await,
            Action::Rollback { to, .. } => self.rollback(*to).await,
            Action::Discard { revision, .. } => Ok(discard::revision(&self.client, *revision).await?),
            Action::Uninstall { hooks } => self.uninstall(*hooks).await,
            Action::RestoreCrds { crds } => self.restore_crds(crds, subject).await,
            // Each object ends in its own way: [`Self::reapply`], [`Self::prune`], [`Self::clear`], [`nodes::label`].
            Action::Clear { .. }
            | Action::Prune { .. }
            | Action::Reapply { .. }
            | Action::LabelNodes { .. } => Ok(()),
        }
    }

    async fn upgrade(&self, cause: Cause, subject: &Subject<'_>) -> Result<(), ActError> {
        let Some(desired) = subject.desired else {
            return Ok(());
        };
        let archive = self.charts.verified(&desired.chart)?;
        // Both to the end, even if one fails: a helm that runs is not left.
        let (opened, applied) = tokio::join!(
            self.prepare_namespace(subject),
            self.apply_crds(&desired.chart, &archive, subject)
        );
        opened?;
        applied?;
        let archive = self.charts.verified(&desired.chart)?;
        let options = UpgradeOptions {
            labels: self.labels(desired, subject),
            description: describe(cause, subject, desired),
            history_max: HISTORY_MAX,
            timeout: HOOK_TIMEOUT,
        };
        let release = release();
        let run = self
            .helm
            .upgrade_install(&release, &archive, &desired.values, &options);
        let operation = if cause == Cause::Install {
            HelmOperation::Install
        } else {
            HelmOperation::Upgrade
        };
        self.measured(operation, run).await?;
        Ok(())
    }

    fn labels(&self, desired: &Desired, subject: &Subject<'_>) -> BTreeMap<String, String> {
        let next = match subject.release {
            ReleaseFacts::Read(history) => history.next_number(),
            ReleaseFacts::Unreadable => 1,
        };
        let upgrades = desired.step.drivers;
        // Held drivers leave the nodes with what they have.
        let told = match upgrades {
            DriverUpgrades::AsConfigured => Some(&desired.driver_id),
            DriverUpgrades::Held => subject.running_driver,
        };
        // Helm would keep the label of the revision before, were there none.
        let unknown = || "unknown".to_owned();
        BTreeMap::from([
            (LABEL_FINGERPRINT.to_owned(), desired.fingerprint.to_string()),
            (LABEL_BY.to_owned(), self.identity.clone()),
            (LABEL_REVISION.to_owned(), next.to_string()),
            (LABEL_CHART.to_owned(), desired.chart.version.to_string()),
            (
                LABEL_NFD.to_owned(),
                desired.node_feature_discovery.as_str().to_owned(),
            ),
            (LABEL_LAYOUT.to_owned(), desired.step.layout.as_str().to_owned()),
            (
                LABEL_DRIVER.to_owned(),
                told.map_or_else(unknown, ToString::to_string),
            ),
            (LABEL_DRIVER_UPGRADES.to_owned(), upgrades.as_str().to_owned()),
        ])
    }

    async fn rollback(&self, to: u32) -> Result<(), ActError> {
        let options = RollbackOptions {
            history_max: HISTORY_MAX,
            timeout: HOOK_TIMEOUT,
        };
        self.measured(
            HelmOperation::Rollback,
            self.helm.rollback(&release(), to, &options),
        )
        .await?;
        Ok(())
    }

    async fn uninstall(&self, hooks: bool) -> Result<(), ActError> {
        let options = UninstallOptions {
            no_hooks: !hooks,
            timeout: HOOK_TIMEOUT,
        };
        self.measured(
            HelmOperation::Uninstall,
            self.helm.uninstall(&release(), &options),
        )
        .await?;
        Ok(())
    }

    async fn measured<T>(
        &self,
        operation: HelmOperation,
        run: impl Future<Output = Result<T, HelmError>>,
    ) -> Result<T, HelmError> {
        let started = Instant::now();
        let result = run.await;
        let word = match &result {
            Ok(_) => HelmResult::Success,
            Err(HelmError::Timeout { .. }) => HelmResult::Timeout,
            Err(HelmError::Interrupted { .. }) => HelmResult::Interrupted,
            Err(_) => HelmResult::Failure,
        };
        self.metrics.record_helm(operation, word, started.elapsed());
        result
    }
}

/// The module's release, for Helm.
pub fn release() -> ReleaseRef {
    ReleaseRef {
        name: RELEASE_NAME.to_owned(),
        namespace: RELEASE_NAMESPACE.to_owned(),
    }
}

/// One line for `helm history`: whose wish it is, from which chart to which, and why.
fn describe(cause: Cause, subject: &Subject<'_>, desired: &Desired) -> String {
    let generation = subject.module.metadata.generation.unwrap_or_default();
    let chart = &desired.chart.version;
    let before = match subject.release {
        ReleaseFacts::Read(history) => history.last_good().and_then(Revision::own_chart),
        ReleaseFacts::Unreadable => None,
    };
    let way = match before {
        Some(before) if before != chart => format!("chart {before} -> {chart}"),
        _ => format!("chart {chart}"),
    };
    let why = match (cause, before) {
        (Cause::Changed, Some(before)) if before == chart => "values changed",
        (Cause::Changed, Some(_)) => "another chart is wanted",
        _ => cause.why(),
    };
    let held = match desired.step.drivers {
        DriverUpgrades::AsConfigured => "",
        DriverUpgrades::Held => ", drivers held",
    };
    format!("GpuModule generation {generation}, {way}: {why}{held}")
}
