//! The objects of a revision, as Helm applied them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use crate::api::{
    HELM_RELEASE_NAME, HELM_RELEASE_NAMESPACE, LABEL_MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE,
};

/// A kind in one version, as manifests name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// `apiVersion`, for example `apps/v1`.
    pub api_version: String,
    /// For example `Deployment`.
    pub kind: String,
}

impl Kind {
    /// A kind by the two words.
    pub fn new(api_version: &str, kind: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

/// Names one object of a manifest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// The namespace in the manifest, if it is another one than the release's.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// A CRD.
    pub fn crd(name: &str) -> Self {
        Self {
            kind: Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            namespace: None,
            name: name.to_owned(),
        }
    }

    fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let metadata = &object["metadata"];
        Some(Self {
            kind: Kind::new(object["apiVersion"].as_str()?, object["kind"].as_str()?),
            namespace: text(&metadata["namespace"]).filter(|namespace| namespace != RELEASE_NAMESPACE),
            name: text(&metadata["name"])?,
        })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind, self.name)
    }
}

/// Plans are logged, and a plan may name many objects.
impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a revision consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The revision.
    pub revision: u32,
    /// UID of its Secret: a release that is installed anew counts from 1 again.
    pub uid: String,
    objects: BTreeMap<ObjectRef, Value>,
}

impl Manifest {
    /// Reads what `helm get manifest` prints and adds what Helm adds when it applies: the marks by which an uninstall knows its
    /// objects. An object applied without them would lose them, and the uninstall would leave it behind without a word.
    pub fn parse(revision: u32, uid: &str, documents: &str) -> Result<Self, String> {
        // Helm reads YAML 1.1, where 0644 is a number in octal.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(documents, options)
            .map_err(|error| error.to_string())?;
        let mut objects = BTreeMap::new();
        for mut document in documents.into_iter().filter(|document| !document.is_null()) {
            let object = ObjectRef::of(&document).ok_or("an object has no apiVersion, kind or name")?;
            mark_as_helms(&mut document);
            objects.insert(object, document);
        }
        Ok(Self {
            revision,
            uid: uid.to_owned(),
            objects,
        })
    }

    /// The objects, in a fixed order.
    pub fn refs(&self) -> impl Iterator<Item = &ObjectRef> {
        self.objects.keys()
    }

    /// An object as Helm applies it, but for the namespace where the manifest leaves it out.
    pub fn object(&self, object: &ObjectRef) -> Option<&Value> {
        self.objects.get(object)
    }

    /// True where an object asks Helm to leave it where it is (annotation `helm.sh/resource-policy`).
    pub fn is_kept(&self, object: &ObjectRef) -> bool {
        let policy = |object: &Value| object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        self.objects.get(object).is_some_and(policy)
    }

    /// The kinds, each with the namespaces that its objects name.
    pub fn kinds(&self) -> BTreeSet<(Kind, Option<String>)> {
        let kinds = self.objects.keys();
        kinds
            .map(|object| (object.kind.clone(), object.namespace.clone()))
            .collect()
    }
}

/// As Helm's `setMetadataVisitor` does (`pkg/action/validate.go`).
fn mark_as_helms(object: &mut Value) {
    let mut set = |field: &str, key: &str, value: &str| {
        let entries = &mut object["metadata"][field];
        if !entries.is_object() {
            *entries = json!({});
        }
        entries[key] = value.into();
    };
    set("labels", LABEL_MANAGED_BY, "Helm");
    set("annotations", HELM_RELEASE_NAME, RELEASE_NAME);
    set("annotations", HELM_RELEASE_NAMESPACE, RELEASE_NAMESPACE);
}
