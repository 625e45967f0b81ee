//! The status of an object that is no valid GpuModule, for example after a downgrade of the module.

use jiff::Timestamp;

use super::conditions::{self, Verdict};
use crate::api::{ConditionType, GpuModuleStatus, State, condition};

/// Most characters of the parser's words.
const MAX_ERROR: usize = 256;

/// Says that the spec cannot be read; what was known of the release and the nodes stays.
pub fn unreadable(
    error: &str,
    generation: i64,
    previous: Option<&GpuModuleStatus>,
    now: Timestamp,
) -> GpuModuleStatus {
    let error: String = error.chars().take(MAX_ERROR).collect();
    let message = format!("this version of the module cannot read the spec, correct it: {error}");
    let verdict = |kind| match kind {
        ConditionType::Configured | ConditionType::Ready => Verdict::no("SpecUnreadable", &message),
        ConditionType::Installed
        | ConditionType::OperandsReady
        | ConditionType::Drifted
        | ConditionType::DriverChangePending
        | ConditionType::Deleted => {
            Verdict::unknown("SpecUnreadable", "not looked at, since the spec cannot be read")
        }
    };
    // What is being deleted is removed whatever its spec says.
    let kinds = ConditionType::ALL.into_iter();
    let kinds = kinds.filter(|kind| *kind != ConditionType::Deleted);
    let verdicts: Vec<_> = kinds.map(|kind| (kind, verdict(kind))).collect();
    let mut conditions = conditions::merge(previous, generation, now, &verdicts);
    let known = [
        ConditionType::Installed,
        ConditionType::OperandsReady,
        ConditionType::DriverChangePending,
    ]
    .map(|kind| condition(previous?, kind));
    for known in known.into_iter().flatten() {
        if let Some(place) = conditions.iter_mut().find(|new| new.type_ == known.type_) {
            place.clone_from(known);
        }
    }
    GpuModuleStatus {
        state: State::Warning,
        description: message,
        observed_generation: generation,
        conditions,
        ..previous.cloned().unwrap_or_else(GpuModuleStatus::blank)
    }
}
