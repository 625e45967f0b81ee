//! A fake of the API server's Lease endpoint, with optimistic concurrency and one breakable link per client.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::sleep;

/// What happens to a request on its way to the server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It never arrives.
    Cut,
    /// It is carried out, but the answer is lost.
    AnswerLost,
    /// It is carried out this much later, even if the client has given up by then, and answered.
    Late(Duration),
    /// It is refused with this HTTP status.
    Refused(u16),
}

type Weather = Arc<Mutex<Box<dyn FnMut() -> Fault + Send>>>;

/// The fault of a client's next requests; may be changed at any time.
#[derive(Clone)]
pub struct Link(Weather);

impl Link {
    pub fn set(&self, fault: Fault) {
        self.vary(move || fault);
    }

    /// Asks `next` anew for each request.
    pub fn vary(&self, next: impl FnMut() -> Fault + Send + 'static) {
        *self.0.lock().unwrap() = Box::new(next);
    }
}

/// Namespace of the replicas.
pub const HOME: &str = "kyma-system";

/// The server. Clones share its Leases, one for each namespace.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<Server>>);

#[derive(Default)]
struct Server {
    leases: BTreeMap<String, Value>,
    version: u64,
    requests: usize,
}

impl FakeApi {
    pub fn client(&self) -> (Client, Link) {
        let link = Link(Arc::new(Mutex::new(Box::new(|| Fault::None))));
        let (api, weather) = (self.clone(), link.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, fault) = (api.clone(), (weather.0.lock().unwrap())());
            async move { Ok::<_, Infallible>(api.serve(request, fault).await) }
        });
        (Client::new(service, "default"), link)
    }

    /// The spec as stored.
    pub fn spec(&self) -> Option<Value> {
        self.0
            .lock()
            .unwrap()
            .leases
            .get(HOME)
            .map(|lease| lease["spec"].clone())
    }

    pub fn holder(&self) -> Option<String> {
        self.spec()
            .and_then(|spec| Some(spec["holderIdentity"].as_str()?.to_owned()))
    }

    pub fn delete(&self) {
        self.0.lock().unwrap().leases.remove(HOME);
    }

    pub fn requests(&self) -> usize {
        self.0.lock().unwrap().requests
    }

    /// Writes somebody else into the Lease, as a person could.
    pub fn seize(&self, holder: &str) {
        self.write(HOME, holder, 0);
    }

    /// Writes a holder into the Lease of that namespace, as an operator there would at that second.
    pub fn write(&self, namespace: &str, holder: &str, second: u32) {
        let mut server = self.0.lock().unwrap();
        let lease = server.leases.entry(namespace.to_owned()).or_insert_with(
            || json!({ "metadata": { "name": "gpu-manager", "namespace": namespace, "uid": namespace } }),
        );
        lease["spec"]["holderIdentity"] = json!(holder);
        lease["spec"]["renewTime"] = json!(format!("2027-01-01T00:00:{second:02}.000000Z"));
        server.stamp(namespace);
    }

    async fn serve(&self, request: Request<Body>, fault: Fault) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        self.0.lock().unwrap().requests += 1;
        let api = self.clone();
        let answer = move || {
            api.0
                .lock()
                .unwrap()
                .answer(&parts.method, parts.uri.path(), &body)
        };
        let (code, body) = match fault {
            Fault::None => answer(),
            Fault::Cut => pending().await,
            Fault::AnswerLost => {
                answer();
                pending().await
            }
            Fault::Late(delay) => {
                let late = async move {
                    sleep(delay).await;
                    answer()
                };
                tokio::spawn(late).await.unwrap()
            }
            Fault::Refused(code) => (code, status(code)),
        };
        Response::builder()
            .status(code)
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap()
    }
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let Some((_, rest)) = path.split_once("/namespaces/") else {
            let leases: Vec<_> = self.leases.values().collect();
            return (200, json!({ "metadata": {}, "items": leases }));
        };
        let namespace = rest.split('/').next().unwrap();
        // As on the real server, a write without a version is applied to whatever is there.
        let expects = |expected: &Value, lease: &Value| {
            let wanted = |key: &str| expected[key].is_null() || expected[key] == lease["metadata"][key];
            wanted("resourceVersion") && wanted("uid")
        };
        match (method, self.leases.get_mut(namespace)) {
            (&Method::GET, Some(lease)) => return (200, lease.clone()),
            (&Method::POST, None) => {
                let mut lease = body.clone();
                lease["metadata"]["namespace"] = json!(namespace);
                lease["metadata"]["uid"] = json!(format!("uid-{}", self.version));
                self.leases.insert(namespace.to_owned(), lease);
            }
            (&Method::PATCH, Some(lease)) if expects(&body["metadata"], lease) => {
                json_patch::merge(lease, body);
            }
            (&Method::DELETE, Some(lease)) if expects(&body["preconditions"], lease) => {
                self.leases.remove(namespace);
                return (200, json!({ "kind": "Status", "status": "Success" }));
            }
            (_, Some(_)) => return (409, status(409)),
            (_, None) => return (404, status(404)),
        }
        (200, self.stamp(namespace))
    }

    /// Gives the Lease its next version.
    fn stamp(&mut self, namespace: &str) -> Value {
        self.version += 1;
        let lease = self.leases.get_mut(namespace).unwrap();
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease.clone()
    }
}

fn status(code: u16) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": format!("refused with {code}") })
}
