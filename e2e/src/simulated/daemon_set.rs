//! Builds DaemonSets with the fields that matter to anybody who looks at the cluster.
//!
//! Volumes, probes and commands are left out: no container ever starts. The Pods carry the hold
//! annotation, so that readiness is the simulated kubelet's affair and not KWOK's.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::change::Kind;
use super::operands::Operand;
use super::policy::{Setup, at, owner_reference, string_map, text};
use super::{hash, names};

/// A container of a DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct Container {
    name: String,
    image: String,
    pull_policy: String,
    env: Vec<Value>,
    args: Value,
    resources: Value,
}

impl Container {
    /// A container with the settings of its part of ClusterPolicy or NVIDIADriver.
    pub fn new(name: &str, image: &str, part: &Value) -> Self {
        let pull_policy = match text(part, "/imagePullPolicy") {
            "" => "IfNotPresent",
            policy => policy,
        };
        Self {
            name: name.to_owned(),
            image: image.to_owned(),
            pull_policy: pull_policy.to_owned(),
            env: at(part, "/env").as_array().cloned().unwrap_or_default(),
            args: at(part, "/args").clone(),
            resources: at(part, "/resources").clone(),
        }
    }

    /// Adds an environment variable, unless the value is empty or the user set it.
    pub fn environment(&mut self, name: &str, value: &str) {
        if !value.is_empty() && !self.env.iter().any(|entry| text(entry, "/name") == name) {
            self.env.push(json!({"name": name, "value": value}));
        }
    }

    fn build(&self) -> Value {
        let mut container = json!({
            "name": self.name,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "securityContext": {"privileged": true},
        });
        if !self.env.is_empty() {
            container["env"] = json!(self.env);
        }
        for (field, value) in [("args", &self.args), ("resources", &self.resources)] {
            if !value.is_null() {
                container[field] = value.clone();
            }
        }
        container
    }
}

/// Everything in which two DaemonSets of the operator differ.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Name of the DaemonSet.
    pub name: String,
    /// Owner references.
    pub owner: Value,
    /// Labels of the DaemonSet alone.
    pub object_labels: BTreeMap<String, String>,
    /// Labels of DaemonSet and Pods.
    pub labels: BTreeMap<String, String>,
    /// Labels by which the DaemonSet finds its Pods.
    pub selector: BTreeMap<String, String>,
    /// Annotations of the DaemonSet.
    pub annotations: BTreeMap<String, String>,
    /// Annotations of the Pods.
    pub pod_annotations: BTreeMap<String, String>,
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the Pods.
    pub tolerations: Value,
    /// Affinity of the Pods, or null.
    pub affinity: Value,
    /// Priority class of the Pods.
    pub priority_class: String,
    /// ServiceAccount of the Pods.
    pub service_account: String,
    /// RuntimeClass of the Pods.
    pub runtime_class: Option<String>,
    /// Whether Pods change only when they are deleted.
    pub on_delete: bool,
    /// Pods that may be unavailable during a rolling update.
    pub max_unavailable: Value,
    /// Switches in the spec of the Pods.
    pub pod_flags: Vec<(&'static str, bool)>,
    /// Init containers.
    pub init: Vec<Container>,
    /// The container.
    pub container: Container,
    /// Pull secrets of the Pods.
    pub secrets: Vec<Value>,
    /// ConfigMap with the device plugin's configuration: the one volume that tells Pods apart.
    pub plugin_config: Option<String>,
}

impl Template {
    /// A DaemonSet that ClusterPolicy owns, with the settings it gives to all of them.
    pub fn of_policy(setup: &Setup<'_>, name: String, labels: BTreeMap<String, String>) -> Self {
        let common = setup.part("daemonsets");
        let mut object_labels = string_map(common, "/labels");
        let mut pod_labels = labels.clone();
        pod_labels.extend(
            object_labels
                .clone()
                .into_iter()
                .filter(|(key, _)| !labels.contains_key(key)),
        );
        object_labels.retain(|key, _| !pod_labels.contains_key(key));
        let max_unavailable = text(common, "/rollingUpdate/maxUnavailable");
        Self {
            name,
            owner: owner_reference(Kind::ClusterPolicy, setup.policy),
            selector: labels,
            object_labels,
            labels: pod_labels,
            annotations: string_map(common, "/annotations"),
            pod_annotations: string_map(common, "/annotations"),
            tolerations: at(common, "/tolerations").clone(),
            priority_class: text(common, "/priorityClassName").to_owned(),
            on_delete: text(common, "/updateStrategy") == "OnDelete",
            max_unavailable: match max_unavailable.parse::<u32>() {
                Ok(count) => json!(count),
                Err(_) if max_unavailable.is_empty() => json!(1),
                Err(_) => json!(max_unavailable),
            },
            ..Self::default()
        }
    }

    /// Adds pull secrets, given by name.
    pub fn pull_secrets(&mut self, names: &Value) {
        let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
        self.secrets.extend(names.map(|name| json!({ "name": name })));
    }

