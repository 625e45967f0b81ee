//! A small fake of the Kubernetes API: list, watch, get, create and patch on an in-memory store, each of which a test can
//! make fail.
//!
//! It behaves like the real one where the operator depends on it: kinds without a CRD are not served, rights in the
//! release's namespace come with the RoleBinding, an unchanged object makes no event, and the Secrets of the release appear
//! when (fake) Helm has made them.

mod objects;
mod requests;
mod stream;

use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gpu_manager::contact::Contacts;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::{Body, ClientBuilder};
use serde_json::{Value, json};
use tokio::sync::watch;

pub use objects::{CRDS, GPU_MODULES, NODES, ROLE_BINDINGS, SECRETS};
use objects::{Key, Store};
pub use requests::{Recorded, Verb};

/// What happens to a request instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this HTTP status.
    Refuse(u16),
    /// It is never answered.
    Hang,
    /// It is answered as if it had been done, and nothing is changed: somebody undoes it at once.
    Undo,
}

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

type Rule = (Fault, Box<dyn Fn(&Recorded) -> bool + Send>);

/// The fake; clones share it.
#[derive(Clone)]
pub struct FakeApi(Arc<Mutex<Server>>);

struct Server {
    store: Store,
    requests: Vec<Recorded>,
    rules: Vec<Rule>,
    releases: Option<PathBuf>,
    withhold_rights: bool,
    /// Watches of this kind tell nothing.
    late: Option<String>,
    /// Counts up when watches have something to look at.
    ticks: watch::Sender<u64>,
    /// Watches that began before this many requests are cut.
    cut_before: usize,
}

impl FakeApi {
    /// An empty cluster in which no CRD but the module's own is there.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Server {
            store: Store::default(),
            requests: Vec::new(),
            rules: Vec::new(),
            releases: None,
            withhold_rights: false,
            late: None,
            ticks: watch::Sender::new(0),
            cut_before: 0,
        })))
    }

    /// A client as the operator builds it, but for the connection.
    pub fn client(&self, contacts: &Contacts) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        ClientBuilder::new(service, "default")
            .with_layer(contacts)
            .build()
    }

    /// From now on the Secrets of the release are what lies in that folder of the fake Helm.
    pub fn show_releases_of(&self, folder: PathBuf) {
        self.lock().releases = Some(folder);
    }

    /// Lets all requests that `concerns` accepts end in `fault`, until [`Self::heal`].
    pub fn fault(&self, fault: Fault, concerns: impl Fn(&Recorded) -> bool + Send + 'static) {
        self.lock().rules.push((fault, Box::new(concerns)));
    }

    /// Ends all faults.
    pub fn heal(&self) {
        let mut server = self.lock();
        server.rules.clear();
        server.withhold_rights = false;
        server.late = None;
        server.tick();
    }

    /// The RoleBinding in the release's namespace gives no rights.
    pub fn withhold_rights(&self) {
        self.lock().withhold_rights = true;
    }

    /// Lets the watches of that kind tell nothing until [`Self::heal`].
    pub fn keep_late(&self, kind: &str) {
        self.lock().late = Some(kind.to_owned());
    }

    /// Creates or replaces an object and returns it as stored.
    pub fn put(&self, kind: &str, object: Value) -> Value {
        self.change(|store| store.put(kind, object))
    }

    /// Changes an object and returns it as stored.
    pub fn edit(&self, kind: &str, name: &str, edit: impl FnOnce(&mut Value)) -> Value {
        self.change(|store| store.edit(&Key::named(kind, name), edit))
    }

    /// Deletes an object, or marks it while it has finalizers.
    pub fn delete(&self, kind: &str, name: &str) {
        self.change(|store| store.delete(&Key::named(kind, name)));
    }

    /// An object by kind and name, whatever its namespace.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.lock().store.get(&Key::named(kind, name)).cloned()
    }

    /// The status of the GpuModule.
    pub fn status(&self) -> Value {
        self.get(GPU_MODULES, "default")
            .map_or(Value::Null, |module| module["status"].clone())
    }

    /// The condition of that type in the status of the GpuModule.
    pub fn condition(&self, kind: &str) -> Value {
        let status = self.status();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == kind)
            .unwrap_or_default()
    }

    /// The requests so far that `concerns` accepts.
    pub fn requests(&self, concerns: impl Fn(&Recorded) -> bool) -> Vec<Recorded> {
        self.lock()
            .requests
            .iter()
            .filter(|request| concerns(request))
            .cloned()
            .collect()
    }

    /// Version of the last change.
    pub fn version(&self) -> u64 {
        self.lock().store.version
    }

    /// How many requests there were so far.
    pub fn count(&self) -> usize {
        self.lock().requests.len()
    }

    /// Cuts the connections of all watches.
    pub fn cut_watches(&self) {
        let mut server = self.lock();
        server.cut_before = server.requests.len();
        server.tick();
    }

    /// Forgets what watches could go on from: each is told that its version is too old.
    pub fn expire_watches(&self) {
        let mut server = self.lock();
        server.store.forget_changes();
        server.tick();
    }

    fn change<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut server = self.lock();
        let result = change(&mut server.store);
        server.tick();
        result
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        let request = Recorded::new(&parts, body);
        let (number, fault) = self.record(request.clone());
        match fault {
            Some(Fault::Hang) => pending().await,
            Some(Fault::Refuse(code)) => refusal(code),
            None if request.verb == Verb::Watch => self.watch(request, number),
            None | Some(Fault::Undo) => {
                let mut server = self.lock();
                let before = server.store.clone();
                let (code, answer) = server.answer(&parts.method, &request);
                if fault.is_some() || request.parameter("dryRun").is_some() {
                    server.store = before;
                }
                respond(code, &answer)
            }
        }
    }

    fn record(&self, request: Recorded) -> (usize, Option<Fault>) {
        let mut server = self.lock();
        server.read_releases();
        let fault = server.fault(&request);
        server.requests.push(request);
        (server.requests.len(), fault)
    }
}

