//! The two small HTTP servers for the cluster: health for the kubelet, metrics for Prometheus.
//!
//! Each connection serves one request and is bounded in number and time, so nobody who can reach a port can hold the
//! manager's memory. Answers are computed from what the process already knows; no request waits for the API server.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::{self, Metrics};

/// Port of `/healthz` and `/readyz`.
pub const HEALTH_PORT: u16 = 8081;
/// Port of `/metrics`.
pub const METRICS_PORT: u16 = 8080;

/// Connections that one server serves at a time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: u32 = 64;
/// Longest wait for a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection, for clients that do not read their answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long open connections may take to end once the server is to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, which usually means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Something that knows whether it is well.
pub trait Health: Send + Sync + 'static {
    /// One sentence that says what is wrong, if something is. Must answer at once.
    fn check(&self) -> Result<(), String>;
}

impl<F: Fn() -> Result<(), String> + Send + Sync + 'static> Health for F {
    fn check(&self) -> Result<(), String> {
        self()
    }
}

/// A port that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose}: {source}; choose another address or stop what uses it")]
pub struct BindError {
    /// The address asked for.
    pub address: SocketAddr,
    /// What it was to serve.
    pub purpose: &'static str,
    source: io::Error,
}

/// What one server has to offer.
enum Pages {
    Health {
        live: Box<dyn Health>,
        ready: Box<dyn Health>,
    },
    Metrics(Metrics),
}

/// A server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    pages: Arc<Pages>,
}

impl Server {
    /// Listens for `/healthz`, answered by `live`, and `/readyz`, answered by `ready`.
    pub async fn health(
        address: SocketAddr,
        live: impl Health,
        ready: impl Health,
    ) -> Result<Self, BindError> {
        let pages = Pages::Health {
            live: Box::new(live),
            ready: Box::new(ready),
        };
        Self::bind(address, "health checks", pages).await
    }

    /// Listens for `/metrics`.
    pub async fn metrics(address: SocketAddr, metrics: Metrics) -> Result<Self, BindError> {
        Self::bind(address, "metrics", Pages::Metrics(metrics)).await
    }

    async fn bind(address: SocketAddr, purpose: &'static str, pages: Pages) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address).await.map_err(|source| BindError {
            address,
            purpose,
            source,
        })?;
        Ok(Self {
            listener,
            pages: Arc::new(pages),
        })
    }

    /// The address listened on, with the real port where 0 was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`, then lets open connections end.
    pub async fn serve(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
        tokio::select! {
            () = stop.cancelled() => {}
            () = accept(&self.listener, &self.pages, &slots) => {}
        }
        drop(self.listener);
        // Holding every slot means that no connection is left; those that take too long die with the process.
        timeout(DRAIN_TIMEOUT, slots.acquire_many(MAX_CONNECTIONS))
            .await
            .ok();
    }
}

async fn accept(listener: &TcpListener, pages: &Arc<Pages>, slots: &Arc<Semaphore>) {
    // The semaphore is never closed, so the loop ends only with its future.
    while let Ok(slot) = Arc::clone(slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = Arc::clone(pages);
                tokio::spawn(async move {
                    connection(stream, pages).await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, pages: Arc<Pages>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = pages.answer(request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let serve = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_TIMEOUT, serve).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(_) => tracing::debug!("a connection was closed because it took too long"),
    }
}

impl Pages {
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let page = match (self, path) {
            (Self::Health { live, .. }, "/healthz") => health(live.as_ref()),
            (Self::Health { ready, .. }, "/readyz") => health(ready.as_ref()),
            (Self::Metrics(metrics), "/metrics") => {
                text(StatusCode::OK, metrics::CONTENT_TYPE, metrics.encode())
            }
            _ => return plain(StatusCode::NOT_FOUND, "there is no such page here"),
        };
        if matches!(*method, Method::GET | Method::HEAD) {
            return page;
        }
        let mut refusal = plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are answered here",
        );
        refusal
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        refusal
    }
}

fn health(health: &dyn Health) -> Response<Full<Bytes>> {
    match health.check() {
        Ok(()) => plain(StatusCode::OK, "ok"),
        Err(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, &reason),
    }
}

fn plain(status: StatusCode, sentence: &str) -> Response<Full<Bytes>> {
    text(status, "text/plain; charset=utf-8", format!("{sentence}\n"))
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
