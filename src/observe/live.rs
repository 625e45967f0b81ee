//! Reads just before acting: the watches may lag behind, and some things are not worth a watch.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use semver::Version;
use serde_json::Value;

use super::reduce;
use crate::api::{
    GpuModule, RELEASE_NAME, RELEASE_NAMESPACE, STACK_CLUSTER_ROLE, STACK_DEPLOYMENT, revision_secret,
};
use crate::catalogue::{Chart, MinorVersion, Restarts};
use crate::desired::{DriverId, holds_drivers, values_digest};
use crate::facts::{
    Comparison, ExistingContent, ExistingRelease, History, Observed, ReleaseFacts, Revision, RevisionContent,
    Surroundings,
};
use crate::helm::{Helm, HelmError, ReleaseRef};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// Selects the Secrets in which Helm keeps the release.
pub fn release_selector() -> String {
    format!("owner=helm,name={RELEASE_NAME}")
}

/// The release's history from the metadata of its Secrets; unreadable where the operator has no rights. `known` is what the watch says.
async fn read_release(client: &Client, known: &ReleaseFacts) -> Result<ReleaseFacts, ApiError> {
    if let ReleaseFacts::Read(history) = known
        && is_current(client, history).await?
    {
        return Ok(known.clone());
    }
    match read_history(client).await {
        Ok(history) => Ok(ReleaseFacts::Read(history)),
        Err(error) if error.is_forbidden() => Ok(ReleaseFacts::Unreadable),
        Err(error) => Err(error),
    }
}

/// True where the newest revision is as known and there is no newer one.
///
/// Helm counts up and changes the newest revisions, so two reads tell what a list would. A list waits up to a tenth of a second until
/// the API server's cache has caught up with the last write of any kind; a read of one object does not.
async fn is_current(client: &Client, known: &History) -> Result<bool, ApiError> {
    let newest = async {
        match known.latest() {
            Some(newest) => Ok(read_revision(client, newest.number).await?.as_ref() == Some(newest)),
            None => Ok(true),
        }
    };
    let next = read_revision(client, known.next_number());
    match tokio::try_join!(newest, next) {
        Ok((newest, next)) => Ok(newest && next.is_none()),
        Err(error) if error.is_forbidden() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A revision from the metadata of its Secret, where there is one.
async fn read_revision(client: &Client, number: u32) -> Result<Option<Revision>, ApiError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let name = revision_secret(number);
    let what = format!("read Secret {RELEASE_NAMESPACE}/{name}");
    let secret = found(deadline(API_DEADLINE, what, secrets.get_metadata(&name)).await)?;
    Ok(secret.as_ref().and_then(reduce::revision))
}

/// The release's history from the metadata of its Secrets.
pub async fn read_history(client: &Client) -> Result<History, ApiError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let params = ListParams::default().labels(&release_selector());
    let what = format!("list the Secrets of Helm release {RELEASE_NAMESPACE}/{RELEASE_NAME}");
    let list = deadline(API_DEADLINE, what, secrets.list_metadata(&params)).await?;
    Ok(History::new(
        list.items.iter().filter_map(reduce::revision).collect(),
    ))
}

/// Whether the release's history may be read; forbidden is an error.
///
/// What is in it does not matter, so the API server may answer from its cache at once. Otherwise it waits up to a tenth of a second
/// until its cache of Secrets has caught up with what was last written of any kind.
pub async fn may_read_history(client: &Client) -> Result<(), ApiError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let params = ListParams::default().labels(&release_selector()).match_any();
    let what = format!("list the Secrets of Helm release {RELEASE_NAMESPACE}/{RELEASE_NAME}");
    deadline(API_DEADLINE, what, secrets.list_metadata(&params))
        .await
        .map(drop)
}

/// What is read from the API server just before acting.
#[derive(Debug)]
pub struct Look {
    release: ReleaseFacts,
    surroundings: Surroundings,
    controller_runs: bool,
}

impl Look {
    /// Takes the place of what the watches knew.
    pub fn put_into(self, observed: &mut Observed) {
        observed.release = self.release;
        observed.surroundings = Some(self.surroundings);
        observed.controller_runs = self.controller_runs;
    }
}

/// Reads the release, what is around it, and NVIDIA's controller. `known` is what the watch says of the release.
pub async fn look(client: &Client, known: &ReleaseFacts) -> Result<Look, ApiError> {
    let controller = async {
        match known {
            // Without rights in the namespace, there is nothing to ask.
            ReleaseFacts::Unreadable => Ok(false),
            ReleaseFacts::Read(_) => controller_runs(client).await,
        }
    };
    let (release, surroundings, controller_runs) =
        tokio::try_join!(read_release(client, known), read_surroundings(client), controller)?;
    Ok(Look {
        release,
        surroundings,
        controller_runs,
    })
}

