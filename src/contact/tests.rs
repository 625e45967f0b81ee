//! Which requests count for which resource, through a real client on a fake connection.

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::{
    Api,
    api::{ListParams, WatchParams},
    client::Body,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::{advance, timeout},
};
use tower::{BoxError, service_fn};

use super::*;

#[derive(Clone, Copy)]
enum Server {
    Answers(u16),
    Hangs,
    Unreachable,
}

fn client_of(server: Server, contacts: &Contacts) -> Client {
    let service = service_fn(move |request: Request<Body>| async move {
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let body = if watch {
            ""
        } else {
            r#"{"metadata":{},"items":[]}"#
        };
        match server {
            Server::Answers(code) => Ok(Response::builder()
                .status(code)
                .body(Body::from(body.as_bytes().to_vec()))?),
            Server::Hangs => std::future::pending().await,
            Server::Unreachable => Err(BoxError::from("connection refused")),
        }
    });
    ClientBuilder::new(service, "default")
        .with_layer(contacts)
        .build()
}

async fn list_nodes(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let params = ListParams::default();
    timeout(Duration::from_secs(1), nodes.list(&params)).await.ok();
}

fn nodes() -> Resource {
    Resource::of::<Node>(None)
}

async fn silent_after(server: Server) -> bool {
    let contacts = Contacts::default();
    contacts.register(nodes(), Instant::now());
    advance(SILENCE_LIMIT).await;
    list_nodes(&client_of(server, &contacts)).await;
    advance(Duration::from_secs(1)).await;
    contacts.silent(Instant::now(), SILENCE_LIMIT) == [nodes()]
}

#[tokio::test(start_paused = true)]
async fn any_answer_ends_the_silence_but_no_answer_does_not() {
    for code in [200, 403, 404, 410, 500] {
        assert!(!silent_after(Server::Answers(code)).await, "HTTP {code}");
    }
    assert!(silent_after(Server::Hangs).await);
    assert!(silent_after(Server::Unreachable).await);
}

#[tokio::test(start_paused = true)]
async fn silence_counts_from_the_registration() {
    let contacts = Contacts::default();
    assert!(contacts.silent(Instant::now(), SILENCE_LIMIT).is_empty());
    advance(SILENCE_LIMIT * 5).await;
    contacts.register(nodes(), Instant::now());
    advance(SILENCE_LIMIT).await;
    assert!(contacts.silent(Instant::now(), SILENCE_LIMIT).is_empty());
    advance(Duration::from_secs(1)).await;
    assert_eq!(contacts.silent(Instant::now(), SILENCE_LIMIT), [nodes()]);
}

#[tokio::test(start_paused = true)]
async fn each_resource_and_namespace_is_on_its_own() {
    let contacts = Contacts::default();
    let ours = Resource::of::<Secret>(Some("gpu-operator"));
    let others = [
        Resource::of::<Secret>(Some("default")),
        Resource::of::<Secret>(None),
        nodes(),
    ];
    for resource in others.iter().chain([&ours]) {
        contacts.register(resource.clone(), Instant::now());
    }
    advance(SILENCE_LIMIT * 2).await;
    let client = client_of(Server::Answers(200), &contacts);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "gpu-operator");
    let mut events = Box::pin(secrets.watch(&WatchParams::default(), "0").await.unwrap());
    assert!(events.next().await.is_none());
    // Neither one object nor an unregistered collection counts for anything.
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.list(&ListParams::default()).await.unwrap();
    Api::<Secret>::namespaced(client.clone(), "default")
        .get("one")
        .await
        .unwrap();
    Api::<Node>::all(client).get("one").await.unwrap();
    let mut expected = others.to_vec();
    expected.sort();
    assert_eq!(contacts.silent(Instant::now(), SILENCE_LIMIT), expected);
}

#[tokio::test]
async fn requests_are_counted_by_verb() {
    let requests = ApiRequests::default();
    let contacts = Contacts::new(requests.clone());
    let client = client_of(Server::Answers(200), &contacts);
    let all: Api<Node> = Api::all(client.clone());
    list_nodes(&client).await;
    list_nodes(&client).await;
    all.get("one").await.unwrap();
    all.delete("one", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    drop(all.watch(&WatchParams::default(), "0").await.unwrap());
    let count = |verb: Verb| requests.get_or_create(&verb.into()).get();
    assert_eq!(Verb::ALL.map(count), [1, 2, 1, 0, 0, 0, 1]);
}

#[tokio::test]
async fn the_real_client_introduces_itself_and_is_noted() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}/prefix", server.local_addr().unwrap())
        .parse()
        .unwrap();
    let mut config = Config::new(url);
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static("somebody-else")));
    let contacts = Contacts::default();
    contacts.register(nodes(), Instant::now());
    let registered = Instant::now();
    let client = client(config, &contacts).unwrap();

    let answering = tokio::spawn(async move {
        let (mut stream, _) = server.accept().await.unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(stream.read_u8().await.unwrap()));
        }
        let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(refusal).await.unwrap();
        head
    });
    Api::<Node>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    let head = timeout(Duration::from_secs(10), answering)
        .await
        .unwrap()
        .unwrap();
    assert!(head.starts_with("GET /prefix/api/v1/nodes?"), "{head}");
    let agents: Vec<&str> = head
        .lines()
        .filter(|line| line.starts_with("user-agent:"))
        .collect();
    assert_eq!(
        agents,
        [concat!("user-agent: gpu-manager/", env!("CARGO_PKG_VERSION"))]
    );
    let (answered, _) = contacts.with(|answered| answered[&nodes()]);
    assert!(answered > registered, "the answer was not noted");
}

#[test]
fn paths_name_collections() {
    let some = |group: &str, plural: &str, namespace| Some(Resource::new(group, plural, namespace));
    for (path, expected) in [
        ("/api/v1/nodes", some("", "nodes", None)),
        ("/api/v1/namespaces", some("", "namespaces", None)),
        (
            "/api/v1/namespaces/gpu-operator/secrets",
            some("", "secrets", Some("gpu-operator")),
        ),
        (
            "/apis/nvidia.com/v1/clusterpolicies",
            some("nvidia.com", "clusterpolicies", None),
        ),
        (
            "/apis/apps/v1/namespaces/a/daemonsets",
            some("apps", "daemonsets", Some("a")),
        ),
        ("/api/v1/nodes/one", None),
        ("/api/v1/namespaces/gpu-operator", None),
        ("/api/v1/namespaces/a/secrets/one", None),
        ("/apis/nvidia.com/v1/clusterpolicies/one/status", None),
        ("/apis/nvidia.com/v1", None),
        ("/apis", None),
        ("/version", None),
    ] {
        assert_eq!(Resource::from_path(path), expected, "{path}");
    }
}

#[test]
fn resources_read_well_in_a_sentence() {
    assert_eq!(nodes().to_string(), "nodes");
    let text = Resource::new("apps", "daemonsets", Some("gpu-operator")).to_string();
    assert_eq!(text, "daemonsets.apps in gpu-operator");
}

#[test]
fn a_resource_is_forgotten_with_its_last_watch() {
    let contacts = Contacts::default();
    let (now, limit) = (Instant::now(), Duration::from_secs(1));
    contacts.register(nodes(), now);
    contacts.register(nodes(), now);
    let silent = || contacts.silent(now + 2 * limit, limit);
    contacts.forget(&nodes());
    assert_eq!(silent(), [nodes()], "another watch of it goes on");
    contacts.forget(&nodes());
    contacts.forget(&nodes());
    assert_eq!(silent(), []);
}
