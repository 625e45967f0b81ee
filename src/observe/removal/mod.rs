//! Reads what a removal has to know and what is left to take away. Asked for by a decision, never watched.

mod drivers;
mod namespace;
mod nodes;
mod stack;

use kube::Client;
use kube::api::{ApiResource, ListParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt as _};

use crate::api::RELEASE_NAMESPACE;
use crate::drift::{Kind, ObjectRef};
use crate::facts::{Leavings, Left, Leftover, Remedy, Removal, SurroundingNamespace};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

pub use drivers::{has_gpu_clusters, unfinished_driver_upgrades};

/// What is left of a kind of thing. `others_label` is true where somebody else's Node Feature Discovery labels the nodes.
pub async fn left(
    client: &Client,
    what: Leavings,
    removal: Option<&Removal>,
    namespace: SurroundingNamespace,
    others_label: bool,
) -> Result<Left, ApiError> {
    // The operator's rights in the namespace go with it.
    let is_open = namespace != SurroundingNamespace::Absent;
    match what {
        Leavings::DriverUpgrades => drivers::upgrades(client).await,
        Leavings::Cordons => drivers::cordons(client, removal).await,
        Leavings::Stack => stack::objects(client, is_open).await,
        Leavings::Nodes => nodes::labels(client, others_label).await,
        Leavings::Pods if is_open => stack::pods(client).await,
        Leavings::Hooks => stack::hooks(client, is_open).await,
        Leavings::Namespace if is_open => namespace::namespace(client, namespace).await,
        Leavings::Pods | Leavings::Namespace => Ok(Left::default()),
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
    let all = ListParams::default();
    let call = api.list_metadata(&all);
    let list = deadline(API_DEADLINE, format!("list {}", kind.plural), call).await?;
    Ok(list.items)
}

/// The metadata of the objects of a kind in the release's namespace.
async fn list_there(
    client: &Client,
    kind: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ApiError> {
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), RELEASE_NAMESPACE, kind);
    let all = ListParams::default();
    let call = api.list_metadata(&all);
    let what = format!("list {} in namespace {RELEASE_NAMESPACE}", kind.plural);
    let list = found(deadline(API_DEADLINE, what, call).await)?;
    Ok(list.map_or_else(Vec::new, |list| list.items))
}
