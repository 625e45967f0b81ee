//! Conditions without time become conditions with time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{ConditionType, GpuModuleStatus, condition};

/// Most characters of a condition's message; Kubernetes allows 32,768, a person reads fewer.
pub const MAX_MESSAGE: usize = 1024;

/// What a condition says, without time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    status: &'static str,
    /// Why, in CamelCase.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Verdict {
    /// True or False.
    pub fn new(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: if holds { "True" } else { "False" },
            reason,
            message: message.into(),
        }
    }

    /// Condition status True.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(true, reason, message)
    }

    /// Condition status False.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(false, reason, message)
    }

    /// Condition status Unknown.
    pub fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: "Unknown",
            reason,
            message: message.into(),
        }
    }

    /// Whether the condition holds.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// Dates the verdicts: a transition time changes only with the status of its condition.
pub fn merge(
    previous: Option<&GpuModuleStatus>,
    generation: i64,
    now: Timestamp,
    verdicts: &[(ConditionType, Verdict)],
) -> Vec<Condition> {
    let dated = |(kind, verdict): &(ConditionType, Verdict)| {
        let old = previous.and_then(|previous| condition(previous, *kind));
        let since = old
            .filter(|old| old.status == verdict.status)
            .map(|old| old.last_transition_time.clone());
        Condition {
            type_: kind.as_str().to_owned(),
            status: verdict.status.to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.chars().take(MAX_MESSAGE).collect(),
            last_transition_time: since.unwrap_or_else(|| Time(whole_seconds(now))),
            observed_generation: Some(generation),
        }
    };
    verdicts.iter().map(dated).collect()
}

/// Kubernetes keeps transition times in whole seconds; a fraction would never compare equal after a read.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
