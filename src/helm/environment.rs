//! The environment of helm processes. Nothing is inherited: a stray `HELM_KUBEASUSER` or `KUBECONFIG` of the operator
//! would make helm act as someone else or elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;

use super::workdir::{CACHE, CONFIG, DATA, HOME, KUBE_CACHE, TEMP, WorkDir};

/// Names of variables that may be passed on from the operator's own environment: proxies, trusted CAs, Go's memory
/// limit.
pub const PASSED_ON: [&str; 9] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GOMEMLIMIT",
];

/// Names that are passed on besides when a kubeconfig is used: its credential plugins are found by `PATH` and keep
/// their logins below `HOME`.
pub const PASSED_ON_WITH_KUBECONFIG: [&str; 2] = ["PATH", "HOME"];

const MINIMAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How helm reaches the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAccess {
    /// By the service account whose token and CA are mounted at the usual place.
    InCluster {
        /// `KUBERNETES_SERVICE_HOST`.
        host: String,
        /// `KUBERNETES_SERVICE_PORT`.
        port: String,
    },
    /// By a kubeconfig file.
    Kubeconfig(PathBuf),
}

/// The whole environment, in the order of the process's list. What is not allowed in `passed_on` is left out.
pub(super) fn environment(
    work_dir: &WorkDir,
    api: &ApiAccess,
    passed_on: &[(String, String)],
) -> Vec<(OsString, OsString)> {
    let with_kubeconfig = matches!(api, ApiAccess::Kubeconfig(_));
    let allowed = |name: &str| {
        PASSED_ON.contains(&name) || (with_kubeconfig && PASSED_ON_WITH_KUBECONFIG.contains(&name))
    };
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), MINIMAL_PATH.into()),
        ("HOME".into(), work_dir.folder(HOME)),
        ("TMPDIR".into(), work_dir.folder(TEMP)),
        ("HELM_CACHE_HOME".into(), work_dir.folder(CACHE)),
        ("HELM_CONFIG_HOME".into(), work_dir.folder(CONFIG)),
        ("HELM_DATA_HOME".into(), work_dir.folder(DATA)),
        ("KUBECACHEDIR".into(), work_dir.folder(KUBE_CACHE)),
        ("HELM_DRIVER".into(), "secret".into()),
        // Helm's plugin manager wants a compiler cache in a writable home, and plugins could change what it does.
        ("HELM_NO_PLUGINS".into(), "1".into()),
        ("NO_COLOR".into(), "1".into()),
    ];
    match api {
        ApiAccess::InCluster { host, port } => {
            env.push(("KUBERNETES_SERVICE_HOST".into(), host.into()));
            env.push(("KUBERNETES_SERVICE_PORT".into(), port.into()));
        }
        ApiAccess::Kubeconfig(path) => env.push(("KUBECONFIG".into(), path.into())),
    }
    for (name, value) in passed_on.iter().filter(|(name, _)| allowed(name)) {
        env.retain(|(known, _)| known != name.as_str());
        env.push((name.into(), value.into()));
    }
    env
}
