//! The steps of a pass that are about a removal.

use super::Pass;
use crate::api::DeletionCrds;
use crate::facts::{NeighbourKind, SurroundingNamespace};
use crate::kube_api::ApiError;
use crate::observe;
use crate::plan::Reading;

impl Pass<'_> {
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

    /// Tells by a last Event what stays and what nobody in the cluster can take away.
    pub(super) async fn say_farewell(&self) {
        let mut stays = Vec::new();
        if self.module.spec.deletion_crds() == DeletionCrds::Keep {
            stays.push("the CRDs of NVIDIA and of Node Feature Discovery".to_owned());
        }
        let left = self.observed.left.values();
        stays.extend(left.flat_map(|left| left.stays.iter().cloned()));
        self.context.publisher.tell_removal(self.module, &stays).await;
    }
}
