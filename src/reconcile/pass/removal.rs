//! The steps of a pass that are about a removal.

use kube::ResourceExt as _;

use super::steps::api_failure;
use super::{Acted, Pass};
use crate::act::NotCleared;
use crate::api::{ANNOTATION_REMOVAL, GpuModule};
use crate::facts::{Leavings, Leftover, NeighbourKind, Removal, SurroundingNamespace};
use crate::kube_api::ApiError;
use crate::memory::Memory;
use crate::observe;
use crate::plan::{self, Reading};

/// What is noted of the removal. The note that gives up the rights is never taken back, so it counts wherever it is; otherwise the cache may be
/// older than what this process has written.
pub(super) fn noted(module: &GpuModule, memory: &Memory) -> Option<Removal> {
    let annotation = module.annotations().get(ANNOTATION_REMOVAL);
    let read = annotation.and_then(|note| Removal::parse(note, &memory.uid));
    let notes = [read, memory.removal.clone()].into_iter().flatten();
    notes.max_by_key(|note| note.stays.is_some())
}

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

    /// Takes away what is left. What the API server refuses, or what is there again, is tried
    /// again after a pause of its own, and given up in the end.
    pub(super) async fn clear(&mut self, what: Leavings, objects: &[Leftover]) -> Acted {
        let Some(mandate) = (self.context.mandates)() else {
            return Acted::Interrupted;
        };
        let results = self.context.actor.clear(mandate, objects).await;
        let now = self.now();
        let mut failure = None;
        for (leftover, result) in objects.iter().zip(results) {
            let error = match result {
                Ok(()) => None,
                Err(NotCleared::Api(error)) if !error.is_about_object() || error.is_missing_right() => {
                    failure.get_or_insert(error);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(object = %leftover.object, %error, "what is left cannot be taken away");
                    Some(error.to_string())
                }
            };
            self.memory
                .refused
                .note(what, leftover, error, now, fastrand::f64());
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_note_that_gave_up_the_rights_counts_wherever_it_is() {
        let note = |stays: bool, nodes: usize| Removal {
            in_driver_upgrade: (0..nodes).map(|node| node.to_string()).collect(),
            of: "uid".to_owned(),
            stays: stays.then(Vec::new),
            ..Removal::default()
        };
        let noted_of = |annotation: Option<Removal>, remembered: Option<Removal>| {
            let mut module = GpuModule::default();
            if let Some(note) = annotation {
                let text = serde_json::to_string(&note).unwrap();
                module
                    .annotations_mut()
                    .insert(ANNOTATION_REMOVAL.to_owned(), text);
            }
            let mut memory = Memory::new("uid".to_owned(), Timestamp::UNIX_EPOCH, 0.0);
            memory.removal = remembered;
            noted(&module, &memory)
        };
        assert_eq!(noted_of(None, None), None);
        assert_eq!(noted_of(Some(note(false, 1)), None), Some(note(false, 1)));
        // The watch has not brought the newer note yet.
        assert_eq!(
            noted_of(Some(note(false, 1)), Some(note(true, 1))),
            Some(note(true, 1))
        );
        // Another replica has gone further meanwhile.
        assert_eq!(
            noted_of(Some(note(true, 2)), Some(note(false, 1))),
            Some(note(true, 2))
        );
        assert_eq!(
            noted_of(Some(note(false, 1)), Some(note(false, 2))),
            Some(note(false, 2))
        );
    }
}
