//! A fake of the API server's Lease endpoint, with optimistic concurrency and one breakable link per client.

use std::{
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

/// The server. Clones share the one Lease.
#[derive(Clone, Default)]
pub struct FakeApi(Arc<Mutex<Server>>);

#[derive(Default)]
struct Server {
    lease: Option<Value>,
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
            .lease
            .as_ref()
            .map(|lease| lease["spec"].clone())
    }

    pub fn holder(&self) -> Option<String> {
        self.spec()
            .and_then(|spec| Some(spec["holderIdentity"].as_str()?.to_owned()))
    }

    pub fn delete(&self) {
        self.0.lock().unwrap().lease = None;
    }

    pub fn requests(&self) -> usize {
        self.0.lock().unwrap().requests
    }

    /// Writes somebody else into the Lease, as a person could.
    pub fn seize(&self, holder: &str) {
        let mut server = self.0.lock().unwrap();
        let version = server
            .lease
            .as_ref()
            .map(|lease| lease["metadata"]["resourceVersion"].clone());
        let body =
            json!({ "metadata": { "resourceVersion": version }, "spec": { "holderIdentity": holder } });
        assert_eq!(server.answer(&Method::PATCH, &body).0, 200);
    }

    async fn serve(&self, request: Request<Body>, fault: Fault) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        self.0.lock().unwrap().requests += 1;
        let api = self.clone();
        let answer = move || api.0.lock().unwrap().answer(&parts.method, &body);
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
    fn answer(&mut self, method: &Method, body: &Value) -> (u16, Value) {
        let mut stored = match (method, self.lease.take()) {
            (&Method::GET, Some(lease)) => {
                self.lease = Some(lease.clone());
                return (200, lease);
            }
            (&Method::POST, None) => body.clone(),
            (&Method::PATCH, Some(mut lease)) => {
                // As on the real server, a patch without a version is applied to whatever is there.
                let expected = &body["metadata"]["resourceVersion"];
                if !expected.is_null() && lease["metadata"]["resourceVersion"] != *expected {
                    self.lease = Some(lease);
                    return (409, status(409));
                }
                json_patch::merge(&mut lease, body);
                lease
            }
            (&Method::POST, lease @ Some(_)) => {
                self.lease = lease;
                return (409, status(409));
            }
            (_, lease) => {
                self.lease = lease;
                return (404, status(404));
            }
        };
        self.version += 1;
        stored["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(stored.clone());
        (200, stored)
    }
}

fn status(code: u16) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": format!("refused with {code}") })
}
