//! Sorts the requests of the operator and of its helm, as the API server's audit log has them.

use std::collections::BTreeMap;

use crate::cluster::AuditEvent;
use crate::manager::MANAGER;

/// How many requests of each sort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Renewals of the Lease.
    pub lease: usize,
    /// Watches that were begun; each is begun anew after some minutes.
    pub watches: usize,
    /// Writes of the GpuModule's status.
    pub status_writes: usize,
    /// Everything else that the operator itself asked for, by verb and path.
    pub others: BTreeMap<String, usize>,
    /// Requests of helm with the operator's rights.
    pub helm: usize,
}

impl Requests {
    /// Sorts the requests with the rights of the operator's ServiceAccount.
    pub fn of(events: &[AuditEvent]) -> Self {
        let account = format!("system:serviceaccount:{MANAGER}:{MANAGER}");
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{MANAGER}/leases/{MANAGER}");
        let operator = format!("{MANAGER}/");
        let mut requests = Self::default();
        for event in events.iter().filter(|event| event.user.username == account) {
            let path = event.request_uri.split('?').next().unwrap_or_default();
            if !event.user_agent.starts_with(&operator) {
                requests.helm += 1;
            } else if path == lease {
                requests.lease += 1;
            } else if event.verb == "watch" {
                requests.watches += 1;
            } else if path.ends_with("/status") && event.verb == "patch" {
                requests.status_writes += 1;
            } else {
                let request = format!("{} {}", event.verb, without_revision(path));
                *requests.others.entry(request).or_default() += 1;
            }
        }
        requests
    }

    /// All that the operator itself sends beyond its Lease and its watches.
    pub fn operator(&self) -> usize {
        self.status_writes + self.others.values().sum::<usize>()
    }
}

/// Secrets of all revisions of a release as one.
fn without_revision(path: &str) -> &str {
    let (release, revision) = path.rsplit_once(".v").unwrap_or((path, ""));
    let is_revision = !revision.is_empty() && revision.bytes().all(|byte| byte.is_ascii_digit());
    if is_revision { release } else { path }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(user: &str, agent: &str, verb: &str, uri: &str) -> AuditEvent {
        serde_json::from_value(json!({
            "stage": "ResponseComplete", "verb": verb, "requestURI": uri, "userAgent": agent,
            "user": { "username": user },
        }))
        .unwrap()
    }

    #[test]
    fn each_request_is_of_one_sort_and_strangers_do_not_count() {
        let account = "system:serviceaccount:gpu-manager:gpu-manager";
        let own = |verb, uri| event(account, "gpu-manager/0.1.0", verb, uri);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/gpu-manager/leases/gpu-manager";
        let module = "/apis/operator.kyma-project.io/v1alpha1/gpumodules/default";
        let requests = Requests::of(&[
            own("patch", &format!("{lease}?fieldManager=x")),
            own("watch", "/api/v1/nodes?watch=true"),
            own("patch", &format!("{module}/status?force=true")),
            own("patch", module),
            own("get", "/version"),
            own("get", "/version"),
            event(
                account,
                "Helm/4.3.1",
                "get",
                "/api/v1/namespaces/gpu-operator/secrets",
            ),
            event("admin", "Helm/4.3.1", "get", "/version"),
            event("admin", "gpu-manager/0.1.0", "get", "/version"),
        ]);
        let others = BTreeMap::from([("get /version".to_owned(), 2), (format!("patch {module}"), 1)]);
        let expected = Requests {
            lease: 1,
            watches: 1,
            status_writes: 1,
            others,
            helm: 1,
        };
        assert_eq!(requests, expected);
        assert_eq!(requests.operator(), 4);
    }
}
