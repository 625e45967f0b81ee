//! Notes when the API server last answered each watched resource, and builds the client that does so.
//!
//! A watch that is silent looks like a cluster in which nothing happens. kube's watcher asks anew at least every five
//! minutes, so a resource for which no list or watch request was answered for longer has lost its watch for good.
//! The notes are taken in a layer of the client itself: nobody who starts a watch can forget them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{TryFutureExt as _, future::BoxFuture};
use http::{HeaderValue, Method, Request, Response, Uri, header::USER_AGENT};
use kube::{Client, Config, client::ClientBuilder};
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics::{ApiRequests, Verb};

/// How long a watched resource may go without an answer. A healthy watch gets one at least every 295 s.
pub const SILENCE_LIMIT: Duration = Duration::from_mins(10);

/// Longest wait for a connection to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A resource as a list or watch request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name, as in URLs.
    pub plural: String,
    /// The one namespace asked for; `None` for cluster-scoped resources and for all namespaces.
    pub namespace: Option<String>,
}

impl Resource {
    /// A resource of the core group if `group` is empty.
    pub fn new(group: &str, plural: &str, namespace: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// The resource of a typed kind.
    pub fn of<K: kube::Resource<DynamicType = ()>>(namespace: Option<&str>) -> Self {
        Self::new(&K::group(&()), &K::plural(&()), namespace)
    }

    /// The collection that a request path names; `None` for single objects, subresources and everything else.
    fn from_path(path: &str) -> Option<Self> {
        let (group, rest) = if let Some(rest) = path.strip_prefix("/api/v1/") {
            ("", rest)
        } else {
            let (group, rest) = path.strip_prefix("/apis/")?.split_once('/')?;
            (group, rest.split_once('/')?.1)
        };
        match *rest.split('/').collect::<Vec<_>>() {
            [plural] => Some(Self::new(group, plural, None)),
            ["namespaces", namespace, plural] => Some(Self::new(group, plural, Some(namespace))),
            _ => None,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        self.namespace
            .as_ref()
            .map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

/// When each registered resource was last answered for. Clones share the notes.
#[derive(Clone, Debug, Default)]
pub struct Contacts {
    /// For each resource also how many watches there are of it.
    answered: Arc<Mutex<BTreeMap<Resource, (Instant, usize)>>>,
    requests: ApiRequests,
}

impl Contacts {
    /// Nothing is registered yet; every request is counted in `requests`.
    pub fn new(requests: ApiRequests) -> Self {
        Self {
            answered: Arc::default(),
            requests,
        }
    }

    /// Begins to expect answers for `resource`; its silence counts from `now`.
    pub fn register(&self, resource: Resource, now: Instant) {
        self.with(|answered| {
            let (since, watches) = answered.entry(resource).or_insert((now, 0));
            *since = now;
            *watches += 1;
        });
    }

    /// Ends the notes on a resource once its last watch has ended on purpose.
    pub fn forget(&self, resource: &Resource) {
        self.with(|answered| {
            if let Some((_, watches)) = answered.get_mut(resource) {
                *watches -= 1;
                if *watches == 0 {
                    answered.remove(resource);
                }
            }
        });
    }

    /// The registered resources without an answer for longer than `limit`.
    pub fn silent(&self, now: Instant, limit: Duration) -> Vec<Resource> {
        let too_long = |since: &Instant| now.saturating_duration_since(*since) > limit;
        self.with(|answered| {
            answered
                .iter()
                .filter(|(_, (since, _))| too_long(since))
                .map(|(resource, _)| resource.clone())
                .collect()
        })
    }

    fn note(&self, resource: &Resource, now: Instant) {
        self.with(|answered| {
            if let Some((since, _)) = answered.get_mut(resource) {
                *since = now;
            }
        });
    }

    fn with<T>(&self, action: impl FnOnce(&mut BTreeMap<Resource, (Instant, usize)>) -> T) -> T {
        // A map of instants cannot be left half changed.
        action(&mut self.answered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S> Layer<S> for Contacts {
    type Service = Noting<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Noting {
            inner,
            contacts: self.clone(),
        }
    }
}

/// The service that [`Contacts`] puts around a client: it looks at the request's line and waits for the head of the
/// answer. Any HTTP status is an answer; a lost connection is none.
#[derive(Clone, Debug)]
pub struct Noting<S> {
    inner: S,
    contacts: Contacts,
}

impl<S, In, Out> Service<Request<In>> for Noting<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let collection = Resource::from_path(request.uri().path());
        let verb = verb(request.method(), request.uri(), collection.is_some());
        self.contacts.requests.get_or_create(&verb.into()).inc();
        let watched = collection.filter(|_| matches!(verb, Verb::List | Verb::Watch));
        let contacts = self.contacts.clone();
        let note = move |_: &Response<Out>| {
            if let Some(resource) = watched {
                contacts.note(&resource, Instant::now());
            }
        };
        Box::pin(self.inner.call(request).inspect_ok(note))
    }
}

/// The request's verb in the sense of Kubernetes RBAC.
fn verb(method: &Method, uri: &Uri, collection: bool) -> Verb {
    let watch = || {
        uri.query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
    };
    match *method {
        Method::GET if collection && watch() => Verb::Watch,
        Method::GET if collection => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Get,
    }
}

/// Builds the client that all of the manager uses.
///
/// Connecting has a time limit, reading has none: a quiet watch is nothing unusual. Ordinary calls get their limit
/// from [`crate::kube_api::deadline`].
pub fn client(mut config: Config, contacts: &Contacts) -> kube::Result<Client> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    config.headers.retain(|(name, _)| name != USER_AGENT);
    let user_agent = HeaderValue::from_static(concat!("gpu-manager/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, user_agent));
    Ok(ClientBuilder::try_from(config)?.with_layer(contacts).build())
}

#[cfg(test)]
mod tests;
