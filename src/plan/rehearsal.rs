//! What the steps of a removal would do, in words, and how the world would look after each of them.

use serde_json::Value;

use super::Action;
use crate::api::RELEASE_NAMESPACE;
use crate::facts::{
    CrdFacts, History, Leavings, Leftover, Observed, ReleaseFacts, Remedy, SurroundingNamespace,
};

/// What an action would do, a line for each object; the objects of the release are told by whoever has its manifest.
pub fn lines(action: &Action) -> Vec<String> {
    match action {
        Action::BeginRemoval { .. } => vec!["note on the GpuModule that its removal has begun".to_owned()],
        Action::RestoreCrds { crds } => crds
            .iter()
            .map(|crd| format!("apply {crd}, without which Helm cannot uninstall"))
            .collect(),
        Action::Discard { revision, why } => {
            vec![format!(
                "delete the Secret of revision {revision} of the release: {}",
                why.why()
            )]
        }
        Action::Upgrade { to, cause } => vec![format!(
            "install chart {} over what stands, so that Helm can uninstall it: {}",
            to.chart,
            cause.why()
        )],
        Action::Uninstall { hooks } => {
            let hooks = if *hooks { "" } else { " without its hooks" };
            vec![format!("uninstall the Helm release{hooks}")]
        }
        Action::Clear { objects, .. } => objects.iter().map(line).collect(),
        Action::RemoveFinalizer => vec!["take the module's finalizer off the GpuModule".to_owned()],
        // No step of a removal by an administrator.
        Action::AddFinalizer
        | Action::OpenNamespace
        | Action::Rollback { .. }
        | Action::Reapply { .. }
        | Action::LabelNodes { .. }
        | Action::Prune { .. } => Vec::new(),
    }
}

fn line(leftover: &Leftover) -> String {
    let object = match &leftover.object.namespace {
        Some(namespace) if namespace != RELEASE_NAMESPACE => {
            format!(
                "{} {namespace}/{}",
                leftover.object.kind.kind, leftover.object.name
            )
        }
        _ => leftover.object.to_string(),
    };
    match &leftover.remedy {
        Remedy::Delete => format!("delete {object}"),
        Remedy::DeleteUnused(_) => format!("delete {object}, if no object of its kind is left then"),
        Remedy::Unapply => format!("take off {object} what the module has put onto it"),
        Remedy::Wait => format!("wait until {object} is gone"),
        Remedy::Blocked(why) => format!("leave {object} if it stays so: {why}"),
        Remedy::Patch(patch) => {
            let mut changes = Vec::new();
            flatten("", patch, &mut changes);
            format!("change {object}: {}", changes.join(", "))
        }
    }
}

/// The leaves of a merge patch, in words.
fn flatten(at: &str, patch: &Value, changes: &mut Vec<String>) {
    match patch {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let below = match at {
                    "" => key.clone(),
                    _ => format!("{at}.{key}"),
                };
                flatten(&below, inner, changes);
            }
        }
        Value::Null => {
            let label = at.strip_prefix("metadata.labels.");
            let annotation = at.strip_prefix("metadata.annotations.");
            changes.push(match (label, annotation) {
                (Some(key), _) => format!("remove label {key}"),
                (_, Some(key)) => format!("remove annotation {key}"),
                _ => format!("remove {at}"),
            });
        }
        value => changes.push(format!("set {at} to {value}")),
    }
}

/// Changes what was observed as the action would change the world.
pub fn pretend(action: &Action, observed: &mut Observed) {
    match action {
        Action::RestoreCrds { crds } => {
            let restored = crds.iter().map(|crd| crd.name.clone());
            let restored = restored.map(|name| (name, CrdFacts::applied()));
            observed.crds.extend(restored);
        }
        Action::Discard { revision, .. } => {
            if let ReleaseFacts::Read(history) = &observed.release {
                let rest = history.all().iter().filter(|one| one.number != *revision);
                observed.release = ReleaseFacts::Read(History::new(rest.cloned().collect()));
            }
        }
        // Installed again, and uninstalled then.
        Action::Uninstall { .. } | Action::Upgrade { .. } => {
            observed.release = ReleaseFacts::Read(History::default());
            if let Some(around) = &mut observed.surroundings {
                around.cluster_role = None;
            }
        }
        Action::Clear { what, .. } => {
            if let Some(left) = observed.left.get_mut(what) {
                left.objects.clear();
            }
            if *what == Leavings::Release
                && let Some(around) = &mut observed.surroundings
            {
                around.cluster_role = None;
            }
            if *what == Leavings::Namespace
                && let Some(around) = &mut observed.surroundings
            {
                around.namespace = SurroundingNamespace::Absent;
            }
        }
        Action::AddFinalizer
        | Action::RemoveFinalizer
        | Action::BeginRemoval { .. }
        | Action::OpenNamespace
        | Action::Rollback { .. }
        | Action::Reapply { .. }
        | Action::LabelNodes { .. }
        | Action::Prune { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::drift::{Kind, ObjectRef};

    #[test]
    fn each_object_is_told_with_what_happens_to_it() {
        let leftover = |remedy| Leftover {
            object: ObjectRef {
                kind: Kind::new("v1", "Node"),
                namespace: None,
                name: "gpu-0".to_owned(),
            },
            uid: String::new(),
            remedy,
        };
        let patch = json!({
            "metadata": { "labels": { "nvidia.com/gpu.present": null }, "annotations": { "a": null } },
            "spec": { "unschedulable": null, "upgradePolicy": { "autoUpgrade": false } },
        });
        assert_eq!(
            line(&leftover(Remedy::Patch(patch))),
            "change Node gpu-0: remove annotation a, remove label nvidia.com/gpu.present, remove spec.unschedulable, set \
             spec.upgradePolicy.autoUpgrade to false"
        );
        assert_eq!(line(&leftover(Remedy::Delete)), "delete Node gpu-0");
        let blocked = Remedy::Blocked("it is needed".to_owned());
        assert_eq!(
            line(&leftover(blocked)),
            "leave Node gpu-0 if it stays so: it is needed"
        );
    }
}
