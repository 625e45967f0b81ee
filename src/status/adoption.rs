//! `status.adoption`: what taking over a release that the module did not make would drop.

use super::Report;
use crate::api::AdoptionStatus;
use crate::facts::ReleaseFacts;
use crate::plan::{Hold, Plan};

pub fn status(report: &Report<'_>) -> Option<AdoptionStatus> {
    let previous = report.previous.and_then(|previous| previous.adoption.clone());
    let unmarked = match &report.observed.release {
        ReleaseFacts::Read(history) => !history.is_empty() && !history.is_marked(),
        ReleaseFacts::Unreadable => false,
    };
    let listing = match report.plan {
        Plan::Hold(Hold::Unadopted(unadopted)) => unadopted.listing(),
        // An adoption that was confirmed and has not ended yet is still confirmed after a restart.
        _ => None,
    };
    let Some(listing) = listing else {
        return previous.filter(|_| unmarked);
    };
    Some(AdoptionStatus {
        chart_version: listing.chart_version.to_string(),
        revision: i64::from(listing.revision),
        dropped_values: listing.dropped.clone(),
        more_dropped_values: u32::try_from(listing.more).unwrap_or(u32::MAX),
        listed_generation: (!report.adopt).then_some(report.generation),
    })
}
