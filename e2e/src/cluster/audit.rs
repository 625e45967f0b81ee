//! Counts the requests that reached the API server, from its audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;

/// The audit log of a cluster.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// A place in the log, to count from.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// One request. Field names follow the API server's `audit.k8s.io/v1` Event.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    stage: String,
    /// The verb, lower case: get, list, watch, patch and so on.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// What the client says it is, for example `Helm/4.3.1`.
    #[serde(default)]
    pub user_agent: String,
    /// Who made the request.
    pub user: AuditUser,
    /// The answer.
    pub response_status: Option<AuditStatus>,
    /// When it came in.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Option<MicroTime>,
    /// When it was answered.
    #[serde(rename = "stageTimestamp")]
    pub answered: Option<MicroTime>,
    /// What it was about; `None` for requests about no object, `/version` for example.
    pub object_ref: Option<AuditObject>,
}

/// What a request was about. Empty where the request does not say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditObject {
    /// Group of the API; empty for the core.
    pub api_group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// For example `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The user of a request.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditUser {
    /// For example `system:serviceaccount:kyma-system:gpu-manager`.
    #[serde(default)]
    pub username: String,
    /// What else the API server knows, for example the number of the token.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The answer to a request.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditStatus {
    /// The HTTP status.
    #[serde(default)]
    pub code: u16,
}

impl AuditEvent {
    /// Whether this line stands for the request as a whole: every request has one such line. A watch ends
    /// long after it was sent, so its first line counts; of the others, the last.
    fn counts(&self) -> bool {
        self.stage
            == if self.verb == "watch" {
                "ResponseStarted"
            } else {
                "ResponseComplete"
            }
    }
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The current end of the log.
    ///
    /// A request is written when its answer is complete, so the last one before this call may come after.
    pub fn mark(&self) -> Result<Mark> {
        let size = std::fs::metadata(&self.path)
            .with_context(|| self.unreadable())?
            .len();
        Ok(Mark(size))
    }

    /// The requests since a mark, oldest first.
    pub fn since(&self, mark: Mark) -> Result<Vec<AuditEvent>> {
        let mut file = File::open(&self.path).with_context(|| self.unreadable())?;
        file.seek(SeekFrom::Start(mark.0))?;
        let mut events = Vec::new();
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        // A last line without its newline is still being written.
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let event: AuditEvent = serde_json::from_str(&line).with_context(|| self.unreadable())?;
            if event.counts() {
                events.push(event);
            }
            line.clear();
        }
        Ok(events)
    }

    /// How many requests each client has sent since a mark, by the first word of its user agent.
    pub fn count_by_agent(&self, mark: Mark) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for event in self.since(mark)? {
            let agent = event.user_agent.split(' ').next().unwrap_or_default();
            *counts.entry(agent.to_owned()).or_default() += 1;
        }
        Ok(counts)
    }

    fn unreadable(&self) -> String {
        format!("cannot read the audit log {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, agent: &str) -> String {
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","requestURI":"/","userAgent":"{agent}","user":{{"username":"u"}}}}"#
        ) + "\n"
    }

    #[test]
    fn each_request_counts_once_and_only_after_the_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let before = line("ResponseStarted", "watch", "old/1 (x)") + &line("ResponseComplete", "get", "a/1");
        std::fs::write(&path, &before).unwrap();
        let log = AuditLog::new(path.clone());
        let mark = log.mark().unwrap();
        let after = line("ResponseComplete", "watch", "old/1 (x)")
            + &line("ResponseStarted", "watch", "a/1 (y)")
            + &line("ResponseComplete", "get", "a/1")
            + r#"{"stage":"Resp"#;
        std::fs::write(&path, before + &after).unwrap();
        assert_eq!(
            log.count_by_agent(mark).unwrap(),
            BTreeMap::from([("a/1".to_owned(), 2)])
        );
    }
}