/// Whether NVIDIA's controller runs what its newest spec says; false without the right to read it.
async fn controller_runs(client: &Client) -> Result<bool, ApiError> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let what = format!("read Deployment {RELEASE_NAMESPACE}/{STACK_DEPLOYMENT}");
    match found(deadline(API_DEADLINE, what, deployments.get(STACK_DEPLOYMENT)).await) {
        Ok(controller) => Ok(controller.as_ref().is_some_and(reduce::runs_newest)),
        Err(error) if error.is_forbidden() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The namespace of the release and the owner of the stack's ClusterRole.
async fn read_surroundings(client: &Client) -> Result<Surroundings, ApiError> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let what = format!("read Namespace {RELEASE_NAMESPACE}");
    let namespace = found(deadline(API_DEADLINE, what, namespaces.get(RELEASE_NAMESPACE)).await)?;
    let roles = Api::<ClusterRole>::all(client.clone());
    let what = format!("read ClusterRole {STACK_CLUSTER_ROLE}");
    let role = found(deadline(API_DEADLINE, what, roles.get_metadata(STACK_CLUSTER_ROLE)).await)?;
    Ok(Surroundings {
        namespace: reduce::surrounding(namespace.as_ref()),
        departure: namespace.as_ref().and_then(reduce::departure),
        cluster_role: role.map(|role| reduce::owner(&role.metadata)),
    })
}

/// A revision as Helm sees it, values included; `None` where it is gone.
pub async fn read_through_helm(
    helm: &Helm,
    release: &ReleaseRef,
    revision: &Revision,
    restarts: &Restarts,
) -> Result<Option<Comparison>, HelmError> {
    let (number, uid) = (revision.number, revision.uid.clone());
    let found = match helm.get_metadata(release, Some(number)).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(HelmError::Undecodable { message, .. }) => {
            tracing::warn!(revision = number, message, "a revision cannot be decoded");
            return Ok(Some(Comparison { uid, content: None }));
        }
        Err(error) => return Err(error),
    };
    let Some(values) = helm.get_values(release, Some(number)).await? else {
        return Ok(None);
    };
    let version = found.version.trim_start_matches('v');
    let chart_version = Version::parse(version).map_err(|error| HelmError::Output {
        verb: "get metadata",
        reason: format!("chart version {version} cannot be read: {error}"),
    })?;
    Ok(Some(Comparison {
        uid,
        content: Some(RevisionContent {
            driver: DriverId::of(&chart_version, &values, restarts),
            holds_drivers: holds_drivers(&values),
            chart_version,
            values_digest: values_digest(&values),
        }),
    }))
}

/// A revision that the module did not make, and the defaults of the chart that is wanted; `None` where the revision is gone.
pub async fn read_existing(
    helm: &Helm,
    release: &ReleaseRef,
    revision: &Revision,
    chart: &Chart,
    archive: &Path,
    restarts: &Restarts,
) -> Result<Option<ExistingRelease>, HelmError> {
    let Some(found) = read_through_helm(helm, release, revision, restarts).await? else {
        return Ok(None);
    };
    let existing = |content| ExistingRelease {
        uid: revision.uid.clone(),
        revision: revision.number,
        wanted_chart: chart.version.clone(),
        content,
    };
    let Some(RevisionContent { chart_version, .. }) = found.content else {
        return Ok(Some(existing(None)));
    };
    let values = helm.get_values(release, Some(revision.number)).await?;
    let all_values = helm.get_all_values(release, revision.number).await?;
    let (Some(Value::Object(values)), Some(Value::Object(all_values))) = (values, all_values) else {
        return Ok(None);
    };
    let defaults = helm.show_values(archive).await?;
    let defaults = serde_saphyr::from_str(&defaults).map_err(|error| HelmError::Output {
        verb: "show values",
        reason: format!("the defaults of chart {} cannot be read: {error}", chart.version),
    })?;
    Ok(Some(existing(Some(ExistingContent {
        chart_version,
        values,
        all_values,
        defaults,
    }))))
}

/// Which of the Secrets of these names are not in the namespace of the release.
pub async fn missing_secrets(client: &Client, names: &[String]) -> Result<Vec<String>, ApiError> {
    let secrets = Api::<Secret>::namespaced(client.clone(), RELEASE_NAMESPACE);
    let mut missing = Vec::new();
    for name in names {
        let what = format!("read Secret {RELEASE_NAMESPACE}/{name}");
        let secret = found(deadline(API_DEADLINE, what, secrets.get_metadata(name)).await)?;
        missing.extend(secret.is_none().then(|| name.clone()));
    }
    Ok(missing)
}

/// What can be read of a GpuModule that cannot be read as a whole.
pub async fn read_readable(client: &Client, name: &str) -> Result<Option<GpuModule>, ApiError> {
    let kind = ApiResource::erase::<GpuModule>(&());
    let modules = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let what = format!("read GpuModule {name}");
    let object = found(deadline(API_DEADLINE, what, modules.get(name)).await)?;
    Ok(object.map(|object| GpuModule::readable(object.metadata, &object.data)))
}

/// Version of the API server.
pub async fn kubernetes_version(client: &Client) -> Result<MinorVersion, ApiError> {
    let info = deadline(
        API_DEADLINE,
        "read the version of the API server",
        client.apiserver_version(),
    )
    .await?;
    let text = format!("{}.{}", info.major, info.minor);
    // A version that cannot be read is taken for an ancient one, so that nothing is installed.
    Ok(text.parse().unwrap_or(MinorVersion { major: 0, minor: 0 }))
}
