//! Finds what a failed upgrade has left behind: objects of its manifest that are there, bear the release's marks, and are not in the
//! manifest of the revision that runs.

use std::collections::BTreeSet;

use kube::core::DynamicObject;

use super::Kinds;
use super::reduce;
use crate::drift::{Manifest, ObjectRef};
use crate::facts::{HelmOwner, Orphan, Orphans, Revision};
use crate::helm::{Helm, HelmError, ReleaseRef};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Why it is not known what was left behind.
#[derive(Debug, thiserror::Error)]
pub enum OrphansError {
    /// Helm did not print a manifest.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// The API server refused or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The manifest of the revision that runs is not there or cannot be read.
    #[error("the objects of revision {revision} cannot be read: {reason}")]
    Manifest {
        /// The revision.
        revision: u32,
        /// What is wrong with it.
        reason: String,
    },
}

/// An object whatever version of its kind and however its namespace is written: group, kind, namespace and name.
type Identity = (String, String, Option<String>, String);

/// Finds what `failed` revisions have left behind beside the one that runs.
pub async fn find_orphans(
    helm: &Helm,
    kinds: &Kinds,
    release: &ReleaseRef,
    running: &Revision,
    failed: &[u32],
) -> Result<Orphans, OrphansError> {
    let unreadable = |reason: String| OrphansError::Manifest {
        revision: running.number,
        reason,
    };
    let wanted = read(helm, release, running.number).await?.map_err(unreadable)?;
    let mut kept = BTreeSet::new();
    for object in wanted.refs() {
        kept.insert(identity(kinds, object).await?);
    }
    let mut objects = Vec::new();
    for revision in failed {
        let manifest = match read(helm, release, *revision).await {
            Ok(Ok(manifest)) => manifest,
            // Nobody can tell what it was to make.
            Ok(Err(reason)) => {
                tracing::warn!(
                    revision,
                    reason,
                    "the objects of a failed revision cannot be read"
                );
                continue;
            }
            Err(HelmError::Undecodable { message, .. }) => {
                tracing::warn!(revision, message, "a failed revision cannot be decoded");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for object in manifest.refs().filter(|object| !manifest.is_kept(object)) {
            if kept.insert(identity(kinds, object).await?)
                && let Some(orphan) = look(kinds, object).await?
            {
                objects.push(orphan);
            }
        }
    }
    Ok(Orphans {
        of: running.uid.clone(),
        objects,
    })
}

async fn read(
    helm: &Helm,
    release: &ReleaseRef,
    revision: u32,
) -> Result<Result<Manifest, String>, HelmError> {
    let Some(documents) = helm.get_manifest(release, revision).await? else {
        return Ok(Err("Helm does not know it any more".to_owned()));
    };
    // Nothing of it is kept, so it needs no identity.
    Ok(Manifest::parse(revision, "", &documents))
}

async fn identity(kinds: &Kinds, object: &ObjectRef) -> Result<Identity, ApiError> {
    let group = object
        .kind
        .api_version
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    let served = kinds.resolve(&object.kind).await?;
    let namespace = match &served {
        Some(served) => served
            .namespace(object.namespace.as_deref())
            .map(ToOwned::to_owned),
        None => object.namespace.clone(),
    };
    Ok((
        group.to_owned(),
        object.kind.kind.clone(),
        namespace,
        object.name.clone(),
    ))
}

/// The object, if it is there and the release's.
async fn look(kinds: &Kinds, object: &ObjectRef) -> Result<Option<Orphan>, ApiError> {
    let Some(served) = kinds.resolve(&object.kind).await? else {
        return Ok(None);
    };
    let api = served.api::<DynamicObject>(kinds.client(), object.namespace.as_deref());
    let call = api.get_metadata(&object.name);
    let live = found(deadline(API_DEADLINE, format!("read {object}"), call).await)?;
    let ours = live.filter(|live| {
        let owner = reduce::owner(&live.metadata);
        owner.as_ref().is_some_and(HelmOwner::is_module_release) && live.metadata.deletion_timestamp.is_none()
    });
    Ok(ours.and_then(|live| {
        Some(Orphan {
            object: object.clone(),
            uid: live.metadata.uid?,
        })
    }))
}
