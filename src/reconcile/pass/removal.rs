//! The steps of a pass that are about a removal.

use super::steps::api_failure;
use super::{Acted, Pass};
use crate::act::NotCleared;
use crate::facts::{Leavings, Leftover, NeighbourKind, SurroundingNamespace};
use crate::kube_api::ApiError;
use crate::observe;
use crate::plan::{self, Reading, Refusable};

impl Pass<'_> {
    /// The same, but nothing is done beside the removal.
    pub fn only_removing(mut self) -> Self {
        self.only_removes = true;
        self
    }

    /// Reads what is left, or has to be known before anything goes.
    pub(super) async fn read_for_removal(&mut self, reading: Reading) -> Result<(), ApiError> {
        let client = &self.context.actor.client;
        match reading {
            Reading::DriverUpgrades => {
                self.observed.driver_upgrades = Some(observe::unfinished_driver_upgrades(client).await?);
            }
            Reading::GpuClusters => {
                self.observed.gpu_clusters = Some(observe::has_gpu_clusters(client).await?);
            }
            Reading::Left(what) => {
                let around = self.observed.surroundings.as_ref();
                let namespace = around.map_or(SurroundingNamespace::Absent, |around| around.namespace);
                let mut neighbours = self.observed.neighbours.iter();
                let others_nfd =
                    neighbours.find(|neighbour| neighbour.kind == NeighbourKind::NodeFeatureDiscovery);
                let left = observe::left(client, what, self.removal.as_ref(), namespace, others_nfd).await?;
                self.observed.left.insert(what, left);
            }
            Reading::GpuWork | Reading::MaintenanceWindow => {}
        }
        Ok(())
    }

    /// Takes away what is left. What the API server refuses is tried again after a pause of its own, and given up in the end.
    pub(super) async fn clear(&mut self, what: Leavings, objects: &[Leftover]) -> Acted {
        let Some(mandate) = (self.context.mandates)() else {
            return Acted::Interrupted;
        };
        let results = self.context.actor.clear(mandate, objects).await;
        let now = self.now();
        let mut failure = None;
        for (leftover, result) in objects.iter().zip(results) {
            let Err(error) = result else { continue };
            match error {
                NotCleared::Api(error) if !error.is_about_object() || error.is_missing_right() => {
                    failure.get_or_insert(error);
                }
                NotCleared::Api(_) | NotCleared::Blocked(_) => {
                    tracing::warn!(object = %leftover.object, %error, "what is left cannot be taken away");
                    let thing = Refusable::of(what, leftover);
                    let why = error.to_string();
                    self.memory.refused.tried(thing, why, now, fastrand::f64());
                }
            }
        }
        failure.map_or(Acted::Done, |error| {
            self.fail(api_failure(&error));
            Acted::Failed
        })
    }

    /// Tells by a last Event what stays and what nobody in the cluster can take away. Only once the GpuModule is let go: that can be refused.
    pub(super) async fn say_farewell(&self) {
        if let Some(farewell) = plan::farewell(&self.situation(self.now())) {
            self.context.publisher.tell_removal(self.module, &farewell).await;
        }
    }
}
