//! Compares an object with what an apply would make of it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ObjectRef, diff, fields};

/// Most fields that a finding names; more help nobody.
const MOST_FIELDS: usize = 5;

/// An object that is not as the release wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Fields that are other than in the manifest, or not in it; empty where the whole object is missing.
    pub fields: Vec<String>,
    /// Who wrote them, as far as `managedFields` tells: the names of field managers.
    pub managers: Vec<String>,
    /// What puts it right.
    pub repair: Repair,
}

impl Finding {
    /// The whole object is missing.
    pub const fn missing() -> Self {
        Self {
            fields: Vec::new(),
            managers: Vec::new(),
            repair: Repair::Create,
        }
    }

    /// It could not be compared, for this reason.
    pub fn unread(why: &str) -> Self {
        Self {
            fields: Vec::new(),
            managers: Vec::new(),
            repair: Repair::Unread(why.to_owned()),
        }
    }

    /// True where it cannot be put right as things are.
    pub const fn is_impossible(&self) -> bool {
        matches!(self.repair, Repair::Impossible(_) | Repair::Unread(_))
    }

    /// True where nobody knows whether it is as the release wants it.
    pub const fn is_unread(&self) -> bool {
        matches!(self.repair, Repair::Unread(_))
    }
}

/// What puts an object right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// It is gone: apply creates it.
    Create,
    /// Fields of the manifest have another value: apply sets them.
    Apply,
    /// Somebody added fields. They are made Helm's, so that the apply that follows, in which they are not, removes them.
    Disown {
        /// The version of the object that this is about.
        resource_version: String,
        /// Its new `metadata.managedFields`.
        managed_fields: Value,
    },
    /// The API server does not accept the manifest for the object that is there, in its own words.
    Impossible(String),
    /// It is not known whether there is anything to put right: the object could not be compared, for this reason.
    Unread(String),
}

/// An object that the API server does not let be changed to what it should be.
pub fn refused(message: &str) -> Finding {
    Finding {
        fields: Vec::new(),
        managers: Vec::new(),
        repair: Repair::Impossible(message.to_owned()),
    }
}

/// Compares `live` with `applied`, the answer to a dry run of Helm's apply. `manager` is Helm's name as a field manager.
///
/// An object that is being deleted is no finding: once it is gone, it is missing.
pub fn judge(object: &ObjectRef, live: &Value, applied: &Value, manager: &str) -> Option<Finding> {
    if live["metadata"]["deletionTimestamp"].is_string() {
        return None;
    }
    let before = Ownership::read(live, manager);
    let after = Ownership::read(applied, manager);
    let wanted = &after.helm;
    let mut found = diff::differences(live, applied);
    let mut managers = BTreeSet::new();
    // What was Helm's and is somebody else's now.
    for (writer, set) in before.others.iter().map(|entry| (entry.manager(), &entry.fields)) {
        let taken = fields::without(&fields::common(set, wanted), &before.helm);
        if !found.is_empty() && !fields::is_empty(&taken) {
            managers.insert(writer.to_owned());
        }
    }
    // What somebody has that is not Helm's even after an apply.
    let mut added = json!({});
    for entry in &after.others {
        let own = fields::without(&fields::of_interest(&entry.fields, &object.kind.kind), wanted);
        if !fields::is_empty(&own) {
            managers.insert(entry.manager().to_owned());
            added = fields::union(&added, &own);
        }
    }
    let repair = if fields::is_empty(&added) {
        Repair::Apply
    } else {
        Repair::Disown {
            resource_version: live["metadata"]["resourceVersion"].as_str()?.to_owned(),
            managed_fields: disown(live, &added, manager),
        }
    };
    // A field that was replaced by another one counts once.
    for path in fields::paths(&added) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found.truncate(MOST_FIELDS);
    (!found.is_empty()).then(|| Finding {
        fields: found,
        managers: managers.into_iter().collect(),
        repair,
    })
}

/// An entry of `managedFields`.
struct Entry<'a> {
    value: &'a Value,
    fields: Value,
}

impl Entry<'_> {
    fn manager(&self) -> &str {
        self.value["manager"].as_str().unwrap_or("unknown")
    }
}

/// Who owns which fields; entries of subresources left out.
struct Ownership<'a> {
    /// What Helm has applied.
    helm: Value,
    others: Vec<Entry<'a>>,
}

impl<'a> Ownership<'a> {
    fn read(object: &'a Value, manager: &str) -> Self {
        let mut ownership = Self {
            helm: json!({}),
            others: Vec::new(),
        };
        for value in entries(object).filter(|value| fields::counts(value["subresource"].as_str())) {
            if is_helms(value, manager) {
                ownership.helm = fields::union(&ownership.helm, &value["fieldsV1"]);
            } else {
                let fields = value["fieldsV1"].clone();
                ownership.others.push(Entry { value, fields });
            }
        }
        ownership
    }
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
}

/// True for what Helm has applied; what it once updated as version 3 did is like anybody's.
fn is_helms(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
}

/// The entries of `live` with all of `added` moved into Helm's.
fn disown(live: &Value, added: &Value, manager: &str) -> Value {
    let mut moved = Vec::new();
    let mut helms = None;
    for entry in entries(live) {
        if is_helms(entry, manager) {
            let mut entry = entry.clone();
            entry["fieldsV1"] = fields::union(&entry["fieldsV1"], added);
            helms = Some(moved.len());
            moved.push(entry);
        } else if fields::counts(entry["subresource"].as_str()) {
            let left = fields::remove(&entry["fieldsV1"], added);
            if !fields::is_empty(&left) {
                let mut entry = entry.clone();
                entry["fieldsV1"] = left;
                moved.push(entry);
            }
        } else {
            moved.push(entry.clone());
        }
    }
    if helms.is_none() {
        moved.push(Value::Object(Map::from_iter([
            ("manager".to_owned(), json!(manager)),
            ("operation".to_owned(), json!("Apply")),
            ("apiVersion".to_owned(), live["apiVersion"].clone()),
            ("fieldsType".to_owned(), json!("FieldsV1")),
            ("fieldsV1".to_owned(), added.clone()),
        ])));
    }
    Value::Array(moved)
}
