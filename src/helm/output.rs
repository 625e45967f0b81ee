//! Reads what helm prints. No I/O.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The longest message that is passed on, in characters. It ends up in conditions and events.
pub(super) const MAX_MESSAGE_CHARS: usize = 512;
/// Of a longer message, so much of the end stays: Go puts the root cause last.
const END_CHARS: usize = 200;

const ERROR_PREFIX: &str = "Error: ";

/// Status of a revision, as in the label `status` of its Secret (helm.sh/helm/v4 `pkg/release/common/status.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevisionStatus {
    /// The current one.
    Deployed,
    /// Replaced by a later one.
    Superseded,
    /// Did not succeed.
    Failed,
    /// An uninstall began and did not end yet, or broke off.
    Uninstalling,
    /// Removed with its history kept.
    Uninstalled,
    /// A first install runs, or was killed.
    PendingInstall,
    /// An upgrade runs, or was killed.
    PendingUpgrade,
    /// A rollback runs, or was killed.
    PendingRollback,
    /// Helm's own `unknown`, and whatever a later helm may add.
    #[serde(other)]
    Unknown,
}

impl RevisionStatus {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::Deployed,
        Self::Superseded,
        Self::Failed,
        Self::Uninstalling,
        Self::Uninstalled,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
        Self::Unknown,
    ];

    /// As in the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::Uninstalled => "uninstalled",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
            Self::Unknown => "unknown",
        }
    }

    /// Reads the value of the Secret's label.
    pub fn from_label(label: &str) -> Self {
        let text = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(label);
        Self::deserialize(text).unwrap_or(Self::Unknown)
    }

    /// Whether helm refuses an upgrade because of it.
    pub const fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl fmt::Display for RevisionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What `helm get metadata` tells of a revision. Helm 3 leaves out `labels` and `applyMethod`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseMetadata {
    /// Name of the release.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Name of the chart.
    pub chart: String,
    /// Version of the chart.
    pub version: String,
    /// Version of what the chart installs.
    #[serde(default)]
    pub app_version: String,
    /// Number of the revision, from 1.
    pub revision: u32,
    /// Its state.
    pub status: RevisionStatus,
    /// When it was made; `None` where helm prints its zero time.
    #[serde(default, deserialize_with = "timestamp")]
    pub deployed_at: Option<Timestamp>,
    /// `ssa` for server-side apply, `csa` or nothing for client-side apply.
    #[serde(default)]
    pub apply_method: Option<String>,
    /// Labels of its Secret, helm's own included.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Go's zero time is in the year 1; Helm 3 also prints an empty text for it.
    Ok(text.parse().ok().filter(|time: &Timestamp| time.as_second() > 0))
}

/// Reads the output of `helm get metadata --output=json`.
pub(super) fn metadata(stdout: &str) -> Result<ReleaseMetadata, String> {
    serde_json::from_str(stdout).map_err(|error| error.to_string())
}

/// Reads the output of `helm get values --output=json`; a release without values prints `null`.
pub(super) fn values(stdout: &str) -> Result<Value, String> {
    match serde_json::from_str(stdout) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(values @ Value::Object(_)) => Ok(values),
        Ok(_) => Err("the values are no JSON object".to_owned()),
        // The error of serde_json names a position only, never content: values can be secret.
        Err(error) => Err(error.to_string()),
    }
}

/// Helm's last error in one line of bounded length. An error may go over several lines (schema violations do); all
/// from its `Error: ` on belongs to it. Without one, the last line that is not empty has to do.
pub(super) fn error_message(stderr: &str) -> String {
    let start = stderr
        .rmatch_indices(ERROR_PREFIX)
        .map(|(at, _)| at)
        .find(|at| at_line_start(stderr, *at));
    let text = match start {
        Some(start) => &stderr[start + ERROR_PREFIX.len()..],
        None => stderr
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or_default(),
    };
    let line = one_line(text);
    if line.is_empty() {
        "helm gave no reason".to_owned()
    } else {
        shorten(&line)
    }
}

/// Whether the error says that there is no such release or revision.
pub(super) fn is_not_found(message: &str) -> bool {
    message.ends_with("release: not found")
}

/// Whether the error says that the Secret of a revision holds no release. Helm says so only when it is asked for that one
/// revision; in lists it leaves such Secrets out without a word.
pub(super) fn is_undecodable(message: &str) -> bool {
    message.contains("failed to decode data")
}

/// Whether the error says that the API server gives no answer; each command asks it for its version first.
pub(super) fn is_unreachable(message: &str) -> bool {
    message.contains("kubernetes cluster unreachable: ")
}

/// Whether the error says that another helm is at work, or was: its pending revision blocks all later ones. The second
/// text is what the slower of two gets that passed the first check together.
pub(super) fn is_in_progress(message: &str) -> bool {
    message.contains("another operation (install/upgrade/rollback) is in progress")
        || message.ends_with("release: already exists")
}

fn at_line_start(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|before| before == '\n')
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    words.join(" ")
}

fn shorten(line: &str) -> String {
    const GAP: &str = " ... ";
    let count = line.chars().count();
    if count <= MAX_MESSAGE_CHARS {
        return line.to_owned();
    }
    let head = line.chars().take(MAX_MESSAGE_CHARS - END_CHARS - GAP.len());
    let tail = line.chars().skip(count - END_CHARS);
    head.chain(GAP.chars()).chain(tail).collect()
}

#[cfg(test)]
mod tests;
