//! The statuses of ClusterPolicy and NVIDIADriver, in NVIDIA's words.
//!
//! Both carry always two conditions, `Ready` and `Error`, and no observed generation: a `ready` may
//! be older than the last change, and it is also said of a cluster without any GPU.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::{Value, json};

/// What a status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `ready`, `notReady` or `disabled`; `None` leaves what is there.
    pub state: Option<&'static str>,
    /// Whether the condition `Ready` is true (and `Error` false).
    pub ready: bool,
    /// Reason of the condition that is true.
    pub reason: &'static str,
    /// Message of the condition that is true.
    pub message: String,
}

impl Verdict {
    /// All is well, for this reason.
    pub fn ready(reason: &'static str, message: &str) -> Self {
        Self {
            state: Some("ready"),
            ready: true,
            reason,
            message: message.to_owned(),
        }
    }

    /// Something is missing or failed.
    pub fn failed(reason: &'static str, message: String) -> Self {
        Self {
            state: Some("notReady"),
            ready: false,
            reason,
            message,
        }
    }
}

/// The status patch that brings `current` to the verdict; `None` if it says that already.
///
/// Without a state, neither new nor old, there is no status at all: the CRD requires one.
pub fn patch(verdict: &Verdict, current: &Value, namespace: Option<&str>, now: Timestamp) -> Option<Value> {
    let state = verdict.state.or_else(|| known_state(current))?;
    let (ready, error) = if verdict.ready {
        (
            ("True", verdict.reason, verdict.message.as_str()),
            ("False", "Ready", ""),
        )
    } else {
        (
            ("False", "Error", ""),
            ("True", verdict.reason, verdict.message.as_str()),
        )
    };
    let mut changed = current["state"] != state;
    let conditions: Vec<Value> = [("Ready", ready), ("Error", error)]
        .into_iter()
        .map(|(name, (status, reason, message))| {
            let before = condition(current, name);
            let same = |field: &str, value: &str| before.is_some_and(|before| before[field] == value);
            changed |= !(same("status", status) && same("reason", reason) && same("message", message));
            let since = match before {
                Some(before) if same("status", status) => before["lastTransitionTime"].clone(),
                _ => json!(seconds(now)),
            };
            json!({"type": name, "status": status, "reason": reason, "message": message,
                   "lastTransitionTime": since})
        })
        .collect();
    if !changed {
        return None;
    }
    let mut status = json!({"state": state, "conditions": conditions});
    if let Some(namespace) = namespace {
        status["namespace"] = json!(namespace);
    }
    Some(json!({ "status": status }))
}

fn known_state(current: &Value) -> Option<&'static str> {
    ["ready", "notReady", "ignored", "disabled"]
        .into_iter()
        .find(|state| current["state"] == *state)
}

fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == name)
}

fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether ClusterPolicy counts an operand's DaemonSet as ready: no Pod of it is unavailable.
///
/// One that waits for no node is ready. A driver DaemonSet with Pods of an older template is ready
/// too, as measured during driver changes that the controller makes.
pub fn is_operand_ready(daemon_set: &DaemonSet) -> bool {
    let Some(status) = daemon_set.status.as_ref().filter(|_| is_observed(daemon_set)) else {
        return false;
    };
    if status.desired_number_scheduled == 0 {
        return true;
    }
    let available = status.number_available.unwrap_or_default();
    let on_delete = daemon_set
        .spec
        .as_ref()
        .and_then(|spec| spec.update_strategy.as_ref())
        .and_then(|strategy| strategy.type_.as_deref())
        == Some("OnDelete");
    let updated = status.updated_number_scheduled.unwrap_or_default();
    available == status.desired_number_scheduled && (on_delete || updated == status.desired_number_scheduled)
}

/// Whether an NVIDIADriver counts its DaemonSet as ready: every Pod is available and of the newest
/// template.
pub fn is_driver_ready(daemon_set: &DaemonSet) -> bool {
    let Some(status) = daemon_set.status.as_ref().filter(|_| is_observed(daemon_set)) else {
        return false;
    };
    let available = status.number_available.unwrap_or_default();
    status.desired_number_scheduled == available
        && (available == 0 || status.updated_number_scheduled.unwrap_or_default() == available)
}

fn is_observed(daemon_set: &DaemonSet) -> bool {
    let observed = daemon_set
        .status
        .as_ref()
        .and_then(|status| status.observed_generation)
        .unwrap_or_default();
    observed > 0 && observed >= daemon_set.metadata.generation.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_same_verdict_yields_no_patch() {
        let verdict = Verdict::ready("Reconciled", "fine");
        let first = patch(&verdict, &Value::Null, None, at(0)).unwrap();
        assert_eq!(patch(&verdict, &first["status"], None, at(60)), None);
    }

    #[test]
    fn transition_times_move_with_the_conditions_status_only() {
        let first = patch(&Verdict::ready("NoGPUNodes", "none"), &Value::Null, None, at(0)).unwrap();
        let second = patch(
            &Verdict::ready("Reconciled", "fine"),
            &first["status"],
            None,
            at(60),
        )
        .unwrap();
        assert_eq!(
            second["status"]["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:00Z"
        );
        let failed = Verdict::failed("OperandNotReady", "x".to_owned());
        let third = patch(&failed, &second["status"], None, at(120)).unwrap();
        assert_eq!(
            third["status"]["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:02:00Z"
        );
    }

    #[test]
    fn no_state_ever_known_means_no_status() {
        let verdict = Verdict {
            state: None,
            ..Verdict::failed("ReconcileFailed", "x".to_owned())
        };
        assert_eq!(patch(&verdict, &Value::Null, None, at(0)), None);
        let kept = patch(&verdict, &json!({"state": "ready"}), None, at(0)).unwrap();
        assert_eq!(kept["status"]["state"], "ready");
    }

    fn daemon_set(strategy: &str, desired: i32, updated: i32, available: i32) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"generation": 1},
            "spec": {"selector": {}, "template": {}, "updateStrategy": {"type": strategy}},
            "status": {"observedGeneration": 1, "currentNumberScheduled": desired, "numberMisscheduled": 0,
                       "numberReady": available, "desiredNumberScheduled": desired,
                       "updatedNumberScheduled": updated, "numberAvailable": available},
        }))
        .unwrap()
    }

    #[test]
    fn a_pending_driver_change_is_seen_by_nvidia_driver_only() {
        let pending = daemon_set("OnDelete", 2, 0, 2);
        assert!(is_operand_ready(&pending));
        assert!(!is_driver_ready(&pending));
        assert!(is_driver_ready(&daemon_set("OnDelete", 0, 0, 0)));
        assert!(!is_operand_ready(&daemon_set("RollingUpdate", 2, 2, 1)));
    }
}
