//! What a place in a rendered object decides.

use serde_json::Value;

/// A place in an object: its kind, and the way through its fields, lists as `[]`.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub kind: &'a str,
    pub path: &'a str,
}

/// Kinds that are about who may do what.
const ACCOUNTS: [&str; 5] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// Fields that decide, with all below them, nothing of weight: how something is called, scheduled, sized, replaced, probed
/// or scraped. A probe is one of a ClusterPolicy or NVIDIADriver, which takes times and no command.
const HARMLESS: [&str; 38] = [
    "additionalLabels",
    "affinity",
    "annotations",
    "containerPort",
    "default",
    "defaultGPUMode",
    "defaultMode",
    "dnsPolicy",
    "egress",
    "failureThreshold",
    "imagePullPolicy",
    "imagePullSecrets",
    "ingress",
    "initialDelaySeconds",
    "internalTrafficPolicy",
    "interval",
    "kernelModuleType",
    "labels",
    "livenessProbe",
    "matchExpressions",
    "matchLabels",
    "matchNames",
    "minAvailable",
    "nodeSelector",
    "periodSeconds",
    "podLabelAllowlistRegex",
    "readinessProbe",
    "relabelings",
    "replicas",
    "resources",
    "revisionHistoryLimit",
    "runtimeClass",
    "scrapeTimeout",
    "serviceMonitor",
    "startupProbe",
    "strategy",
    "successThreshold",
    "timeoutSeconds",
];

/// The same, of how Pods are replaced.
const REPLACING: [&str; 4] = [
    "rollingUpdate",
    "unhealthyPodEvictionPolicy",
    "updateStrategy",
    "upgradePolicy",
];

impl Place<'_> {
    /// What the place decides, if it is anything of weight. An error where that is not known.
    pub fn decides(self) -> Result<Option<&'static str>, ()> {
        let Place { kind, path } = self;
        let last = path.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
        let has = |field: &str| path.split(['.', '[', ']']).any(|part| part == field);
        let has_any = |fields: &[&str]| fields.iter().any(|field| has(field));
        let is_account = ACCOUNTS.contains(&kind);
        let of_pod = path.starts_with(".spec.template.spec.");
        let what = if has("labels") {
            return Ok(None);
        } else if has_any(&["env", "envFrom"]) {
            "environment"
        } else if ["args", "command", "exec", "lifecycle"].contains(&last)
            || (of_pod && last.ends_with("Probe"))
        {
            "arguments"
        } else if ["image", "repository", "version", "tag"].contains(&last) {
            "images"
        } else if ["containers", "initContainers", "ephemeralContainers"].contains(&last) {
            "containers of one's own"
        } else if has("hostPath") || ["installDir", "hpcJobMapping"].contains(&last) {
            "paths of the host"
        } else if of_pod && has_any(&["volumes", "volumeMounts", "volumeDevices"]) {
            "volumes"
        } else if is_account || has_any(&["serviceAccount", "serviceAccountName"]) {
            "accounts and roles"
        } else if path.to_lowercase().contains("securitycontext")
            || ["hostNetwork", "hostPID", "hostIPC", "hostUsers", "privileged"].contains(&last)
        {
            "rights of Pods"
        } else if last == "namespace" {
            "namespaces"
        } else if ["secretEnv", "secretName"].contains(&last) {
            "Secrets"
        } else if has_any(&HARMLESS) || has_any(&REPLACING) {
            return Ok(None);
        } else if kind == "ConfigMap" || ["name", "configMapName", "config"].contains(&last) {
            "ConfigMaps"
        } else {
            return Err(());
        };
        Ok(Some(what))
    }
}

/// Tells every text and key of an object, and every other value, with its place.
pub fn walk(value: &Value, path: &str, tell: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                tell(path, key);
                walk(value, &format!("{path}.{key}"), tell);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| walk(item, &format!("{path}[]"), tell)),
        Value::String(text) => tell(path, text),
        other => tell(path, &other.to_string()),
    }
}

#[test]
fn what_a_place_decides() {
    let decides = |kind: &str, path: &str| Place { kind, path }.decides();
    for (kind, path, what) in [
        (
            "DaemonSet",
            ".spec.template.spec.initContainers[]",
            "containers of one's own",
        ),
        (
            "Deployment",
            ".spec.template.spec.containers",
            "containers of one's own",
        ),
        (
            "Job",
            ".spec.template.spec.containers[].env[].value",
            "environment",
        ),
        (
            "Job",
            ".spec.template.spec.containers[].livenessProbe",
            "arguments",
        ),
        ("Job", ".spec.template.spec.volumes[]", "volumes"),
        (
            "Job",
            ".spec.template.spec.volumes[].hostPath.path",
            "paths of the host",
        ),
        (
            "Job",
            ".spec.template.spec.serviceAccountName",
            "accounts and roles",
        ),
        ("ServiceAccount", ".metadata.annotations", "accounts and roles"),
        ("ClusterPolicy", ".spec.dcgm.image", "images"),
        ("ClusterPolicy", ".spec.dcgm.hostPID", "rights of Pods"),
        ("ConfigMap", ".data.config", "ConfigMaps"),
    ] {
        assert_eq!(decides(kind, path), Ok(Some(what)), "{kind} {path}");
    }
    assert_eq!(decides("ClusterRole", ".metadata.labels.app"), Ok(None));
    assert_eq!(decides("ClusterPolicy", ".spec.dcgm.resources.limits"), Ok(None));
    assert_eq!(decides("ClusterPolicy", ".spec.dcgm.somethingNew"), Err(()));
}
