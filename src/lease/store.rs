//! Reading and writing the Lease object, each call with a deadline.
//!
//! Writes carry the `resourceVersion` that was read, so of two writers one gets a conflict. They are merge patches:
//! fields of a newer API version that the typed object does not know stay in place.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::evaluate::LeaseView;
use crate::kube_api::{ApiError, deadline, found};

/// Name of the Lease in the manager's own namespace.
pub const LEASE_NAME: &str = "gpu-manager";

/// How often a release is tried again when another write came in between.
const RELEASE_TRIES: usize = 3;

/// The Lease as the API server last returned it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub view: LeaseView,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl From<Lease> for Stored {
    fn from(lease: Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            view: LeaseView {
                holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
                renewed: spec.renew_time.map(|time| time.0),
                transitions: spec.lease_transitions.unwrap_or(0),
            },
            uid: lease.metadata.uid,
            resource_version: lease.metadata.resource_version,
        }
    }
}

/// Access to the one Lease.
#[derive(Clone, Debug)]
pub(super) struct LeaseStore {
    api: Api<Lease>,
    place: String,
    call_deadline: Duration,
}

impl LeaseStore {
    pub fn new(client: Client, namespace: &str, call_deadline: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            place: format!("{namespace}/{LEASE_NAME}"),
            call_deadline,
        }
    }

    /// The Lease, or `None` if there is none.
    pub async fn read(&self) -> Result<Option<Stored>, ApiError> {
        let what = format!("read the Lease {}", self.place);
        let lease = found(deadline(self.call_deadline, what, self.api.get(LEASE_NAME)).await)?;
        Ok(lease.map(Stored::from))
    }

    /// Writes ourselves into the Lease as `holder`, on top of `current`; creates it if there is none.
    pub async fn hold(
        &self,
        current: Option<&Stored>,
        holder: &str,
        duration: Duration,
        wall_clock: Timestamp,
    ) -> Result<Stored, ApiError> {
        let view = current.map(|stored| &stored.view);
        let renewed = MicroTime(distinct(wall_clock, view.and_then(|view| view.renewed)));
        let takes_over = view.is_none_or(|view| view.holder.as_deref() != Some(holder));
        let seconds = duration.as_secs_f64().ceil().clamp(1.0, f64::from(i32::MAX));
        let mut spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "whole and clamped to the range of i32"
            )]
            lease_duration_seconds: Some(seconds as i32),
            renew_time: Some(renewed.clone()),
            ..LeaseSpec::default()
        };
        if takes_over {
            spec.acquire_time = Some(renewed);
            spec.lease_transitions = Some(view.map_or(0, |view| view.transitions.saturating_add(1)));
        }
        match current {
            Some(stored) => self.patch(stored, json!(spec)).await,
            None => self.create(spec).await,
        }
    }

    /// Empties the holder if it is `identity`; gives back the Lease as that left it.
    pub async fn release(&self, identity: &str) -> Result<Option<Stored>, ApiError> {
        let mut tries = 1;
        loop {
            let Some(stored) = self.read().await? else {
                return Ok(None);
            };
            if stored.view.holder.as_deref() != Some(identity) {
                return Ok(None);
            }
            match self.patch(&stored, json!({ "holderIdentity": null })).await {
                Err(error) if error.is_conflict() && tries < RELEASE_TRIES => tries += 1,
                result => return result.map(Some),
            }
        }
    }

    /// Deletes the Lease if it is still as `stored`; whoever has taken it since keeps it.
    pub async fn remove(&self, stored: Stored) -> Result<(), ApiError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: stored.uid,
            resource_version: stored.resource_version,
        });
        let what = format!("delete the Lease {}", self.place);
        match found(deadline(self.call_deadline, what, self.api.delete(LEASE_NAME, &params)).await) {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    async fn create(&self, spec: LeaseSpec) -> Result<Stored, ApiError> {
        let metadata = ObjectMeta {
            name: Some(LEASE_NAME.to_owned()),
            ..ObjectMeta::default()
        };
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        let what = format!("create the Lease {}", self.place);
        let params = PostParams::default();
        deadline(self.call_deadline, what, self.api.create(&params, &lease))
            .await
            .map(Stored::from)
    }

    async fn patch(&self, stored: &Stored, spec: Value) -> Result<Stored, ApiError> {
        let patch = json!({ "metadata": { "resourceVersion": stored.resource_version }, "spec": spec });
        let what = format!("update the Lease {}", self.place);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        deadline(
            self.call_deadline,
            what,
            self.api.patch(LEASE_NAME, &params, &patch),
        )
        .await
        .map(Stored::from)
    }
}

/// A renewal time that differs from the last one in the Lease's resolution of a microsecond.
///
/// Waiting replicas recognise a renewal by the change of this field alone, and a wall clock may stand still.
fn distinct(wall_clock: Timestamp, last: Option<Timestamp>) -> Timestamp {
    let micros = wall_clock.as_microsecond();
    let stuck = last.is_some_and(|last| last.as_microsecond() == micros);
    Timestamp::from_microsecond(micros + i64::from(stuck)).unwrap_or(wall_clock)
}