    /// The DaemonSet, with the hash of its content in an annotation.
    pub fn build(self) -> Value {
        let update = if self.on_delete {
            json!({"type": "OnDelete"})
        } else {
            let rolling = json!({"maxUnavailable": self.max_unavailable, "maxSurge": 0});
            json!({"type": "RollingUpdate", "rollingUpdate": rolling})
        };
        let mut pod_annotations = self.pod_annotations.clone();
        pod_annotations.insert(
            names::HOLD.to_owned(),
            "the simulated kubelet drives this Pod".to_owned(),
        );
        let mut labels = self.labels.clone();
        labels.extend(self.object_labels.clone());
        let pod_metadata = json!({"labels": self.labels, "annotations": pod_annotations});
        let mut object = json!({
            "apiVersion": Kind::DaemonSet.api_version(),
            "kind": Kind::DaemonSet.name(),
            "metadata": {
                "name": self.name,
                "namespace": names::NAMESPACE,
                "labels": labels,
                "annotations": self.annotations,
                "ownerReferences": self.owner,
            },
            "spec": {
                "selector": {"matchLabels": self.selector},
                "updateStrategy": update,
                "template": {"metadata": pod_metadata, "spec": self.pod_spec()},
            },
        });
        let content = hash::fnv1a(&object.to_string()).to_string();
        object["metadata"]["annotations"][names::LAST_APPLIED_HASH] = Value::String(content);
        object
    }

    fn pod_spec(self) -> Value {
        let mut spec = Map::new();
        let mut set = |key: &str, value: Value| {
            spec.insert(key.to_owned(), value);
        };
        set("containers", json!([self.container.build()]));
        set("nodeSelector", json!(self.node_selector));
        set("serviceAccountName", json!(self.service_account));
        if !self.init.is_empty() {
            set("initContainers", self.init.iter().map(Container::build).collect());
        }
        if !self.priority_class.is_empty() {
            set("priorityClassName", json!(self.priority_class));
        }
        if let Some(class) = self.runtime_class {
            set("runtimeClassName", json!(class));
        }
        if let Some(name) = self.plugin_config {
            set("volumes", json!([{"name": name, "configMap": {"name": name}}]));
        }
        if !self.secrets.is_empty() {
            set("imagePullSecrets", json!(self.secrets));
        }
        for (key, value) in [("tolerations", self.tolerations), ("affinity", self.affinity)] {
            if !value.is_null() {
                set(key, value);
            }
        }
        for (key, value) in self.pod_flags {
            set(key, json!(value));
        }
        Value::Object(spec)
    }
}

/// The DaemonSet of one operand.
pub fn of_operand(setup: &Setup<'_>, operand: &Operand) -> Value {
    let part = setup.part(operand.part);
    let labels = [
        ("app", Some(operand.name)),
        ("app.kubernetes.io/part-of", operand.part_of),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
    .collect();
    let mut template = Template::of_policy(setup, operand.name.to_owned(), labels);
    if let Some(scc) = operand.scc {
        template
            .annotations
            .insert("openshift.io/scc".to_owned(), scc.to_owned());
    }
    let deploy = format!("{}{}", names::DEPLOY_PREFIX, operand.deploy);
    template.node_selector = [deploy.as_str()]
        .iter()
        .chain(operand.also_needs)
        .map(|key| ((*key).to_owned(), "true".to_owned()))
        .collect();
    operand.service_account.clone_into(&mut template.service_account);
    template.runtime_class = operand.runtime_class.then(|| {
        let class = setup.part("operator");
        if text(class, "/runtimeClass").is_empty() {
            "nvidia"
        } else {
            text(class, "/runtimeClass")
        }
        .to_owned()
    });
    template.pod_flags = operand.pod_flags.to_vec();
    template.pull_secrets(at(part, "/imagePullSecrets"));
    let image = setup.image(part, operand.image_variable);
    template.init = operand
        .init
        .iter()
        .map(|(name, source)| {
            let (variable, settings) = if *source == operand.part {
                (operand.image_variable, part)
            } else {
                ("VALIDATOR_IMAGE", setup.part(source))
            };
            let pull_policy = json!({"imagePullPolicy": text(settings, "/imagePullPolicy")});
            Container::new(name, &setup.image(setup.part(source), variable), &pull_policy)
        })
        .collect();
    template.container = Container::new(operand.container, &image, part);
    match operand.part {
        "toolkit" => template.container.environment("ROOT", text(part, "/installDir")),
        "devicePlugin" | "gfd" => configure_plugin(setup, &mut template),
        _ => {}
    }
    template.build()
}

/// What the device plugin and GPU Feature Discovery are told: how to offer partitions, and where their configuration lies.
fn configure_plugin(setup: &Setup<'_>, template: &mut Template) {
    let strategy = text(setup.part("mig"), "/strategy");
    template.container.environment("MIG_STRATEGY", strategy);
    let config = at(setup.part("devicePlugin"), "/config");
    let name = text(config, "/name");
    if !name.is_empty() {
        template.plugin_config = Some(name.to_owned());
        let default = text(config, "/default");
        template.container.environment("DEFAULT_CONFIG", default);
    }
}
