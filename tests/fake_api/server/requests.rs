//! Requests as the fake reads them.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, request::Parts};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::objects::Key;

/// What a request asks for, in RBAC's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Patch,
    Delete,
    Other,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When it came, in the test's time.
    pub at: Instant,
    pub verb: Verb,
    /// Without the query.
    pub path: String,
    /// Plural and group as in `clusterpolicies.nvidia.com`; only the plural in the core group.
    pub kind: String,
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    pub subresource: String,
    /// The body of a patch or of a new object.
    pub body: Value,
    /// Server-side apply.
    pub applies: bool,
    /// Asks for metadata only.
    pub metadata_only: bool,
    query: Vec<(String, String)>,
}

impl Recorded {
    pub fn new(parts: &Parts, body: Value) -> Self {
        let path = parts.uri.path().to_owned();
        let mut words: Vec<&str> = path.trim_matches('/').split('/').collect();
        // "api/v1/..." or "apis/<group>/<version>/...".
        let mut group = "";
        if words.first() == Some(&"apis") {
            words.remove(0);
            group = words.first().copied().unwrap_or_default();
        }
        words.drain(..2.min(words.len()));
        let mut namespace = "";
        if let ["namespaces", name, _, ..] = *words {
            namespace = name;
            words.drain(..2);
        }
        let word = |index: usize| words.get(index).copied().unwrap_or_default();
        let kind = if group.is_empty() {
            word(0).to_owned()
        } else {
            format!("{}.{group}", word(0))
        };
        let query = read_query(parts.uri.query().unwrap_or_default());
        let header = |name| {
            parts
                .headers
                .get(name)
                .map_or("", |value| value.to_str().unwrap_or(""))
        };
        let collection = !kind.is_empty() && word(1).is_empty();
        let watches = query.iter().any(|(key, value)| key == "watch" && value == "true");
        Self {
            at: Instant::now(),
            verb: match parts.method {
                Method::GET if collection && watches => Verb::Watch,
                Method::GET if collection => Verb::List,
                Method::GET => Verb::Get,
                Method::POST => Verb::Create,
                Method::PATCH => Verb::Patch,
                Method::DELETE => Verb::Delete,
                _ => Verb::Other,
            },
            namespace: namespace.to_owned(),
            name: word(1).to_owned(),
            subresource: word(2).to_owned(),
            body,
            applies: header(CONTENT_TYPE).starts_with("application/apply-patch"),
            metadata_only: header(ACCEPT).contains("as=PartialObjectMetadata"),
            query,
            kind,
            path,
        }
    }

    /// The object that it names.
    pub fn key(&self) -> Key {
        Key {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether it lists or watches a collection.
    pub fn is_watching(&self) -> bool {
        matches!(self.verb, Verb::List | Verb::Watch)
    }

    /// Whether it writes the status of the GpuModule.
    pub fn is_status(&self) -> bool {
        self.verb == Verb::Patch && self.subresource == "status"
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.iter();
        pairs.find_map(|(key, value)| (key == name).then_some(value.as_str()))
    }

    /// Whether the selectors let an object through.
    pub fn selects(&self, object: &Value) -> bool {
        let equal = |selector: &str, at: &dyn Fn(&str) -> Value| {
            selector.split(',').filter(|part| !part.is_empty()).all(|part| {
                let (key, wanted) = part.split_once('=').unwrap_or((part, ""));
                at(key) == *wanted.trim_start_matches('=')
            })
        };
        let labels = self.parameter("labelSelector").unwrap_or_default();
        let fields = self.parameter("fieldSelector").unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        (self.namespace.is_empty() || self.namespace == namespace)
            && equal(labels, &|key| object["metadata"]["labels"][key].clone())
            && equal(fields, &|key| {
                object[key.split('.').next().unwrap_or_default()]["name"].clone()
            })
    }

    /// An answer as it was asked for.
    pub fn trim(&self, mut object: Value) -> Value {
        if !self.metadata_only {
            return object;
        }
        if let Some(items) = object["items"].as_array_mut() {
            for item in items {
                *item = metadata_of(item);
            }
            return object;
        }
        metadata_of(&object)
    }
}

/// An object as `PartialObjectMetadata`.
pub fn metadata_of(object: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"] })
}

fn read_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), decode(value)))
        .collect()
}

/// Undoes percent encoding, as far as selectors need it.
fn decode(text: &str) -> String {
    let known = [("%3D", "="), ("%2C", ","), ("%2F", "/"), ("+", " ")];
    known
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}
