//! The steps of a pass that change nothing: what a decision asks for is read.

use std::sync::Arc;

use super::steps::api_failure;
use super::{Acted, Pass};
use crate::act::release;
use crate::desired::Desired;
use crate::facts::ReleaseFacts;
use crate::helm::HelmError;
use crate::observe::{self, OrphansError};
use crate::plan::{Failure, Hold, Plan, Reading};

impl Pass<'_> {
    /// Reads what the plan asks for; `None` where it asks for nothing.
    pub(super) async fn read(&mut self, plan: &Plan) -> Option<Acted> {
        Some(match plan {
            Plan::Look => {
                self.look().await;
                Acted::Done
            }
            Plan::Compare => self.compare().await,
            Plan::ReadExisting { revision } => self.read_existing(*revision).await,
            Plan::Read(reading) => self.read_around_drivers(*reading).await,
            Plan::ReadManifest { revision, uid } => self.read_manifest(*revision, uid).await,
            Plan::FindOrphans(failed) => self.find_orphans(failed).await,
            Plan::Inspect(objects) => self.inspect(objects).await,
            // A cluster is upgraded without any event that a watch would see.
            Plan::Hold(Hold::UnsupportedKubernetes { .. }) if !self.version_read => {
                self.read_version().await;
                Acted::Done
            }
            Plan::Keep | Plan::Hold(_) | Plan::Wait { .. } | Plan::AwaitRemoval { .. } | Plan::Act(_) => {
                return None;
            }
        })
    }

    /// Reads what decides whether drivers may be replaced or removed.
    async fn read_around_drivers(&mut self, reading: Reading) -> Acted {
        let client = &self.context.actor.client;
        match reading {
            Reading::GpuWork => {
                let nodes = self.observed.nodes_in_reach().map(|node| node.name.clone());
                let class = self.desired().ok().and_then(Desired::runtime_class);
                let work = observe::gpu_work(client, nodes.collect(), class, self.now()).await;
                self.memory.found_work(&work, self.now());
                self.observed.gpu_work = Some(work);
            }
            Reading::DriverUpgrades | Reading::GpuClusters | Reading::Left(_) => {
                if let Err(error) = self.read_for_removal(reading).await {
                    self.fail(api_failure(&error));
                    return Acted::Failed;
                }
            }
            Reading::MaintenanceWindow => {
                self.observed.maintenance = Some(observe::maintenance_window(client).await);
            }
        }
        Acted::Done
    }

    /// Reads the newest revision through Helm.
    async fn compare(&mut self) -> Acted {
        self.comparison_due = false;
        self.memory.unmoved = None;
        let Some(newest) = self.newest().cloned() else {
            return Acted::Done;
        };
        if !self.read_version().await {
            return Acted::Failed;
        }
        let restarts = &self.context.catalogue.restarts;
        match observe::read_through_helm(&self.context.actor.helm, &release(), &newest, restarts).await {
            Ok(comparison) => {
                self.observed.comparison.clone_from(&comparison);
                let now = self.now();
                self.memory.compared(comparison, now, fastrand::f64());
                Acted::Done
            }
            Err(error) => self.not_read(&error),
        }
    }

    /// Reads a revision that the module did not make, and the defaults of the wanted chart.
    async fn read_existing(&mut self, revision: u32) -> Acted {
        let (Ok(desired), ReleaseFacts::Read(history)) = (self.desired(), &self.observed.release) else {
            return Acted::Done;
        };
        let Some(revision) = history.all().iter().find(|found| found.number == revision) else {
            return Acted::Done;
        };
        let actor = &self.context.actor;
        let archive = match actor.charts.verified(&desired.chart) {
            Ok(archive) => archive,
            Err(error) => {
                self.fail(Failure {
                    reason: error.reason(),
                    message: error.to_string(),
                });
                return Acted::Failed;
            }
        };
        let restarts = &self.context.catalogue.restarts;
        match observe::read_existing(
            &actor.helm,
            &release(),
            revision,
            &desired.chart,
            &archive,
            restarts,
        )
        .await
        {
            Ok(existing) => {
                let existing = existing.map(Arc::new);
                self.memory.existing.clone_from(&existing);
                self.observed.existing = existing;
                Acted::Done
            }
            Err(error) => self.not_read(&error),
        }
    }

    /// Finds what failed revisions have left behind beside the newest one.
    async fn find_orphans(&mut self, failed: &[u32]) -> Acted {
        let Some(newest) = self.newest() else {
            return Acted::Done;
        };
        let actor = &self.context.actor;
        match observe::find_orphans(&actor.helm, &actor.kinds, &release(), newest, failed).await {
            Ok(orphans) => {
                self.memory.orphans = Some(orphans);
                Acted::Done
            }
            Err(OrphansError::Helm(HelmError::Interrupted { .. })) => Acted::Interrupted,
            Err(error) => {
                self.fail(Failure {
                    reason: "ManifestUnreadable",
                    message: error.to_string(),
                });
                Acted::Failed
            }
        }
    }

    /// Looks for the Secrets with which images are pulled, where some may not be.
    pub(super) async fn read_pull_secrets(&mut self) {
        let images = self.module.spec.images.as_ref();
        let names = images.map_or(&[][..], |images| &images.pull_secrets);
        let is_known = self.observed.missing_pull_secrets.is_some();
        if names.is_empty() || is_known || !self.observed.may_lack_images() {
            return;
        }
        match observe::missing_secrets(&self.context.actor.client, names).await {
            Ok(missing) => self.observed.missing_pull_secrets = Some(missing),
            // What does not run is told all the same.
            Err(error) => tracing::debug!(%error, "pull Secrets are not known"),
        }
    }

    fn not_read(&mut self, error: &HelmError) -> Acted {
        if matches!(error, HelmError::Interrupted { .. }) {
            return Acted::Interrupted;
        }
        self.fail(Failure {
            reason: "ComparisonFailed",
            message: error.to_string(),
        });
        Acted::Failed
    }
}
