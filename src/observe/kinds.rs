//! Kinds as the API server serves them: what a manifest calls a kind becomes a path to ask for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::core::discovery::Scope;
use kube::core::{ApiResource, DynamicResourceScope, GroupVersionKind};
use kube::{Api, Client, Resource as KubeResource, discovery};
use serde_json::Value;

use crate::api::RELEASE_NAMESPACE;
use crate::drift::Kind;
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};

/// A kind that is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// How to ask for it.
    pub resource: ApiResource,
    scope: Scope,
}

impl Served {
    /// Where objects of that kind lie; without a namespace in the manifest, the release's.
    pub fn namespace<'a>(&self, named: Option<&'a str>) -> Option<&'a str> {
        (self.scope == Scope::Namespaced).then(|| named.unwrap_or(RELEASE_NAMESPACE))
    }

    /// The objects there.
    pub fn api<K>(&self, client: &Client, named: Option<&str>) -> Api<K>
    where
        K: KubeResource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match self.namespace(named) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// An object of a manifest with the namespace that it lies in.
    pub fn place(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let named = object["metadata"]["namespace"].as_str().map(ToOwned::to_owned);
        if let Some(namespace) = self.namespace(named.as_deref()) {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }
}

/// Asks the API server once for each kind.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    known: Arc<Mutex<BTreeMap<Kind, Served>>>,
}

impl Kinds {
    /// Nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// For requests about the objects.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// How a kind is served; `None` as long as it is not, for example without its CRD.
    pub async fn resolve(&self, kind: &Kind) -> Result<Option<Served>, ApiError> {
        if let Some(served) = self.known().get(kind) {
            return Ok(Some(served.clone()));
        }
        let (group, version) = kind
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", &kind.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &kind.kind);
        let what = format!("learn how kind {} of {} is served", kind.kind, kind.api_version);
        let call = async {
            match discovery::pinned_kind(&self.client, &gvk).await {
                Err(kube::Error::Discovery(_)) => Ok(None),
                answer => answer.map(Some),
            }
        };
        let Some((resource, capabilities)) = found(deadline(API_DEADLINE, what, call).await)?.flatten()
        else {
            return Ok(None);
        };
        let served = Served {
            resource,
            scope: capabilities.scope,
        };
        self.known().insert(kind.clone(), served.clone());
        Ok(Some(served))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kind, Served>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kinds")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
