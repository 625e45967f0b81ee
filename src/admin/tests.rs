//! The servers over real sockets.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinHandle,
};

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start(server: Server) -> Self {
        let (address, stop) = (server.address().unwrap(), CancellationToken::new());
        let task = tokio::spawn(server.serve(stop.clone()));
        Self { address, stop, task }
    }

    async fn connect(&self) -> TcpStream {
        timeout(PATIENCE, TcpStream::connect(self.address))
            .await
            .expect("no connection in time")
            .unwrap()
    }

    /// The whole answer to one request, head and body.
    async fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = self.connect().await;
        let request = format!("{method} {path} HTTP/1.1\r\nHost: manager\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await
    }
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.unwrap_or_else(|_| panic!("the connection stays open after: {answer}"))
        .unwrap();
    answer
}

async fn healthy() -> Running {
    let fine = || Ok(());
    Running::start(Server::health(LOOPBACK, fine, fine).await.unwrap())
}

#[tokio::test]
async fn health_says_in_one_sentence_what_is_wrong() {
    let connected = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&connected);
    let live = move || {
        if flag.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err("the watch of nodes is silent".to_owned())
        }
    };
    let server = Running::start(Server::health(LOOPBACK, live, || Ok(())).await.unwrap());
    let answer = server.ask("GET", "/healthz?verbose").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );

    connected.store(false, Ordering::Relaxed);
    let answer = server.ask("GET", "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.ends_with("\r\n\r\nthe watch of nodes is silent\n"),
        "{answer}"
    );
    assert!(server.ask("GET", "/readyz").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_come_as_open_metrics() {
    let server = Running::start(Server::metrics(LOOPBACK, Metrics::new()).await.unwrap());
    let answer = server.ask("GET", "/metrics").await;
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let head = server.ask("HEAD", "/metrics").await;
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn other_pages_and_methods_are_refused() {
    let server = healthy().await;
    for path in ["/", "/metrics", "/healthz/", "//healthz"] {
        let answer = server.ask("GET", path).await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    let answer = server.ask("POST", "/healthz").await;
    assert!(
        answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_used_port_is_one_clear_sentence() {
    let server = healthy().await;
    let Err(error) = Server::metrics(server.address, Metrics::new()).await else {
        panic!("bound {} twice", server.address)
    };
    let expected = format!(
        "cannot listen on {} for metrics: Address already in use",
        server.address
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn silent_clients_cannot_shut_others_out() {
    let server = healthy().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        silent.push(server.connect().await);
    }
    // All slots are taken until the silent ones have run into the time limit for the head of a request.
    let began = std::time::Instant::now();
    let answer = server.ask("GET", "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let waited = began.elapsed();
    assert!(
        waited >= HEAD_TIMEOUT / 2,
        "connections are not bounded: {waited:?}"
    );
    assert!(
        waited < HEAD_TIMEOUT * 2,
        "waiting for a head is not bounded: {waited:?}"
    );
    for stream in &mut silent {
        read_to_end(stream).await;
    }
}

#[tokio::test]
async fn stopping_answers_what_has_begun_and_refuses_what_has_not() {
    let server = healthy().await;
    let mut begun = server.connect().await;
    begun.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    // Connections are accepted in order: once a later one is answered, the first is being served.
    server.ask("GET", "/healthz").await;
    server.stop.cancel();
    begun.write_all(b"Host: manager\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut begun).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    timeout(PATIENCE, server.task)
        .await
        .expect("the server does not stop")
        .unwrap();
    assert!(
        TcpStream::connect(server.address).await.is_err(),
        "it still listens"
    );
}
