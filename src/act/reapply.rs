//! Puts single objects of the release right, by server-side apply in Helm's name: no helm, no new revision.

use futures::StreamExt as _;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::Actor;
use crate::drift::{Finding, Manifest, ObjectRef, Repair, refused};
use crate::kube_api::{API_DEADLINE, ApiError, deadline};
use crate::lease::Mandate;
use crate::observe::Served;
use crate::plan::DriftState;

/// Objects that are put right at once.
const AT_ONCE: usize = 8;

/// How putting an object right ended.
#[derive(Debug)]
pub enum Reapplied {
    /// It is as the release wants it.
    Done,
    /// Somebody wrote it meanwhile: it has to be compared again.
    Overtaken,
    /// The API server does not accept it, or does not answer.
    Refused(Finding),
}

impl Actor {
    /// Puts objects right as they were found, for which a mandate is used up.
    pub async fn reapply(
        &self,
        _: Mandate,
        objects: &[ObjectRef],
        drift: &DriftState,
    ) -> Vec<(ObjectRef, Result<Reapplied, ApiError>)> {
        let Some(manifest) = drift.manifest() else {
            return Vec::new();
        };
        let mut each = Vec::new();
        for object in objects {
            if let Some(finding) = drift.finding(object) {
                each.push(self.tried(manifest, object, finding));
            }
        }
        futures::stream::iter(each)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await
    }

    async fn tried(
        &self,
        manifest: &Manifest,
        object: &ObjectRef,
        finding: &Finding,
    ) -> (ObjectRef, Result<Reapplied, ApiError>) {
        let result = match (manifest.object(object), self.kinds.resolve(&object.kind).await) {
            (Some(wanted), Ok(Some(served))) => self.reapply_one(&served, wanted, object, finding).await,
            (Some(_), Ok(None)) => {
                let why = format!("kind {} is not served", object.kind.kind);
                return (object.clone(), Ok(Reapplied::Refused(refused(&why))));
            }
            (Some(_), Err(error)) => Err(error),
            // The release has no such object any more.
            (None, _) => return (object.clone(), Ok(Reapplied::Overtaken)),
        };
        let result = match result {
            Ok(()) => Ok(Reapplied::Done),
            Err(error) if error.is_conflict() => Ok(Reapplied::Overtaken),
            Err(error) if error.is_unreachable() => Err(error),
            Err(error) => Ok(Reapplied::Refused(refused(&error.to_string()))),
        };
        (object.clone(), result)
    }

    async fn reapply_one(
        &self,
        served: &Served,
        wanted: &Value,
        object: &ObjectRef,
        finding: &Finding,
    ) -> Result<(), ApiError> {
        let api = served.api::<DynamicObject>(&self.client, object.namespace.as_deref());
        if let Repair::Disown {
            resource_version,
            managed_fields,
        } = &finding.repair
        {
            take_over(&api, object, resource_version, managed_fields).await?;
        }
        let manager = self.helm.field_manager();
        let params = PatchParams::apply(&manager).force();
        let wanted = Patch::Apply(served.place(wanted));
        let call = api.patch_metadata(&object.name, &params, &wanted);
        deadline(API_DEADLINE, format!("put {object} right"), call).await?;
        let (fields, managers) = (finding.fields.join(", "), finding.managers.join(", "));
        tracing::info!(%object, fields, managers, missing = finding.repair == Repair::Create, "put right what others had changed");
        Ok(())
    }
}

/// Makes added fields Helm's, if nobody has written the object since: the resourceVersion in the patch sees to that.
async fn take_over(
    api: &Api<DynamicObject>,
    object: &ObjectRef,
    resource_version: &str,
    managed_fields: &Value,
) -> Result<(), ApiError> {
    let patch = Patch::Merge(json!({ "metadata": {
        "resourceVersion": resource_version,
        "managedFields": managed_fields,
    }}));
    let params = PatchParams::default();
    let call = api.patch_metadata(&object.name, &params, &patch);
    deadline(API_DEADLINE, format!("take over added fields of {object}"), call).await?;
    Ok(())
}
