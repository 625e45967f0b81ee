//! Why the namespace of the release is still there, as Kubernetes says, and what to do.

use super::Report;
use crate::facts::HoldCause;

/// Most characters of each of Kubernetes' messages: a failure to list APIs names them all.
const MAX_MESSAGE: usize = 300;

/// In words that follow others; empty where Kubernetes says nothing.
pub fn held(report: &Report<'_>) -> String {
    let around = report.observed.surroundings.as_ref();
    let departure = around.and_then(|around| around.departure.as_ref());
    let held_by = departure.map_or(&[][..], |departure| &departure.held_by);
    let Some(worst) = held_by.first() else {
        return String::new();
    };
    let said = held_by
        .iter()
        .map(|hold| hold.message.chars().take(MAX_MESSAGE).collect());
    let said: Vec<String> = said.collect();
    format!(" ({}); {}", said.join("; "), todo(worst.cause))
}

const fn todo(cause: HoldCause) -> &'static str {
    match cause {
        HoldCause::ApiUnlisted => "repair the API that cannot be listed, or delete its APIService",
        HoldCause::DeletionFailed => "delete with kubectl what is left there, which tells what refuses it",
        HoldCause::Finalizers => {
            "see that the program runs that these finalizers belong to, or take them off if it is gone"
        }
        HoldCause::Objects => "delete what is left there if it does not end by itself",
    }
}
