//! Reads what a removal has to know and what is left to take away. Asked for by a decision, never watched.

mod content;
mod crds;
mod drivers;
mod namespace;
mod nfd;
mod nodes;
mod pods;
mod release;
mod served;
mod stack;

use std::fmt::Debug;

use kube::Client;
use kube::api::{ApiResource, ListParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::api::RELEASE_NAMESPACE;
use crate::drift::{Kind, ObjectRef};
use crate::facts::{Leavings, Left, Leftover, Neighbour, Remedy, Removal, SurroundingNamespace};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

pub use crds::is_in_use;
pub use drivers::{has_gpu_clusters, unfinished_driver_upgrades};

/// Objects whose metadata is asked for at a time: that of a node is some kilobytes.
const PAGE: u32 = 500;

/// What is left of a kind of thing. `others_nfd` is somebody else's Node Feature Discovery, which labels the nodes too.
pub async fn left(
    client: &Client,
    what: Leavings,
    removal: Option<&Removal>,
    namespace: SurroundingNamespace,
    others_nfd: Option<&Neighbour>,
) -> Result<Left, ApiError> {
    // The operator's rights in the namespace go with it.
    let is_open = namespace != SurroundingNamespace::Absent;
    match what {
        Leavings::DriverUpgrades => drivers::upgrades(client).await,
        Leavings::Cordons => drivers::cordons(client, removal).await,
        Leavings::Release => release::objects(client, is_open).await,
        Leavings::Stack => stack::objects(client, is_open).await,
        Leavings::Nodes => nodes::labels(client, others_nfd.is_some()).await,
        Leavings::Pods if is_open => pods::pods(client).await,
        Leavings::Hooks => stack::hooks(client, is_open).await,
        Leavings::OwnLabels => nodes::own_labels(client).await,
        Leavings::Crds => crds::crds(client, others_nfd).await,
        Leavings::Namespace if is_open => namespace::namespace(client, namespace).await,
        Leavings::Rights if is_open => namespace::rights(client, namespace).await,
        Leavings::Pods | Leavings::Namespace | Leavings::Rights => Ok(Left::default()),
    }
}

/// An object that has to be deleted, or is being deleted already.
fn gone<K: kube::Resource>(object: &K, kind: Kind) -> Leftover {
    let deleted = object.meta().deletion_timestamp.is_some();
    Leftover {
        object: ObjectRef {
            kind,
            namespace: object.namespace(),
            name: object.name_any(),
        },
        uid: object.uid().unwrap_or_default(),
        remedy: if deleted { Remedy::Wait } else { Remedy::Delete },
    }
}

/// The objects of a kind; none where it is not served.
async fn list(client: &Client, kind: &ApiResource) -> Result<Vec<DynamicObject>, ApiError> {
    let api = Api::<DynamicObject>::all_with(client.clone(), kind);
    let all = ListParams::default();
    let call = api.list(&all);
    let list = found(deadline(API_DEADLINE, format!("list {}", kind.plural), call).await)?;
    Ok(list.map_or_else(Vec::new, |list| list.items))
}

/// The metadata of all objects of a kind.
async fn list_metadata(
    client: &Client,
    kind: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ApiError> {
    let api = Api::<DynamicObject>::all_with(client.clone(), kind);
    pages(&api, &format!("list {}", kind.plural)).await
}

/// The metadata of the objects of a kind in the release's namespace.
async fn list_there(
    client: &Client,
    kind: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ApiError> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), RELEASE_NAMESPACE, kind);
    let what = format!("list {} in namespace {RELEASE_NAMESPACE}", kind.plural);
    Ok(found(pages(&api, &what).await)?.unwrap_or_default())
}

/// The metadata of all objects, however many there are.
async fn pages<K>(api: &Api<K>, what: &str) -> Result<Vec<PartialObjectMeta<K>>, ApiError>
where
    K: Clone + DeserializeOwned + Debug,
{
    pages_of(api, ListParams::default(), what).await
}

/// The metadata of the objects that `params` select.
async fn pages_of<K>(
    api: &Api<K>,
    params: ListParams,
    what: &str,
) -> Result<Vec<PartialObjectMeta<K>>, ApiError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = deadline(API_DEADLINE, what.to_owned(), api.list_metadata(&params)).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}
