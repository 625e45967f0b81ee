//! Watches: what has changed since a version, then what changes from now on.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::objects::CRDS;
use super::requests::metadata_of;
use super::{Answer, FakeApi, Recorded, status};

/// One watch.
struct Watch {
    api: FakeApi,
    request: Recorded,
    /// Its number among all requests.
    number: usize,
    seen: u64,
    ends: Instant,
    over: bool,
}

impl FakeApi {
    /// The answer to a watch request.
    pub(super) fn watch(&self, request: Recorded, number: usize) -> Answer {
        let number_of = |name: &str| request.parameter(name).and_then(|text| text.parse().ok());
        let watch = Watch {
            api: self.clone(),
            seen: number_of("resourceVersion").unwrap_or_default(),
            ends: Instant::now() + Duration::from_secs(number_of("timeoutSeconds").unwrap_or(290)),
            request,
            number,
            over: false,
        };
        let ticks = self.lock().ticks.subscribe();
        let lines = futures::stream::unfold((watch, ticks), |(mut watch, mut ticks)| async move {
            loop {
                ticks.borrow_and_update();
                if watch.over {
                    return None;
                }
                let news = watch.news()?;
                if !news.is_empty() {
                    let mut lines = String::new();
                    for event in news {
                        lines.push_str(&event.to_string());
                        lines.push('\n');
                    }
                    return Some((lines, (watch, ticks)));
                }
                tokio::select! {
                    () = sleep_until(watch.ends) => return None,
                    changed = ticks.changed() => changed.ok()?,
                }
            }
        });
        let frames = lines.map(|lines| Ok::<_, std::io::Error>(Frame::data(Bytes::from(lines))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }
}

impl Watch {
    /// What it has to tell; `None` once its connection is cut.
    fn news(&mut self) -> Option<Vec<Value>> {
        let server = self.api.lock();
        if self.number <= server.cut_before {
            return None;
        }
        // Whoever waits for a CRD to be served reads it whole and begins anew.
        let waits = self.request.kind == CRDS && !self.request.metadata_only;
        if server.late.as_ref() == Some(&self.request.kind) && !waits {
            return Some(vec![]);
        }
        if self.seen < server.store.oldest {
            self.over = true;
            return Some(vec![json!({ "type": "ERROR", "object": status(410) })]);
        }
        let news = server.store.since(self.seen, &self.request);
        self.seen = server.store.version;
        let trim = |event: &Value| {
            let mut event = event.clone();
            if self.request.metadata_only {
                event["object"] = metadata_of(&event["object"]);
            }
            event
        };
        Some(news.map(trim).collect())
    }
}
