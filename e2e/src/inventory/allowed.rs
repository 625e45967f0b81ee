//! What may differ after a removal, and why. Everything else must be as before.

/// Objects that are left out: kind, beginning and end of the name with its namespace, and the reason.
const OBJECTS: [(&str, &str, &str, &str); 9] = [
    (
        "CustomResourceDefinition",
        "",
        ".nvidia.com",
        "they stay: with them, objects of other people would go",
    ),
    (
        "CustomResourceDefinition",
        "",
        ".nfd.k8s-sigs.io",
        "they stay: another Node Feature Discovery may need them",
    ),
    (
        "APIService",
        "",
        ".nvidia.com",
        "the API server makes one for each group of a CRD",
    ),
    (
        "APIService",
        "",
        ".nfd.k8s-sigs.io",
        "the API server makes one for each group of a CRD",
    ),
    (
        "Event",
        "",
        "",
        "a record of what has happened, which Kubernetes deletes after an hour",
    ),
    (
        "Lease",
        "gpu-manager/gpu-manager",
        "",
        "the operator's own, which it renews as long as it runs",
    ),
    ("Lease", "kube-node-lease/", "", "heartbeats of the nodes"),
    (
        "Lease",
        "kube-system/apiserver-",
        "",
        "heartbeats of the API server",
    ),
    (
        "ComponentStatus",
        "",
        "",
        "no object: the API server asks its parts when it is read",
    ),
];

/// Labels and annotations that are left out: kind, beginning of the key, and the reason.
const KEYS: [(&str, &str, &str); 3] = [
    (
        "Node",
        "node.alpha.kubernetes.io/",
        "the controllers of Kubernetes count nodes in it",
    ),
    (
        "Node",
        "volumes.kubernetes.io/",
        "the kubelet says by it that volumes are its affair",
    ),
    (
        "Deployment",
        "deployment.kubernetes.io/",
        "Kubernetes counts in it how often the Deployment was rolled out",
    ),
];

/// Why the object is left out, if it is.
pub fn object(kind: &str, name: &str) -> Option<&'static str> {
    let found = OBJECTS
        .iter()
        .find(|(of, begin, end, _)| *of == kind && name.starts_with(begin) && name.ends_with(end));
    found.map(|(.., why)| *why)
}

/// Why a label or annotation is left out, if it is.
pub fn key(kind: &str, key: &str) -> Option<&'static str> {
    let found = KEYS
        .iter()
        .find(|(of, begin, _)| *of == kind && key.starts_with(begin));
    found.map(|(.., why)| *why)
}
