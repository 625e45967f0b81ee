//! Calls to the Kubernetes API that always end.
//!
//! kube 5 sets no read timeout on a client (watches are long-lived) and retries 429, 503 and 504 up to 15 times, so
//! one plain call can take minutes or hang for ever. Every ordinary call goes through [`deadline`], which also gives
//! its error the name of what was being done.

use std::fmt::Debug;
use std::{borrow::Cow, future::Future, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::FIELD_MANAGER;

/// How long an ordinary API call may take, retries inside the client included.
pub const API_DEADLINE: Duration = Duration::from_secs(10);

/// What went wrong with one API call.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No answer within the deadline; the server may still carry the request out.
    #[error("cannot {what}: the Kubernetes API did not answer within {} s", limit.as_secs_f64())]
    TimedOut {
        /// The action, in words that follow "cannot".
        what: Cow<'static, str>,
        /// The deadline that passed.
        limit: Duration,
    },
    /// The API server refused the request, or the connection to it failed.
    #[error("cannot {what}: {}", sentence(source))]
    Kube {
        /// The action, in words that follow "cannot".
        what: Cow<'static, str>,
        /// The client's own error.
        source: kube::Error,
    },
}

impl ApiError {
    /// HTTP status code of the API server's answer, if it answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Kube {
                source: kube::Error::Api(status),
                ..
            } => Some(status.code),
            Self::Kube { .. } | Self::TimedOut { .. } => None,
        }
    }

    /// Whether the object, or the whole API it belongs to, does not exist.
    ///
    /// The code decides and not the reason: for a resource whose CRD is missing the API server answers 404 in plain
    /// text, without a reason.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the manager's ServiceAccount lacks a right.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the API server's authoriser refuses, and no policy or webhook that forbids this very change: it names the user and what that
    /// user cannot do. Applying the ClusterRoles again helps then.
    pub fn is_missing_right(&self) -> bool {
        let text = self.to_string();
        self.is_forbidden() && text.contains(": User \"") && text.contains("\" cannot ")
    }

    /// Whether somebody else wrote first: the object exists already, or its `resourceVersion` is an older one.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// Whether the API server refuses this very object, while others may well be accepted: an immutable field, a schema, a
    /// webhook, a kind that is just going, or a binding to a role to which somebody has added rights that the operator lacks.
    pub fn is_about_object(&self) -> bool {
        matches!(self.code(), Some(400 | 403 | 404 | 405 | 409 | 413 | 422))
    }

    /// Whether the API server could not be reached at all, so that every other request is in vain as well. One that is answered with an
    /// error, or by nobody in time, may meet a webhook that concerns its object alone.
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Kube { source, .. } => !matches!(source, kube::Error::Api(_)),
            Self::TimedOut { .. } => false,
        }
    }

    /// Whether the API server found the object itself at fault, so that sending it again cannot help.
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }
}

/// One sentence for a client error; kube's own text for a refusal repeats it as a Rust structure.
fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} (HTTP {})", status.message.trim(), status.code),
        other => other.to_string(),
    }
}

/// Runs one API call and gives up waiting for it after `limit`.
///
/// `what` completes the sentence "cannot ...", for example `read Node worker-1`. Dropping the future also stops the
/// client's retries; the server may nevertheless have carried out a request that it had received.
pub async fn deadline<T>(
    limit: Duration,
    what: impl Into<Cow<'static, str>>,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(ApiError::Kube {
            what: what.into(),
            source,
        }),
        Err(_) => Err(ApiError::TimedOut {
            what: what.into(),
            limit,
        }),
    }
}

/// Server-side-applies `object` as the module and returns its metadata. Fields that others own are taken over.
pub async fn apply<K>(api: &Api<K>, name: &str, object: &Value) -> Result<ObjectMeta, ApiError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let patch = Patch::Apply(object);
    let what = format!("apply {} {name}", K::kind(&()));
    deadline(API_DEADLINE, what, api.patch_metadata(name, &params, &patch))
        .await
        .map(|applied| applied.metadata)
}

/// Turns "not found" into `None`, for both the missing object and the missing API.
pub fn found<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refusal(message: &str, reason: &str, code: u16) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_call_ends_at_its_deadline() {
        let started = tokio::time::Instant::now();
        let hung = std::future::pending::<kube::Result<()>>();
        let error = deadline(Duration::from_secs(5), "read Node worker-1", hung)
            .await
            .unwrap_err();
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        assert_eq!(
            error.to_string(),
            "cannot read Node worker-1: the Kubernetes API did not answer within 5 s"
        );
        assert_eq!(error.code(), None);
    }

    #[tokio::test]
    async fn refusals_are_told_apart_by_code() {
        for (code, reason) in [
            (404, "NotFound"),
            (404, "Failed to parse error data"),
            (403, "Forbidden"),
        ] {
            let call = async { Err::<(), _>(refusal("404 page not found", reason, code)) };
            let error = deadline(API_DEADLINE, "list ClusterPolicies", call)
                .await
                .unwrap_err();
            assert_eq!(error.is_not_found(), code == 404, "{error}");
            assert_eq!(error.is_forbidden(), code == 403, "{error}");
            assert!(!error.is_conflict(), "{error}");
            assert!(!error.is_unreachable(), "{error}");
            assert_eq!(found(Err::<(), _>(error)).is_ok(), code == 404);
        }
    }

    #[tokio::test]
    async fn a_refusal_reads_as_one_sentence() {
        let call = async { Err::<(), _>(refusal("nodes is forbidden", "Forbidden", 403)) };
        let error = deadline(API_DEADLINE, "list Nodes", call).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot list Nodes: nodes is forbidden (HTTP 403)"
        );
    }
}
