//! The objects, and the log of their changes.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::Recorded;

pub const GPU_MODULES: &str = "gpumodules.operator.kyma-project.io";
pub const NODES: &str = "nodes";
pub const SECRETS: &str = "secrets";
pub const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
pub const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";

/// The namespace of the release.
const NAMESPACE: &str = "gpu-operator";

/// Names one object. Without a namespace it stands for the first of that kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn named(kind: &str, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    fn of(kind: &str, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self {
            kind: kind.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
        }
    }
}

#[derive(Clone)]
struct Change {
    version: u64,
    kind: String,
    event: Value,
}

/// The store.
#[derive(Clone, Default)]
pub struct Store {
    /// Version of the last change.
    pub version: u64,
    /// Watches from before this version cannot go on.
    pub oldest: u64,
    objects: BTreeMap<Key, Value>,
    changes: Vec<Change>,
}

impl Store {
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(&self.full(key))
    }

    /// Whether there is such a kind.
    pub fn serves(&self, kind: &str) -> bool {
        let custom = kind.contains(".nvidia.com") || kind.contains(".nfd.");
        !custom || self.get(&Key::named(CRDS, kind)).is_some()
    }

    pub fn has_role_binding(&self) -> bool {
        self.get(&Key::named(ROLE_BINDINGS, "gpu-manager-release"))
            .is_some()
    }

    pub fn list(&self, request: &Recorded) -> Value {
        let of_kind = self.objects.iter().filter(|(key, _)| key.kind == request.kind);
        let items: Vec<_> = of_kind
            .map(|(_, object)| object.clone())
            .filter(|object| request.selects(object))
            .collect();
        json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": self.version.to_string() },
            "items": items })
    }

    pub fn since<'a>(&'a self, version: u64, request: &'a Recorded) -> impl Iterator<Item = &'a Value> {
        let news = self.changes.iter().filter(move |change| change.version > version);
        news.filter(|change| change.kind == request.kind)
            .map(|change| &change.event)
            .filter(|event| request.selects(&event["object"]))
    }

    pub fn forget_changes(&mut self) {
        self.version += 1;
        self.oldest = self.version;
        self.changes.clear();
    }

    /// Creates or replaces.
    pub fn put(&mut self, kind: &str, object: Value) -> Value {
        self.store(Key::of(kind, &object), object)
    }

    pub fn edit(&mut self, key: &Key, edit: impl FnOnce(&mut Value)) -> Value {
        let key = self.full(key);
        let mut object = self.objects[&key].clone();
        edit(&mut object);
        self.store(key, object)
    }

    pub fn delete(&mut self, key: &Key) {
        let key = self.full(key);
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return;
        };
        let goes_with_it = self.objects.keys().filter(|other| match key.kind.as_str() {
            CRDS => other.kind == key.name,
            "namespaces" => other.namespace == key.name,
            _ => false,
        });
        for other in goes_with_it.cloned().collect::<Vec<_>>() {
            self.remove(&other);
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-11-30T08:00:00Z");
        self.store(key, object);
    }

    /// Merge patch or server-side apply, on the object or its status.
    pub fn patch(&mut self, request: &Recorded) -> Result<Value, u16> {
        let key = request.key();
        let mut object = match self.objects.get(&key) {
            Some(object) => object.clone(),
            None if request.applies && request.subresource.is_empty() => json!({}),
            None => return Err(404),
        };
        let body = &request.body;
        let expected = &body["metadata"]["resourceVersion"];
        if !expected.is_null() && object["metadata"]["resourceVersion"] != *expected {
            return Err(409);
        }
        match request.subresource.as_str() {
            // One manager owns the whole status, so applying it replaces it.
            "status" => object["status"] = body["status"].clone(),
            _ => json_patch::merge(&mut object, body),
        }
        if key.kind == CRDS {
            object["status"] = json!({ "conditions": [
                { "type": "Established", "status": "True" }, { "type": "NamesAccepted", "status": "True" },
            ]});
        }
        Ok(self.store(key, object))
    }

    /// Makes the release's Secrets those in the folder; true where something changed.
    pub fn read_releases(&mut self, folder: &Path) -> bool {
        let before = self.version;
        let mut revisions: Vec<u32> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        revisions.sort_unstable();
        let name = |number: u32| format!("sh.helm.release.v1.gpu-operator.v{number}");
        for number in &revisions {
            let latest = revisions.last() == Some(number);
            let mut labels = json!({ "owner": "helm", "name": "gpu-operator", "version": number.to_string(),
                "status": if latest { "deployed" } else { "superseded" } });
            let lines = std::fs::read_to_string(folder.join(number.to_string()).join("labels"));
            for (key, value) in lines
                .unwrap_or_default()
                .lines()
                .filter_map(|l| l.split_once('='))
            {
                labels[key] = value.into();
            }
            self.put(
                SECRETS,
                json!({ "apiVersion": "v1", "kind": "Secret", "data": { "release": "c2VjcmV0" },
                    "metadata": { "name": name(*number), "namespace": NAMESPACE, "labels": labels } }),
            );
        }
        let kept: Vec<_> = revisions.iter().map(|number| name(*number)).collect();
        let gone = self.objects.keys().filter(|key| {
            key.kind == SECRETS && key.name.starts_with("sh.helm.") && !kept.contains(&key.name)
        });
        for key in gone.cloned().collect::<Vec<_>>() {
            self.remove(&key);
        }
        self.version != before
    }

    fn full(&self, key: &Key) -> Key {
        let same = |other: &&Key| other.kind == key.kind && other.name == key.name;
        match self.objects.keys().find(same) {
            Some(found) if key.namespace.is_empty() => found.clone(),
            _ => key.clone(),
        }
    }

    fn store(&mut self, key: Key, mut object: Value) -> Value {
        let old = self.objects.get(&key);
        let metadata = &mut object["metadata"];
        if metadata["deletionTimestamp"].is_string()
            && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
        {
            self.remove(&key);
            return object;
        }
        for field in ["resourceVersion", "uid", "creationTimestamp"] {
            match old {
                Some(old) => metadata[field] = old["metadata"][field].clone(),
                None if field == "uid" => metadata[field] = json!(format!("uid-{}", self.version)),
                None if field == "creationTimestamp" && metadata[field].is_null() => {
                    metadata[field] = json!("2026-11-30T08:00:00Z");
                }
                None => {}
            }
        }
        let generation = old.map_or(0, |old| old["metadata"]["generation"].as_i64().unwrap_or(0));
        let same_spec = old.is_some_and(|old| old["spec"] == object["spec"]);
        object["metadata"]["generation"] = json!(generation + i64::from(!same_spec));
        if old == Some(&object) {
            return object;
        }
        let event = if old.is_some() { "MODIFIED" } else { "ADDED" };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log(&key, event, &object);
        self.objects.insert(key, object.clone());
        object
    }

    fn remove(&mut self, key: &Key) {
        if let Some(mut object) = self.objects.remove(key) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.log(key, "DELETED", &object);
        }
    }

    fn log(&mut self, key: &Key, event: &str, object: &Value) {
        self.changes.push(Change {
            version: self.version,
            kind: key.kind.clone(),
            event: json!({ "type": event, "object": object }),
        });
    }
}