impl Server {
    fn tick(&self) {
        self.ticks.send_modify(|count| *count += 1);
    }

    fn read_releases(&mut self) {
        if let Some(folder) = &self.releases
            && self.store.read_releases(folder)
        {
            self.tick();
        }
    }

    fn fault(&self, request: &Recorded) -> Option<Fault> {
        let rule = self.rules.iter().find(|(_, concerns)| concerns(request));
        if let Some((fault, _)) = rule {
            return Some(*fault);
        }
        // How kinds are served is no object of a kind.
        let is_discovery = request.name.is_empty() && request.kind.starts_with('.');
        if !is_discovery && !self.store.serves(&request.kind) {
            return Some(Fault::Refuse(404));
        }
        let bound = self.store.has_role_binding() && !self.withhold_rights;
        // Pods of all namespaces may be listed without it.
        let is_there = request.namespace == "gpu-operator";
        let needs_binding = matches!(request.kind.as_str(), SECRETS | "deployments.apps")
            || (request.kind == "pods" && is_there);
        (needs_binding && !bound).then_some(Fault::Refuse(403))
    }

    fn answer(&mut self, method: &Method, request: &Recorded) -> (u16, Value) {
        let result = match (request.verb, method) {
            (Verb::Get, _) if request.path == "/version" => Ok(version()),
            (Verb::Get, _) if request.path == "/api/v1" => Ok(core_kinds()),
            (Verb::Get, _) if request.path == "/api" => Ok(group_without_objects("")),
            (Verb::Get, _) if request.path == "/apis" => Ok(group_without_objects("apps")),
            _ if request.path == "/apis/apps/v1" => Ok(apps_kinds()),
            _ if request.path == "/apis/nvidia.com/v1" => Ok(nvidia_kinds()),
            (Verb::List, _) => Ok(self.store.list(request)),
            (Verb::Get, &Method::GET) => self.store.get(&request.key()).cloned().ok_or(404),
            (Verb::Patch, _) => self.store.patch(request),
            (Verb::Create, _) => Ok(self.store.put(&request.kind, request.body.clone())),
            (Verb::Delete, _) => {
                let object = self.store.get(&request.key()).cloned().ok_or(404);
                self.store.delete(&request.key());
                object
            }
            _ => Err(405),
        };
        self.tick();
        result.map_or_else(|code| (code, status(code)), |object| (200, request.trim(object)))
    }
}

fn version() -> Value {
    json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "gc", "platform": "linux/amd64" })
}

/// Nobody has put anything of any kind anywhere.
fn group_without_objects(name: &str) -> Value {
    let versions = json!([{ "version": "v1", "resources": [], "freshness": "Current" }]);
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{ "metadata": { "name": name }, "versions": versions }] })
}

/// What of the core group is looked up by kind.
fn core_kinds() -> Value {
    json!({ "kind": "APIResourceList", "groupVersion": "v1", "resources": [
        { "name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
          "verbs": ["create", "delete", "get", "list", "patch", "watch"] },
        { "name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
          "verbs": ["create", "delete", "get", "list", "patch", "watch"] },
    ]})
}

/// What of group apps is looked up by kind.
fn apps_kinds() -> Value {
    json!({ "kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [
        { "name": "daemonsets", "singularName": "daemonset", "namespaced": true, "kind": "DaemonSet",
          "verbs": ["create", "delete", "get", "list", "patch", "watch"] },
    ]})
}

/// What of NVIDIA's kinds is looked up by kind.
fn nvidia_kinds() -> Value {
    json!({ "kind": "APIResourceList", "groupVersion": "nvidia.com/v1", "resources": [
        { "name": "clusterpolicies", "singularName": "clusterpolicy", "namespaced": false, "kind": "ClusterPolicy",
          "verbs": ["create", "delete", "get", "list", "patch", "watch"] },
    ]})
}

fn status(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": format!("the fake API says {code}") })
}

fn refusal(code: u16) -> Answer {
    respond(code, &status(code))
}

fn respond(code: u16, body: &Value) -> Answer {
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    let answer = Response::builder().status(code).body(body.boxed_unsync());
    answer.expect("a response")
}
